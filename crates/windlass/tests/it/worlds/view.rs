//! All that is stored in a world, read past the verbs, and a text of it in which two states are equal if nothing can tell
//! them apart later: times count from now, and history that decides nothing is left out.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use windlass::clock::Timestamp;
use windlass::error::StoreError;
use windlass::job::{Fence, JobId, JobRecord, JobState, Seq};
use windlass::store::engine::{
    ClaimOrder, DocumentKind, Engine, JobDataKind, JobDataQuery, ReadTask, ReadTx, Side,
};

use super::world::JOBS;
use crate::fixture::START;

/// What is stored.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The jobs, first submitted first.
    pub(super) jobs: Vec<JobRecord>,
    /// The state as a text.
    pub(super) text: String,
}

/// Documents that decide what happens later. The others are history, or settings that no step changes.
const DOCUMENTS: [DocumentKind; 3] = [DocumentKind::Hold, DocumentKind::Resumption, DocumentKind::Cascade];

struct ReadView(Arc<Mutex<View>>);

impl ReadTask for ReadView {
    fn run(&mut self, tx: &mut ReadTx<'_>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = read_view(tx).unwrap();
    }

    fn is_long(&self) -> bool {
        false
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        outcome.unwrap();
    }
}

/// Reads everything.
pub(super) fn of(engine: &impl Engine) -> View {
    let found = Arc::new(Mutex::new(View::default()));
    engine.read(Box::new(ReadView(found.clone())));
    Arc::into_inner(found).unwrap().into_inner().unwrap()
}

fn read_view(tx: &mut ReadTx<'_>) -> Result<View, StoreError> {
    let seqs: Vec<Seq> = (1..=i64::try_from(JOBS).unwrap()).map(Seq).collect();
    let jobs: Vec<JobRecord> = tx.db.load(&seqs)?.into_iter().flatten().collect();
    let mut text = String::new();
    for job in &jobs {
        writeln!(text, "{:?}", timeless(job, tx.now)).unwrap();
        let query = |kind| JobDataQuery { seq: job.seq, kind, name: None, above: None, limit: 10 };
        for group in tx.db.job_data(query(JobDataKind::Group))? {
            writeln!(text, "{}", from_now(&group.body, tx.now)).unwrap();
        }
    }
    // Which of two jobs is claimed first is all that is left of when they became ready.
    let mut order: Vec<&JobRecord> = jobs.iter().filter(|job| job.eligible_at.is_some()).collect();
    order.sort_by_key(|job| ClaimOrder::new(job));
    let order: Vec<i64> = order.iter().map(|job| job.seq.0).collect();
    writeln!(text, "{order:?} {:?}", tx.db.edges(&seqs, Side::Dependent)?).unwrap();
    for kind in DOCUMENTS {
        for document in tx.db.documents(kind)? {
            writeln!(text, "{kind:?} {} {}", document.key, from_now(&document.body, tx.now)).unwrap();
        }
    }
    // When a worker was last seen is part of the world.
    for worker in tx.db.documents(DocumentKind::Worker)? {
        let is_lost = String::from_utf8_lossy(&worker.body).contains(r#""is_lost":true"#);
        writeln!(text, "{} is lost: {is_lost}", worker.key).unwrap();
    }
    Ok(View { jobs, text })
}

/// A job whose times count from now, and without times that are only shown.
fn timeless(job: &JobRecord, now: Timestamp) -> JobRecord {
    let zero = Timestamp::from_millis(START);
    let moved = |at: Timestamp| Timestamp::from_millis(START + at.as_millis() - now.as_millis());
    let mut job = job.clone();
    // The child's id says when it was spawned.
    job.id = JobId::new(zero, u128::from(job.seq.0.unsigned_abs()));
    // A fence is random; what matters is who knows the current one, and that is part of the world.
    job.fence = Fence(job.fence.0.min(1));
    [job.created_at, job.updated_at] = [zero; 2];
    job.run_at = moved(job.run_at).max(zero);
    job.retry_at = job.retry_at.map(|at| moved(at).max(zero));
    for at in [
        &mut job.eligible_at,
        &mut job.scheduled_at,
        &mut job.first_started_at,
        &mut job.started_at,
        &mut job.completed_at,
    ] {
        *at = at.map(|_| zero);
    }
    // Neither a lifetime nor the time limit of an attempt ends in the time that passes here.
    job.expires_at = zero;
    if let Some(lease) = &mut job.lease {
        lease.expires_at = moved(lease.expires_at).max(zero);
        lease.deadline_at = zero;
    }
    if job.state.is_final() {
        // Nothing happens to it any more; the invariants have looked at the rest.
        (job.attempt, job.failures, job.crashes) = (0, 0, 0);
        (job.retry_at, job.completed_by, job.details) = (None, None, Arc::default());
        return job;
    }
    let is_retrying = job.state == JobState::Retrying;
    let details = job.details_mut();
    [details.suspended_at, details.resumed_at] = [None; 2];
    details.suspended_by = None;
    for suspension in [&mut details.suspension, &mut details.suspend_requested].into_iter().flatten() {
        suspension.at = zero;
    }
    // The error of a job that waits for its retry decides how long it waits, and that is in the record.
    if !is_retrying {
        details.error = None;
    }
    if let Some(error) = &mut details.error {
        error.at = zero;
    }
    job
}

/// A stored text in which every time in milliseconds counts from now; the past is over.
fn from_now(body: &[u8], now: Timestamp) -> String {
    let (mut out, mut digits) = (String::new(), String::new());
    for letter in String::from_utf8_lossy(body).chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        match digits.parse::<i64>() {
            Ok(millis) if digits.len() == 13 => {
                write!(out, "{:+}", (millis - now.as_millis()).max(0)).unwrap();
            }
            _ => out.push_str(&digits),
        }
        digits.clear();
        out.push(letter);
    }
    out
}
