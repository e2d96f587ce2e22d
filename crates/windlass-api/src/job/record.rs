//! Jobs of the API from the records of the rules, and back. Fields that the API does not send (the sequence number, internal
//! counters) have their defaults.

use std::sync::Arc;

use windlass_core::job::{self, JobRecord, JobState, Lane, Parent, Policy, Priority, Seq, Traceparent};
use windlass_core::limits;

use super::{Job, JobError, JobErrorCause, Lease, Progress, Suspension};
use crate::text::Text;
use crate::time::{Moment, Span};

impl From<Job> for JobRecord {
    fn from(mut shown: Job) -> JobRecord {
        let details = shown.take_rare_fields();
        let lane = Lane::new(shown.tenant.0, shown.queue.0, shown.r#type.0)
            .requiring(shown.requires_version.map(|version| version.0));
        let policy = Policy {
            retry: shown.retry.into(),
            timeouts: shown.timeouts.into(),
            crashes_max: limits::CRASHES_MAX_DEFAULT,
        };
        let state = shown.state.0;
        let mut job =
            JobRecord::new(Seq(0), shown.id.0, Arc::new(lane), Arc::new(policy), shown.created_at.0);
        job.state = state;
        job.priority = priority(shown.priority);
        if shown.effective_priority > shown.priority {
            job.inherited = priority(shown.effective_priority);
        }
        (job.attempt, job.failures, job.crashes) = (shown.attempt, shown.failures, shown.crashes);
        job.updated_at = shown.updated_at.0;
        job.run_at = shown.run_at.0;
        job.retry_at = (state == JobState::Retrying).then_some(shown.run_at.0);
        job.scheduled_at = shown.scheduled_at.map(|moment| moment.0);
        job.first_started_at = shown.first_started_at.map(|moment| moment.0);
        job.started_at = shown.started_at.map(|moment| moment.0);
        job.completed_at = shown.completed_at.map(|moment| moment.0);
        job.expires_at = shown.expires_at.0;
        job.lease = shown.lease.map(|lease| job::Lease {
            worker: lease.worker.0,
            expires_at: lease.expires_at.0,
            deadline_at: lease.deadline.0,
        });
        job.parent = shown.parent.map(|id| Parent { seq: Seq(0), id: id.0, group: 0, index: 0 });
        job.trace = shown.traceparent.as_deref().and_then(Traceparent::parse).map(|parent| parent.trace_id());
        job.cost_cents = shown.cost_cents;
        job.has.result = shown.result.is_some();
        job.has.callback = shown.callback_url.is_some();
        job.details = Arc::new(details);
        job
    }
}

/// A priority from a server, moved into the range.
pub fn priority(value: u8) -> Priority {
    Priority::new(i64::from(value)).unwrap_or_default()
}

impl From<job::Lease> for Lease {
    fn from(lease: job::Lease) -> Lease {
        Lease {
            worker: Text(lease.worker),
            expires_at: lease.expires_at.into(),
            deadline: lease.deadline_at.into(),
        }
    }
}

impl From<&job::Suspension> for Suspension {
    fn from(suspension: &job::Suspension) -> Suspension {
        Suspension {
            by: suspension.by.clone(),
            reason: suspension.reason.clone(),
            mode: suspension.mode,
            at: suspension.at.into(),
            expires_at: suspension.expires_at.map(Moment),
        }
    }
}

impl From<Suspension> for job::Suspension {
    fn from(shown: Suspension) -> job::Suspension {
        job::Suspension {
            by: shown.by,
            reason: shown.reason,
            mode: shown.mode,
            at: shown.at.0,
            expires_at: shown.expires_at.map(|moment| moment.0),
            by_pause: false,
        }
    }
}

impl From<&job::ErrorRecord> for JobError {
    fn from(error: &job::ErrorRecord) -> JobError {
        let cause = |cause: &job::ErrorCause| JobErrorCause {
            message: cause.message.clone(),
            code: cause.code.clone(),
        };
        JobError {
            category: error.category,
            code: error.code.clone(),
            message: error.message.clone(),
            at: error.at.into(),
            attempt: error.attempt,
            retry_after: error.retry_after.map(Span),
            error_type: error.error_type().to_owned(),
            cause: error.cause.iter().map(cause).collect(),
        }
    }
}

impl From<JobError> for job::ErrorRecord {
    fn from(shown: JobError) -> job::ErrorRecord {
        let cause = |cause: JobErrorCause| job::ErrorCause { message: cause.message, code: cause.code };
        job::ErrorRecord {
            category: shown.category,
            code: shown.code,
            message: shown.message,
            at: shown.at.0,
            attempt: shown.attempt,
            retry_after: shown.retry_after.map(|span| span.0),
            retryable: shown.error_type == "RETRYABLE",
            cause: shown.cause.into_iter().map(cause).collect(),
        }
    }
}

impl From<&job::Progress> for Progress {
    fn from(progress: &job::Progress) -> Progress {
        Progress { percent: progress.percent, message: progress.message.clone() }
    }
}

impl From<Progress> for job::Progress {
    fn from(shown: Progress) -> job::Progress {
        job::Progress { percent: shown.percent, message: shown.message }
    }
}
