//! Signals: values sent to a job from outside. A signal sent early is stored; each is consumed once, in the commit that
//! saves it as a checkpoint.

use serde_json::json;

use crate::audit::AuditEvent;
use crate::error::{ActionError, FieldError, FieldProblem, StoreError, WorkError};
use crate::job::{JobAction, JobEvent, JobId, JobRecord, JobState, Seq, Wait};
use crate::limits;
use crate::store::caller::Caller;
use crate::store::command::effects::audit::RecordActor;
use crate::store::command::precondition::IfMatch;
use crate::store::engine::{JobData, JobDataKind, JobDataQuery, JobDataWrite};
use crate::store::tx::write_tx::WriteTx;

/// Sends a signal to a job.
pub(crate) fn signal(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    name: &str,
    value: &[u8],
    if_match: &IfMatch,
) -> Result<JobRecord, ActionError> {
    crate::store::command::attempt_writes::check_step("name", name)?;
    if value.len() > tx.env.options.payload_bytes_max {
        let problem = FieldProblem::TooLong { length: value.len(), limit: tx.env.options.payload_bytes_max };
        return Err(FieldError::new("value", problem).into());
    }
    let mut job = tx.managed(caller, id)?;
    if_match.check(tx, &job)?;
    JobAction::Signal.check(job.state)?;
    let limit = limits::SIGNALS_KEPT_MAX;
    let kept = JobDataQuery { seq: job.seq, kind: JobDataKind::Signal, name: None, above: None, limit };
    if job.details.signals > 0 && tx.db()?.job_data(kept)?.len() >= limit {
        return Err(FieldError::new("signals", FieldProblem::TooLong { length: limit + 1, limit }).into());
    }
    let details = job.details_mut();
    details.signals += 1;
    let number = details.signals;
    let (seq, kind, name) = (job.seq, JobDataKind::Signal, name.to_owned());
    tx.write_job_data(JobDataWrite::Put(JobData {
        seq,
        kind,
        name: name.clone(),
        number,
        body: value.into(),
    }));
    let cause = RecordActor::caller(caller, None);
    let context = json!({"job_id": id.to_string(), "actor_id": caller.id, "signal": name});
    tx.record_job(AuditEvent::Signalled, &job, &job, &cause, Some(context))?;
    tx.put(job);
    tx.deliver_signal(seq)?;
    Ok(tx.job(seq)?.expect("a job that was signalled is there").clone())
}

impl WriteTx<'_> {
    /// Delivers the oldest signal with a name that the job waits for, and wakes the job.
    pub(crate) fn deliver_signal(&mut self, seq: Seq) -> Result<(), StoreError> {
        let Some(job) = self.job(seq)?.cloned() else { return Ok(()) };
        let Some(wait) = job.details.wait.clone() else { return Ok(()) };
        if !matches!(job.state, JobState::Waiting | JobState::Suspended) {
            return Ok(());
        }
        // A wait that ended while the job was suspended ended without the signal, which is kept for the next one.
        if wait.until().is_some_and(|until| until < self.now) {
            return Ok(());
        }
        let mut oldest: Option<(JobData, &str)> = None;
        for wait in wait.each() {
            let Wait::Signal { name, step, .. } = wait else { continue };
            let query =
                JobDataQuery { seq, kind: JobDataKind::Signal, name: Some(name), above: None, limit: 1 };
            let Some(kept) = self.db()?.job_data(query)?.pop() else { continue };
            if oldest.as_ref().is_none_or(|(other, _)| kept.number < other.number) {
                oldest = Some((kept, step));
            }
        }
        let Some((kept, step)) = oldest else { return Ok(()) };
        let JobData { name, number, body, .. } = kept;
        self.write_job_data(JobDataWrite::Drop { seq, kind: JobDataKind::Signal, name, number });
        self.keep_wait_result(job, step, &received(&body))?;
        let _refused = self.apply(seq, &JobEvent::Wake, &RecordActor::system())?;
        Ok(())
    }

    /// Saves the timeout in the checkpoint of each expired signal wait of a job.
    pub(crate) fn keep_timeout_of_wait(&mut self, seq: Seq) -> Result<(), StoreError> {
        let Some(wait) = self.job(seq)?.and_then(|job| job.details.wait.clone()) else { return Ok(()) };
        for wait in wait.each() {
            let Wait::Signal { step, until: Some(until), .. } = wait else { continue };
            let Some(job) = self.job(seq)?.cloned().filter(|_| *until <= self.now) else { continue };
            self.keep_wait_result(job, step, br#"{"timeout":true}"#)?;
        }
        Ok(())
    }

    fn keep_wait_result(&mut self, mut job: JobRecord, step: &str, value: &[u8]) -> Result<(), StoreError> {
        match self.save_checkpoint(&mut job, step, value) {
            // There was room when it parked. A job that parked in an earlier version is still woken: it must not wait forever.
            Ok(()) | Err(WorkError::Invalid(_)) => {}
            Err(WorkError::Store(error)) => return Err(error),
            Err(other) => return Err(StoreError::Database(other.to_string())),
        }
        self.put(job);
        Ok(())
    }
}

/// The checkpoint of a received signal: `{"signal": VALUE}`, with the value's bytes unchanged.
fn received(value: &[u8]) -> Vec<u8> {
    let value = if value.is_empty() { b"null" } else { value };
    [b"{\"signal\":", value, b"}"].concat()
}
