//! Jobs that callers submitted in their own transactions, where the store cannot be queried: each becomes the job whose
//! id its caller already has. A refused submission becomes a failed job, so that its id can be looked up.

use std::slice;

use super::effects::audit::RecordActor;
use super::submit::{self, Receipt};
use crate::error::{FieldProblem, Invalid, StoreError, SubmitError};
use crate::job::{Event, Failure, JobMetadata, NewJob, Payload};
use crate::store::caller::{Caller, Role};
use crate::store::engine::InboxEntry;
use crate::store::tx::write_tx::WriteTx;

/// The error code of a job that was refused after its caller had received its id.
pub const REFUSED: &str = "rejected_in_inbox";

/// Creates the job of an inbox entry.
pub(crate) fn deliver(tx: &mut WriteTx<'_>, entry: &InboxEntry) -> Result<(), StoreError> {
    let caller = Caller::new(entry.owner.clone(), Role::Admin, None);
    tx.begin();
    let refusal = match submit(tx, &caller, entry, &entry.job) {
        Ok(()) => return Ok(()),
        Err(SubmitError::Store(error)) => return Err(error),
        Err(refusal) => refusal,
    };
    tx.undo();
    if let Some(error) = tx.error() {
        return Err(error.clone());
    }
    tx.begin();
    refuse(tx, &caller, entry, &refusal)
}

fn submit(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    entry: &InboxEntry,
    job: &NewJob,
) -> Result<(), SubmitError> {
    let options = &tx.env.options;
    submit::check(slice::from_ref(job), options.payload_bytes_max, &options.targets)?;
    let receipt = submit::submit_as(tx, caller, job, entry.id)?;
    match receipt {
        Receipt { is_duplicate: true, job, .. } => {
            let problem = FieldProblem::Contradiction(format!("belongs to job {} already", job.id));
            Err(SubmitError::Invalid { index: 0, invalid: Invalid::new("idempotency_key", problem) })
        }
        _ => Ok(()),
    }
}

/// Stores a refused submission as a failed job, without anything that could be refused again.
fn refuse(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    entry: &InboxEntry,
    refusal: &SubmitError,
) -> Result<(), StoreError> {
    let given = &entry.job;
    let is_small = given.payload.bytes.len() <= tx.env.options.payload_bytes_max;
    let payload =
        if is_small { given.payload.clone() } else { Payload::bytes([], &given.payload.content_type) };
    let job = NewJob {
        queue: given.queue.clone(),
        priority: given.priority,
        metadata: JobMetadata { callback_url: None, ..given.metadata.clone() },
        tenant: given.tenant.clone(),
        traceparent: given.traceparent.clone(),
        ..NewJob::new(given.job_type.clone(), payload)
    };
    submit(tx, caller, entry, &job).map_err(|again| match again {
        SubmitError::Store(error) => error,
        other => StoreError::Database(format!("a submission through SQL cannot be stored: {other}")),
    })?;
    let failure = Failure::permanent(REFUSED, refusal.to_string());
    if let Some(seq) = tx.find(&[entry.id])?.pop().flatten() {
        let _not_scheduled = tx.apply(seq, &Event::Refuse { failure }, &RecordActor::system())?;
    }
    Ok(())
}
