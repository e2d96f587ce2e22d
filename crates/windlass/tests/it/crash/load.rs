//! The load under which things go wrong: jobs of every kind are submitted, claimed, noted and finished. Each thing that the
//! store acknowledged is said in one line, after the acknowledgement; what is under way at a crash is not.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use windlass::error::{StoreError, SubmitError, WorkError};
use windlass::job::{
    Dependency, Failure, GroupStrategy, JobId, JobRecord, JobType, NewJob, Payload, QueueName, WorkerId,
};
use windlass::store::caller::Caller;
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, Finish, NewGroup, NewWorker, Outcome, Park, Report, Store,
    SubmitOptions,
};

use super::ledger::Ack;
use super::process::say;
use crate::fixture::lease_ref;

/// Keys that are used again and again, so that many submissions are duplicates.
const KEYS: u32 = 40;

/// A payload that follows from the job's tag: short, long, or too long for one page.
pub(super) fn payload(tag: &str) -> String {
    let sum = crc32fast::hash(tag.as_bytes());
    let fill = match sum % 8 {
        0 => 4_000 + sum % 5_000,
        1 | 2 => sum % 900,
        _ => sum % 40,
    };
    format!(r#"{{"tag":"{tag}","fill":"{}"}}"#, "x".repeat(fill as usize))
}

/// The tag in a payload.
pub(super) fn tag_of(payload: &[u8]) -> String {
    let payload: serde_json::Value = serde_json::from_slice(payload).expect("every payload is JSON");
    payload["tag"].as_str().expect("every payload has a tag").to_owned()
}

pub(super) fn new_job(tag: &str) -> NewJob {
    let mut job = NewJob::new(JobType::new("crash.test").unwrap(), Payload::json(payload(tag)));
    job.queue = QueueName::new("load").unwrap();
    // The lease of some ends while their worker stands still.
    job.lease_timeout = crc32fast::hash(tag.as_bytes()).is_multiple_of(5).then_some(Duration::from_secs(1));
    job
}

/// A caller that submits.
pub(super) struct Submitter {
    store: Store,
    rng: StdRng,
    name: String,
    number: u32,
    last: Option<JobId>,
}

impl Submitter {
    pub(super) fn new(store: &Store, name: &str, seed: u64) -> Submitter {
        let rng = StdRng::seed_from_u64(seed);
        Submitter { store: store.clone(), rng, name: name.to_owned(), number: 0, last: None }
    }

    /// One submission: a job, a job with a key, a batch with dependencies, or a job after an earlier one.
    pub(super) async fn submit(&mut self) -> Result<(), SubmitError> {
        self.number += 1;
        let tag = format!("{}.{}", self.name, self.number);
        let jobs = match self.rng.random_range(0..10) {
            0..5 => vec![new_job(&tag)],
            5 | 6 => {
                let key = format!("key-{}", self.rng.random_range(0..KEYS));
                vec![NewJob { idempotency_key: Some(key), ..new_job(&tag) }]
            }
            7 => {
                let after = self.last.map(Dependency::Job).into_iter().collect();
                vec![NewJob { after, ..new_job(&tag) }]
            }
            _ => batch(&tag),
        };
        let tags: Vec<String> = jobs.iter().map(|job| tag_of(&job.payload.bytes)).collect();
        let keys: Vec<Option<String>> = jobs.iter().map(|job| job.idempotency_key.clone()).collect();
        let receipts = self.store.submit(&Caller::local(), jobs, SubmitOptions::default()).await?;
        for ((receipt, tag), key) in receipts.into_iter().zip(tags).zip(keys) {
            let id = receipt.job.id;
            if !receipt.is_duplicate {
                self.last = Some(id);
                say(&Ack::Submitted { id, tag }.to_string());
            }
            if let Some(key) = key {
                say(&Ack::Keyed { id, key }.to_string());
            }
        }
        Ok(())
    }
}

/// Three jobs of which the second waits for the first, and the third for any of the two.
fn batch(tag: &str) -> Vec<NewJob> {
    let named = |name: &str| Dependency::Named(name.to_owned());
    let mut jobs: Vec<NewJob> = (0..3).map(|place| new_job(&format!("{tag}.b{place}"))).collect();
    jobs[0].name = Some("first".into());
    jobs[1].name = Some("second".into());
    jobs[1].after = vec![named("first")];
    jobs[2].after_any = vec![named("first"), named("second")];
    jobs
}

/// A caller that works.
pub(super) struct Laborer {
    store: Store,
    rng: StdRng,
    id: WorkerId,
}

impl Laborer {
    pub(super) async fn new(store: &Store, seed: u64) -> Result<Laborer, WorkError> {
        let queues = vec![QueueName::new("load").unwrap()];
        let worker = store.register(&Caller::local(), NewWorker { queues, ..NewWorker::default() }).await?;
        Ok(Laborer { store: store.clone(), rng: StdRng::seed_from_u64(seed), id: worker.id })
    }

    /// Claims a few jobs and deals with them.
    pub(super) async fn work(&mut self, wait: Duration) -> Result<(), WorkError> {
        let request = ClaimRequest::new(self.id, self.rng.random_range(1..6));
        let answer = self.store.claim(&Caller::local(), &request, wait).await?;
        for ClaimedJob { job, .. } in &answer.jobs {
            say(&Ack::Claimed { id: job.id, fence: job.fence.0 }.to_string());
        }
        let mut reports = Vec::new();
        for claimed in &answer.jobs {
            if let Some((outcome, word)) = self.run(claimed).await? {
                reports.push((
                    Report::new(claimed.job.id, claimed.job.fence, outcome),
                    claimed.job.attempt,
                    word,
                ));
            }
        }
        self.finish(reports).await
    }

    /// Runs a job; without an outcome it stays with this worker forever, or its children have taken over.
    async fn run(&mut self, claimed: &ClaimedJob) -> Result<Option<(Outcome, &'static str)>, WorkError> {
        let job = &claimed.job;
        if self.rng.random_ratio(1, 4) {
            self.note(claimed).await?;
        }
        if job.parent.is_none() && job.details.groups == 0 && self.rng.random_ratio(1, 12) {
            self.spawn(claimed).await?;
            return Ok(None);
        }
        Ok(match self.rng.random_range(0..40) {
            0 => None,
            1..4 => Some((Outcome::Failed(Failure::temporary("try again")), "failed")),
            4 | 5 => Some((Outcome::Failed(Failure::permanent("E1", "never")), "failed")),
            6 | 7 => Some((Outcome::Parked(Park::For(Duration::from_secs(60))), "parked")),
            8 | 9 => Some((Outcome::Released, "released")),
            _ => Some((Outcome::Completed { result: Some(result(job).into_bytes()) }, "completed")),
        })
    }

    async fn note(&mut self, claimed: &ClaimedJob) -> Result<(), WorkError> {
        let step = format!("step-{}", claimed.job.attempt);
        let note = AttemptWrite::Checkpoint { step: step.clone(), value: result(&claimed.job).into_bytes() };
        let logs = AttemptWrite::Logs(vec!["noted".into()]);
        match self.store.record(&Caller::local(), lease_ref(claimed), vec![note, logs]).await {
            Ok(()) => say(&Ack::Noted { id: claimed.job.id, step }.to_string()),
            Err(WorkError::Stale(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn spawn(&mut self, claimed: &ClaimedJob) -> Result<(), WorkError> {
        let tag = tag_of(&claimed.spec.payload.bytes);
        let tags: Vec<String> = (0..2).map(|place| format!("{tag}.c{place}")).collect();
        let jobs = tags.iter().map(|tag| new_job(tag)).collect();
        let group = NewGroup { name: "children".into(), strategy: GroupStrategy::CollectAll, jobs };
        match self.store.spawn(&Caller::local(), lease_ref(claimed), group).await {
            Ok(spawned) => {
                for (child, tag) in spawned.children.iter().zip(tags) {
                    say(&Ack::Submitted { id: child.id, tag }.to_string());
                }
            }
            Err(WorkError::Stale(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn finish(&mut self, reports: Vec<(Report, u32, &'static str)>) -> Result<(), WorkError> {
        if reports.is_empty() {
            return Ok(());
        }
        let sent = reports.iter().map(|(report, ..)| report.clone()).collect();
        let answers = self.store.finish(&Caller::local(), self.id, sent).await?;
        for (answer, (report, attempt, word)) in answers.into_iter().zip(reports) {
            if let Finish::Applied(_) = answer {
                let (id, fence) = (report.job, report.fence.0);
                say(&Ack::Finished { id, fence, attempt, outcome: word.to_owned() }.to_string());
            }
        }
        Ok(())
    }
}

/// A result, or a checkpoint's value, that follows from the job.
pub(super) fn result(job: &JobRecord) -> String {
    format!(r#""{}""#, job.id)
}

/// The store error in a work error, if it is one.
pub(super) fn store_error(error: &WorkError) -> Option<&StoreError> {
    match error {
        WorkError::Store(error) => Some(error),
        WorkError::Children(refused) => match &**refused {
            SubmitError::Store(error) => Some(error),
            _ => None,
        },
        _ => None,
    }
}
