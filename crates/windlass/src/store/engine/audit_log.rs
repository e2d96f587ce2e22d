//! The audit log: records that are appended, never changed, and numbered from 1 without gaps. It is a hash chain; what a
//! commit appends is either all there or not at all.

use crate::audit::{AuditEvent, Record};
use crate::clock::Timestamp;
use crate::job::{JobId, JobType, QueueName, Tenant};
use crate::store::engine::EngineResult;

/// Selects the audit records to read, in ascending order.
#[derive(Debug, Clone, Default)]
pub struct RecordQuery {
    /// Only records after this number.
    pub after: u64,
    /// Only records before this number.
    pub before: Option<u64>,
    /// Only records about this job.
    pub job: Option<JobId>,
    /// Only this event.
    pub event: Option<AuditEvent>,
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only by this kind of actor: `user`, `worker` or `system`.
    pub actor_type: Option<String>,
    /// Only records of this tenant.
    pub tenant: Option<Tenant>,
    /// Only records about this queue or its jobs.
    pub queue: Option<QueueName>,
    /// Only records about this type or its jobs.
    pub job_type: Option<JobType>,
    /// Only records at or after this time.
    pub since: Option<Timestamp>,
    /// Only records before this time.
    pub until: Option<Timestamp>,
    /// Maximum number of results.
    pub limit: usize,
    /// Maximum number of records to scan for one page when no index matches the query; engines ignore it. At most
    /// [`limits::AUDIT_SCAN_MAX`](crate::limits::AUDIT_SCAN_MAX), which is also the default.
    pub reach: Option<u64>,
}

impl RecordQuery {
    /// Whether a record is one of those selected.
    pub fn matches(&self, record: &Record) -> bool {
        record.seq > self.after
            && self.before.is_none_or(|before| record.seq < before)
            && self.job.is_none_or(|job| record.job == Some(job))
            && self.event.is_none_or(|event| record.event == event)
            && self.actor.as_ref().is_none_or(|actor| record.actor_id == *actor)
            && self.actor_type.as_ref().is_none_or(|kind| record.actor_type == *kind)
            && self.tenant.as_ref().is_none_or(|tenant| record.tenant == *tenant)
            && (self.queue.is_none() || record.queue == self.queue)
            && (self.job_type.is_none() || record.job_type == self.job_type)
            && self.since.is_none_or(|since| record.at >= since)
            && self.until.is_none_or(|until| record.at < until)
    }
}

/// Reading the audit log.
pub trait AuditLog {
    /// The audit records that match a query, in ascending order.
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>>;
}

/// Writing the audit log.
pub trait AuditLogMut: AuditLog {
    /// Appends audit records and gives each the next number, without gaps: a commit that is rolled back gives its
    /// numbers back.
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()>;
}
