//! Submitting: one job or a whole graph, all or nothing. Every refusal happens before the first job is added.

mod backlog;
mod debounce;
mod graph;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod inbox;
mod insert;
mod key_limit;
mod keys;
mod schemas;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use backlog::{check_depth, check_new_lane};
pub(crate) use key_limit::{WantedKey, first_beyond_limit};
use keys::Duplicate;
#[cfg(all(test, feature = "postgres"))]
pub(crate) use keys::concurrency_key;
pub(crate) use keys::unique_holder;

use crate::error::{FieldError, FieldProblem, StoreError, SubmitError};
use crate::job::{JobId, JobRecord, Lane, Need, NewJob, Seq};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::schema_checks::SchemaChecks;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;
use crate::webhook_url::TargetPolicy;
use crate::{alert, callback};

/// The result for one job of a submission: the job as a record, or as a [`Snapshot`](crate::store::query::snapshot::Snapshot).
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a name of its own")]
#[non_exhaustive]
pub struct Receipt<J = JobRecord> {
    /// The new job, or the earlier job with this idempotency key. For a deleted job only the id, tenant, type, final
    /// state and time of submission are known; all other fields have their defaults.
    pub job: J,
    /// Whether it is an earlier job with the same idempotency key.
    pub is_duplicate: bool,
    /// Whether that earlier job had another payload.
    pub payload_differs: bool,
    /// Whether that earlier job was deleted since; its key still refers to it until the end of the window.
    pub is_deleted: bool,
    /// Whether it is an earlier job with the same debounce key, which now has this payload and delay.
    pub is_debounced: bool,
}

impl<J> Receipt<J> {
    /// The same receipt with the job in another form.
    pub(crate) fn with_job<K>(self, job: K) -> Receipt<K> {
        let Receipt { is_duplicate, payload_differs, is_deleted, is_debounced, .. } = self;
        Receipt { job, is_duplicate, payload_differs, is_deleted, is_debounced }
    }
}

/// Options for a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubmitOptions {
    /// Refuse an idempotency key that was used with another payload.
    pub strict: bool,
}

/// The parent of spawned jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spawning {
    pub(crate) seq: Seq,
    pub(crate) id: JobId,
    pub(crate) group: u64,
}

/// Checks everything about a submission that needs no store access.
pub(crate) fn check(
    jobs: &[NewJob],
    payload_bytes_max: usize,
    targets: &TargetPolicy,
) -> Result<(), SubmitError> {
    if jobs.len() > limits::BATCH_JOBS_MAX {
        let problem = FieldProblem::TooLong { length: jobs.len(), limit: limits::BATCH_JOBS_MAX };
        return Err(SubmitError::Invalid {
            index: limits::BATCH_JOBS_MAX,
            invalid: FieldError::new("jobs", problem),
        });
    }
    let mut all = 0;
    for (index, job) in jobs.iter().enumerate() {
        let size = job.payload.bytes.len();
        all += size;
        if size > payload_bytes_max {
            return Err(SubmitError::PayloadTooLarge { index, size, limit: payload_bytes_max });
        }
        // A single payload may be as large as the store allows.
        if all > limits::BATCH_BYTES_MAX && index > 0 {
            let problem = FieldProblem::TooManyBytes { length: all, limit: limits::BATCH_BYTES_MAX };
            return Err(invalid(index, "jobs", problem));
        }
        let checked = job.check().and_then(|()| job.metadata.check_callback(targets));
        checked.map_err(|invalid| SubmitError::Invalid { index, invalid })?;
        if job.queue.as_str() == callback::QUEUE {
            let problem = FieldProblem::Contradiction("is reserved for the system: choose another".into());
            return Err(invalid(index, "queue", problem));
        }
        if job.job_type.as_str() == alert::TYPE {
            let problem = FieldProblem::Contradiction("is reserved for the system: choose another".into());
            return Err(invalid(index, "type", problem));
        }
        if job.job_type.as_str() == callback::TYPE {
            let problem =
                FieldProblem::Contradiction("is reserved for the system; set `callback_url` instead".into());
            return Err(invalid(index, "type", problem));
        }
    }
    Ok(())
}

/// The kind of a submission. It is `Independent` if it is small and nothing stored is needed to decide about it: an
/// engine may then append it without excluding other writers.
pub(crate) fn kind(jobs: &[NewJob]) -> Kind {
    let is_independent = |job: &NewJob| {
        let keys = [&job.idempotency_key, &job.unique_key, &job.concurrency_key];
        keys.iter().all(|key| key.is_none())
            && job.debounce.is_none()
            && job.after.is_empty()
            && job.after_any.is_empty()
    };
    let bytes: usize = jobs.iter().map(|job| job.payload.bytes.len()).sum();
    let is_small = jobs.len() <= limits::APPENDED_JOBS_MAX && bytes <= limits::APPENDED_BYTES_MAX;
    if is_small && jobs.iter().all(is_independent) {
        Kind::Independent(jobs.len())
    } else {
        Kind::Batch(jobs.len())
    }
}

/// Submits jobs, all or none. Receipts are in the order of the jobs.
pub(crate) fn submit(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    jobs: &[NewJob],
    options: SubmitOptions,
    spawning: Option<Spawning>,
) -> Result<Vec<Receipt>, SubmitError> {
    submit_checked(tx, caller, jobs, options, spawning, &mut SchemaChecks::default())
}

