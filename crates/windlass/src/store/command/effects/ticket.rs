//! When tickets are issued and checked: issued at submission and again at resume and redrive, checked before every run.
//! Does nothing while tickets are disabled.

use std::sync::Arc;

use serde_json::json;

use super::audit::RecordActor;
use crate::audit::AuditEvent;
use crate::error::StoreError;
use crate::job::{Failure, JobEvent, JobRecord, RareFields, Seq, Spec};
use crate::store::query::explain::DAMAGED;
use crate::store::tx::write_tx::WriteTx;
use crate::ticket::{Subject, Ticket, TicketFault, TicketPublicKey};

fn subject<'a>(job: &'a JobRecord, spec: &'a Spec) -> Subject<'a> {
    Subject { id: job.id, lane: &job.lane, spec }
}

impl WriteTx<'_> {
    /// The job with a ticket, if tickets are enabled.
    pub(crate) fn with_ticket(&self, job: JobRecord, spec: &Spec) -> JobRecord {
        let Some(options) = &self.env.options.tickets else { return job };
        // A job does not run after its expiry anyway; if that is extended, the ticket shows it.
        let expires = options.lifetime.map_or(job.expires_at, |time| self.now.plus(time).min(job.expires_at));
        let nonce = self.env.entropy.bits();
        let ticket = Ticket::issue(&options.key, subject(&job, spec), nonce, self.now, expires);
        let details = RareFields { ticket: Some(Box::new(ticket)), ..RareFields::clone(&job.details) };
        JobRecord { details: Arc::new(details), ..job }
    }

    /// A released or resumed job with a new ticket. A job whose ticket is invalid keeps it and will be refused: a
    /// resume must not repair a tampered job.
    pub(crate) fn with_renewed_ticket(&mut self, job: JobRecord) -> Result<JobRecord, StoreError> {
        if self.env.options.tickets.is_none() {
            return Ok(job);
        }
        let Ok(spec) = self.spec_or_damage(job.seq)? else { return Ok(job) };
        let is_own = matches!(self.verify_ticket(&job, &spec), Ok(()) | Err(TicketFault::Expired));
        Ok(if is_own { self.with_ticket(job, &spec) } else { job })
    }

    /// A job with a changed submission, with a new ticket if the old ticket matched the old submission: a change must
    /// not repair a tampered job.
    pub(crate) fn with_ticket_for_change(&self, job: JobRecord, old: &Spec, new: &Spec) -> JobRecord {
        if self.env.options.tickets.is_none() {
            return job;
        }
        match self.verify_ticket(&job, old) {
            Ok(()) | Err(TicketFault::Expired) => self.with_ticket(job, new),
            Err(_) => job,
        }
    }

    /// A redriven job with a new ticket. A job that never had a ticket was submitted before tickets were enabled, and
    /// the caller that redrives it vouches for it; a job with an invalid ticket keeps it and is refused.
    pub(crate) fn with_ticket_in_place_of(
        &self,
        old: (&JobRecord, &Spec),
        new: (JobRecord, &Spec),
    ) -> JobRecord {
        let ((old, old_spec), (new, spec)) = (old, new);
        if self.env.options.tickets.is_none() {
            return new;
        }
        match self.verify_ticket(old, old_spec) {
            Ok(()) | Err(TicketFault::Expired | TicketFault::Missing) => self.with_ticket(new, spec),
            Err(_) => {
                let details =
                    RareFields { ticket: old.details.ticket.clone(), ..RareFields::clone(&new.details) };
                JobRecord { details: Arc::new(details), ..new }
            }
        }
    }

    /// Whether a job may be given to a worker; a job that may not is refused permanently.
    pub(crate) fn check_ticket(&mut self, seq: Seq) -> Result<bool, StoreError> {
        if self.env.options.tickets.is_none() {
            return Ok(true);
        }
        let Some(job) = self.job(seq)?.cloned() else { return Ok(false) };
        let (code, message) = match self.spec_or_damage(seq)? {
            Ok(spec) => match self.verify_ticket(&job, &spec) {
                Ok(()) => return Ok(true),
                Err(fault) => (fault.code(), fault.to_string()),
            },
            Err(damage) => {
                // What the ticket says about the row as it is; it says nothing about some columns.
                let spec = self.raw(|db| db.damaged_spec(seq))?;
                match spec.map(|spec| self.verify_ticket(&job, &spec)) {
                    Some(Err(fault)) => (fault.code(), format!("{fault}: {damage}")),
                    Some(Ok(())) | None => (DAMAGED, damage),
                }
            }
        };
        tracing::error!(job = %job.id, code, message, "job refused: it is not what was submitted");
        self.refuse(&job, code, message)?;
        Ok(false)
    }

    /// Ends a claimable job without running it, with an audit record of why.
    pub(in crate::store::command) fn refuse(
        &mut self,
        job: &JobRecord,
        code: &str,
        message: String,
    ) -> Result<(), StoreError> {
        let context = json!({"job_id": job.id.to_string(), "code": code, "message": message});
        self.record_job(AuditEvent::Refused, job, job, &RecordActor::system(), Some(context))?;
        let failure = Failure::permanent(code, message);
        let _refused = self.apply(job.seq, &JobEvent::Refuse { failure }, &RecordActor::system())?;
        Ok(())
    }

    /// Ends a job that was claimed in this commit and whose stored data is damaged: it is not handed out, and does not
    /// keep those behind it from running.
    pub(in crate::store::command) fn end_damaged(
        &mut self,
        seq: Seq,
        damage: String,
    ) -> Result<(), StoreError> {
        let Some(job) = self.job(seq)?.cloned() else { return Ok(()) };
        tracing::error!(job = %job.id, damage, "job failed: what is stored of it is damaged");
        if job.has.claim_ahead {
            let _released = self.apply(seq, &JobEvent::Release, &RecordActor::system())?;
            let Some(job) = self.job(seq)?.cloned() else { return Ok(()) };
            return self.refuse(&job, DAMAGED, damage);
        }
        let context = json!({"job_id": job.id.to_string(), "code": DAMAGED, "message": damage});
        self.record_job(AuditEvent::Refused, &job, &job, &RecordActor::system(), Some(context))?;
        let event = JobEvent::Fail { failure: Failure::permanent(DAMAGED, damage), random: 0.0 };
        let _refused = self.apply(seq, &event, &RecordActor::system())?;
        Ok(())
    }

    fn verify_ticket(&self, job: &JobRecord, spec: &Spec) -> Result<(), TicketFault> {
        let Some(options) = &self.env.options.tickets else { return Ok(()) };
        let ticket = job.details.ticket.as_ref().ok_or(TicketFault::Missing)?;
        let trusted: Vec<TicketPublicKey> =
            std::iter::once(options.key.public()).chain(options.trusted.iter().cloned()).collect();
        ticket.verify(&trusted, subject(job, spec), self.now)
    }
}
