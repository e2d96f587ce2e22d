//! Everything that a store tells about its jobs, question by question, to be compared between a whole and a damaged file.

use std::collections::BTreeMap;

use windlass::job::{JobId, JobState};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{Filter, ListRequest, Order, Store, SubmitOptions};

use super::load::new_job;

/// Answers by question; an error is an answer too.
pub(super) struct Fingerprint {
    /// About single jobs: a wrong answer here is wrong data served, whatever is noticed later.
    pub(super) jobs: BTreeMap<String, Result<String, String>>,
    /// Lists, settings and the audit trail: a wrong answer here must at least be found by verification.
    pub(super) others: BTreeMap<String, Result<String, String>>,
}

impl Fingerprint {
    /// Asks a store about these jobs and these idempotency keys.
    pub(super) async fn of(store: &Store, ids: &[JobId], keys: &[String]) -> Fingerprint {
        let mut taken = Fingerprint { jobs: BTreeMap::new(), others: BTreeMap::new() };
        for id in ids {
            taken.jobs.insert(id.to_string(), job(store, *id).await);
        }
        for state in JobState::ALL {
            let filter = Filter { states: vec![state], ..Filter::default() };
            taken.others.insert(format!("list {state}"), list(store, filter).await);
        }
        taken.others.insert("list".into(), list(store, Filter::default()).await);
        let config = store.config(&Caller::local()).await.map_err(|error| error.to_string());
        taken.others.insert("config".into(), config.map(|config| format!("{config:?}")));
        taken.others.insert("audit".into(), audit(store).await);
        taken.others.insert("keys".into(), resubmit(store, keys).await);
        taken
    }

    /// Wrong answers, about single jobs and about the rest; an error is not a wrong answer.
    pub(super) fn wrong(&self, reference: &Fingerprint) -> [Vec<String>; 2] {
        let differing = |own: &BTreeMap<String, Result<String, String>>, right: &BTreeMap<_, _>| {
            own.iter()
                .filter(|(key, answer)| answer.is_ok() && right.get(*key) != Some(*answer))
                .map(|(key, _)| key.clone())
                .collect()
        };
        [differing(&self.jobs, &reference.jobs), differing(&self.others, &reference.others)]
    }

    /// Questions that were answered with an error.
    pub(super) fn errors(&self) -> usize {
        self.jobs.values().chain(self.others.values()).filter(|answer| answer.is_err()).count()
    }
}

/// One job with all its data.
async fn job(store: &Store, id: JobId) -> Result<String, String> {
    let me = Caller::local();
    let text = |error: windlass::error::StoreError| error.to_string();
    let snapshot = store.get(&me, id).await.map_err(text)?;
    let payload = snapshot.as_ref().map(|found| found.spec.payload.bytes.to_vec());
    let attempts = store.attempts(&me, id).await.map_err(text)?;
    let checkpoints = store.checkpoints(&me, id).await.map_err(text)?;
    let result = store.result(&me, id).await.map_err(text)?;
    let logs = store.logs(&me, id, 0).await.map_err(text)?;
    let groups = store.groups(&me, id).await.map_err(text)?;
    // Why a job does not run depends on other rows; it is advice, not the job.
    let record = snapshot.map(|found| (found.job, found.spec));
    Ok(format!("{record:?} {payload:?} {attempts:?} {checkpoints:?} {result:?} {logs:?} {groups:?}"))
}

async fn list(store: &Store, filter: Filter) -> Result<String, String> {
    let mut request = ListRequest { filter, order: Order::Oldest, cursor: None, limit: 500 };
    let mut ids = Vec::new();
    loop {
        let page = store.list(&Caller::local(), request.clone()).await.map_err(|error| error.to_string())?;
        ids.extend(page.jobs.iter().map(|found| found.job.id));
        request.cursor = page.next;
        if request.cursor.is_none() {
            return Ok(format!("{ids:?}"));
        }
    }
}

async fn audit(store: &Store) -> Result<String, String> {
    let mut query = RecordQuery { limit: 1_000, ..RecordQuery::default() };
    let mut records = Vec::new();
    loop {
        let page = store.audit(&Caller::local(), query.clone()).await.map_err(|error| error.to_string())?;
        let Some(last) = page.last() else { return Ok(format!("{records:?}")) };
        query.after = last.seq;
        records.extend(page);
    }
}

/// Which jobs the keys belong to. Asked last: a key that was lost makes a new job.
async fn resubmit(store: &Store, keys: &[String]) -> Result<String, String> {
    let keyed = |key: &String| {
        let mut job = new_job("again");
        job.idempotency_key = Some(key.clone());
        job
    };
    let jobs = keys.iter().map(keyed).collect();
    let receipts = store.submit(&Caller::local(), jobs, SubmitOptions::default()).await;
    let receipts = receipts.map_err(|error| error.to_string())?;
    let holders: Vec<_> = receipts.iter().map(|receipt| (receipt.job.id, receipt.is_duplicate)).collect();
    Ok(format!("{holders:?}"))
}
