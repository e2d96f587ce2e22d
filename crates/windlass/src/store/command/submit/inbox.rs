//! Jobs that callers submitted in their own transactions, where the store cannot be queried: each becomes the job whose
//! id its caller already has. A refused submission becomes a failed job, so that its id can be looked up.

use std::slice;

use super::Receipt;
use crate::error::{FieldError, FieldProblem, StoreError, SubmitError};
use crate::job::{Failure, JobEvent, JobMetadata, NewJob, Payload};
use crate::store::caller::{Caller, Role};
use crate::store::command::effects::audit::RecordActor;
use crate::store::command::submit;
use crate::store::engine::InboxEntry;
use crate::store::tx::write_tx::WriteTx;

/// The error code of a job that was refused after its caller had received its id.
pub const REFUSED: &str = "rejected_in_inbox";

/// Creates the job of an inbox entry.
pub(crate) fn deliver(tx: &mut WriteTx<'_>, entry: &InboxEntry) -> Result<(), StoreError> {
    let caller = Caller::new(entry.owner.clone(), Role::Admin, None);
    tx.begin();
    let refusal = match submit(tx, &caller, entry, &entry.job, false) {
        Ok(()) => return Ok(()),
        Err(SubmitError::Store(error)) => return Err(error),
        Err(refusal) => refusal,
    };
    refuse(tx, &caller, entry, &refusal)
}

fn submit(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    entry: &InboxEntry,
    job: &NewJob,
    is_refused: bool,
) -> Result<(), SubmitError> {
    let options = &tx.env.options;
    submit::check(slice::from_ref(job), options.payload_bytes_max, &options.targets)?;
    let receipt = submit::submit_as(tx, caller, job, entry.id, is_refused)?;
    match receipt {
        Receipt { is_duplicate: true, job, .. } => {
            let problem = FieldProblem::Contradiction(format!("belongs to job {} already", job.id));
            Err(SubmitError::Invalid { index: 0, invalid: FieldError::new("idempotency_key", problem) })
        }
        _ => Ok(()),
    }
}

/// Stores a refused submission as a failed job, with as much of it as is not refused again: a redrive repeats that.
fn refuse(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    entry: &InboxEntry,
    refusal: &SubmitError,
) -> Result<(), StoreError> {
    let mut refused_again = None;
    for job in storable(tx, &entry.job) {
        tx.undo();
        if let Some(error) = tx.error() {
            return Err(error.clone());
        }
        tx.begin();
        match submit(tx, caller, entry, &job, true) {
            Ok(()) => {
                let failure = Failure::permanent(REFUSED, refusal.to_string());
                if let Some(seq) = tx.find(&[entry.id])?.pop().flatten() {
                    let _not_scheduled =
                        tx.apply(seq, &JobEvent::Refuse { failure }, &RecordActor::system())?;
                }
                return Ok(());
            }
            Err(SubmitError::Store(error)) => return Err(error),
            Err(other) => refused_again = Some(other),
        }
    }
    let why = refused_again.map(|why| why.to_string()).unwrap_or_default();
    Err(StoreError::Database(format!("a submission through SQL cannot be stored: {why}")))
}

/// What is left of a refused submission: first as much as possible, last without anything that could be refused.
fn storable(tx: &WriteTx<'_>, given: &NewJob) -> [NewJob; 3] {
    let is_small = given.payload.bytes.len() <= tx.env.options.payload_bytes_max;
    let payload =
        if is_small { given.payload.clone() } else { Payload::bytes([], &given.payload.content_type) };
    let least = NewJob {
        queue: given.queue.clone(),
        requires_version: given.requires_version.clone(),
        priority: given.priority,
        metadata: JobMetadata { callback_url: None, ..given.metadata.clone() },
        tenant: given.tenant.clone(),
        ..NewJob::new(given.job_type.clone(), payload)
    };
    let policy = NewJob {
        retry: given.retry.clone(),
        execution_timeout: given.execution_timeout,
        lease_timeout: given.lease_timeout,
        lifetime: given.lifetime,
        start_timeout: given.start_timeout,
        concurrency_key: given.concurrency_key.clone(),
        traceparent: given.traceparent.clone(),
        tracestate: given.tracestate.clone(),
        baggage: given.baggage.clone(),
        ..least.clone()
    };
    [NewJob { unique_key: given.unique_key.clone(), ..policy.clone() }, policy, least]
}