/// Like [`submit`], with the results of comparing payloads with schemas before the transaction.
pub(crate) fn submit_checked(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    jobs: &[NewJob],
    options: SubmitOptions,
    spawning: Option<Spawning>,
    checks: &mut SchemaChecks,
) -> Result<Vec<Receipt>, SubmitError> {
    let batch = Batch::new(tx, caller, jobs, spawning)?;
    submit_batch(tx, batch, options, checks)
}

/// Submits a job whose id its caller received earlier, when the store could not be queried. It was accepted then,
/// so the current depth of its queue does not matter, nor does the number of queues and types: a refused job would be
/// stored under the same names. The limit on concurrency keys applies, except to a refused job, which ends in the same
/// commit.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn submit_as(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    job: &NewJob,
    id: JobId,
    is_refused: bool,
) -> Result<Receipt, SubmitError> {
    let batch = Batch::new(tx, caller, std::slice::from_ref(job), None)?;
    let batch = Batch { given_id: Some(id), is_refused, ..batch };
    let mut receipts = submit_batch(tx, batch, SubmitOptions::default(), &mut SchemaChecks::default())?;
    Ok(receipts.pop().expect("one job has one receipt"))
}

/// Submits a job in place of others, which `end` ends: the keys and the room that they hold are free for it. If it is
/// refused, `end` is not called.
pub(crate) fn submit_in_place_of(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    job: &NewJob,
    replaced: &[(Seq, JobId)],
    end: impl FnOnce(&mut WriteTx<'_>) -> Result<(), StoreError>,
) -> Result<Receipt, SubmitError> {
    let mut batch = Batch { replaced, ..Batch::new(tx, caller, std::slice::from_ref(job), None)? };
    let mut checks = SchemaChecks::default();
    let checked = check_batch(tx, &mut batch, SubmitOptions::default(), &mut checks)?;
    if !replaced.is_empty() {
        end(tx)?;
        // Their keys must be free in the database first, or they would be taken from the new job.
        tx.flush()?;
    }
    let mut receipts = batch.insert(tx, &checked.duplicates, &checked.depths)?;
    Ok(receipts.pop().expect("one job has one receipt"))
}

fn submit_batch(
    tx: &mut WriteTx<'_>,
    mut batch: Batch<'_>,
    options: SubmitOptions,
    checks: &mut SchemaChecks,
) -> Result<Vec<Receipt>, SubmitError> {
    let checked = check_batch(tx, &mut batch, options, checks)?;
    batch.insert(tx, &checked.duplicates, &checked.depths)
}

/// What the checks of a batch found out.
struct BatchChecks {
    /// The jobs that are submitted already.
    duplicates: HashMap<usize, Duplicate>,
    /// How long the longest chain of dependencies to each job is.
    depths: Vec<u32>,
}

/// Refuses a batch that cannot be stored as a whole.
fn check_batch(
    tx: &mut WriteTx<'_>,
    batch: &mut Batch<'_>,
    options: SubmitOptions,
    checks: &mut SchemaChecks,
) -> Result<BatchChecks, SubmitError> {
    let mut duplicates = batch.find_duplicates(tx, options)?;
    if !batch.is_refused {
        batch.check_schemas(tx, &duplicates, checks)?;
    }
    batch.find_debounced(tx, &mut duplicates)?;
    batch.wait_for_originals(&duplicates)?;
    batch.check_unique_keys(tx, &duplicates)?;
    let depths = batch.depths(tx)?;
    if tx.is_appending() {
        batch.check_appendable(tx)?;
    }
    if batch.given_id.is_none() {
        batch.check_names(tx, &duplicates)?;
        batch.check_backlog(tx, &duplicates)?;
    }
    if !batch.is_refused {
        batch.check_concurrency_keys(tx, &duplicates)?;
    }
    Ok(BatchChecks { duplicates, depths })
}

/// A submission with its names and dependencies resolved.
struct Batch<'a> {
    caller: &'a Caller,
    jobs: &'a [NewJob],
    spawning: Option<Spawning>,
    /// The id of its only job, if the caller already has it.
    given_id: Option<JobId>,
    /// Whether its only job is stored to end at once, as refused.
    is_refused: bool,
    /// Stored jobs that end when the batch is stored.
    replaced: &'a [(Seq, JobId)],
    lanes: Vec<Arc<Lane>>,
    /// The dependencies of each job.
    needs: Vec<Vec<(Need, DependencyRef)>>,
    /// The jobs in topological order: each comes after its dependencies.
    order: Vec<usize>,
}

/// A dependency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DependencyRef {
    /// An existing job.
    Stored(Seq),
    /// A job of the same batch.
    InBatch(usize),
}

fn invalid(index: usize, field: impl Into<String>, problem: FieldProblem) -> SubmitError {
    SubmitError::Invalid { index, invalid: FieldError::new(field, problem) }
}

impl<'a> Batch<'a> {
    fn new(
        tx: &mut WriteTx<'_>,
        caller: &'a Caller,
        jobs: &'a [NewJob],
        spawning: Option<Spawning>,
    ) -> Result<Batch<'a>, SubmitError> {
        if spawning.is_none() {
            caller.require(Permission::Submit)?;
        }
        let lanes = graph::lanes(tx, caller, jobs)?;
        let names = graph::names(jobs)?;
        let is_graph = jobs.iter().any(|job| !job.after.is_empty() || !job.after_any.is_empty());
        let mut needs = vec![Vec::new(); jobs.len()];
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        if is_graph {
            needs = graph::resolve(tx, jobs, &lanes, &names)?;
            order = graph::order_of(jobs, &needs)?;
        }
        Ok(Batch {
            caller,
            jobs,
            spawning,
            given_id: None,
            is_refused: false,
            replaced: &[],
            lanes,
            needs,
            order,
        })
    }
}
