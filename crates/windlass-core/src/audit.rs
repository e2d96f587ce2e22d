//! The audit trail as data: the closed list of events, the record, the levels, and the hash chain that reveals any
//! edit. The store writes and reads the records.

mod head;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use head::{NotAHead, SealPoint, SealSignature};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Words;
use crate::clock::Timestamp;
use crate::error::FieldProblem;
use crate::job::{JobId, JobType, QueueName, Tenant};

macro_rules! events {
    ($($variant:ident = $name:literal, $severity:ident, $kind:ident;)*) => {
        /// The event of an audit record. The list is closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is named for what happened")]
        pub enum AuditEvent { $($variant,)* }

        impl AuditEvent {
            /// All events.
            pub const ALL: &'static [AuditEvent] = &[$(AuditEvent::$variant,)*];

            /// The dotted name.
            pub fn as_str(self) -> &'static str {
                match self { $(AuditEvent::$variant => $name,)* }
            }

            /// How important it is.
            pub fn severity(self) -> Severity {
                match self { $(AuditEvent::$variant => Severity::$severity,)* }
            }

            /// The level at which it is stored.
            fn kind(self) -> Kind {
                match self { $(AuditEvent::$variant => Kind::$kind,)* }
            }
        }
    };
}

events! {
    Submitted = "job.lifecycle.submitted", Info, Routine;
    Claimed = "job.lifecycle.claimed", Info, Routine;
    Completed = "job.lifecycle.completed", Info, Outcome;
    Failed = "job.lifecycle.failed", Error, Outcome;
    Retried = "job.lifecycle.retried", Warning, Routine;
    Exhausted = "job.lifecycle.exhausted", Error, Outcome;
    Expired = "job.lifecycle.expired", Error, Outcome;
    Cancelled = "job.lifecycle.cancelled", Info, Operator;
    Suspended = "job.lifecycle.suspended", Info, Operator;
    Resumed = "job.lifecycle.resumed", Info, Operator;
    Redriven = "job.lifecycle.redriven", Info, Operator;
    Reaped = "job.lifecycle.reaped", Warning, Routine;
    PriorityUpdated = "job.ops.priority_updated", Info, Operator;
    Patched = "job.ops.patched", Info, Operator;
    Deleted = "job.ops.deleted", Info, Operator;
    Signalled = "job.ops.signalled", Info, Operator;
    Held = "job.ops.held", Info, Routine;
    Promoted = "job.ops.promoted", Info, Routine;
    Released = "job.ops.released", Info, Routine;
    Parked = "job.ops.parked", Info, Routine;
    Woken = "job.ops.woken", Info, Routine;
    QueuePaused = "queue.ops.paused", Info, Operator;
    QueueResumed = "queue.ops.resumed", Info, Operator;
    QueueConfigured = "queue.ops.configured", Info, Operator;
    TypeConfigured = "type.ops.configured", Info, Operator;
    TenantConfigured = "tenant.ops.configured", Info, Operator;
    WorkerPaused = "worker.ops.paused", Info, Operator;
    WorkerResumed = "worker.ops.resumed", Info, Operator;
    GateClosed = "gate.ops.closed", Warning, Operator;
    GateOpened = "gate.ops.opened", Info, Operator;
    KeyCreated = "key.ops.created", Info, Operator;
    KeyRevoked = "key.ops.revoked", Info, Operator;
    ScheduleCreated = "schedule.ops.created", Info, Operator;
    ScheduleUpdated = "schedule.ops.updated", Info, Operator;
    ScheduleDeleted = "schedule.ops.deleted", Info, Operator;
    SchedulePaused = "schedule.ops.paused", Info, Operator;
    ScheduleResumed = "schedule.ops.resumed", Info, Operator;
    ScheduleTriggered = "schedule.ops.triggered", Info, Operator;
    ScheduleMissed = "schedule.ops.missed", Warning, Operator;
    Refused = "job.ops.refused", Error, Operator;
    Debounced = "job.ops.debounced", Info, Operator;
    SecretRotated = "key.ops.secret_rotated", Info, Operator;
    ClockAccepted = "clock.ops.accepted", Warning, Operator;
    GenerationChanged = "store.ops.generation_changed", Warning, Operator;
    SuspendRequested = "job.lifecycle.suspend_requested", Info, Operator;
    ScheduleRefused = "schedule.ops.refused", Warning, Operator;
    RetentionConfigured = "store.ops.retention_configured", Info, Operator;
    KeyRefused = "key.ops.refused", Warning, Operator;
    ScheduleRestored = "schedule.ops.restored", Info, Operator;
    AlertCreated = "alert.ops.created", Info, Operator;
    AlertUpdated = "alert.ops.updated", Info, Operator;
    AlertDeleted = "alert.ops.deleted", Info, Operator;
    AlertPaused = "alert.ops.paused", Info, Operator;
    AlertResumed = "alert.ops.resumed", Info, Operator;
    AlertTested = "alert.ops.tested", Info, Operator;
    AlertFired = "alert.ops.fired", Warning, Operator;
    AlertRepeated = "alert.ops.repeated", Warning, Operator;
    AlertResolved = "alert.ops.resolved", Info, Operator;
    StoreRepaired = "store.ops.repaired", Warning, Operator;
}

impl fmt::Display for AuditEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AuditEvent {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<AuditEvent, FieldProblem> {
        AuditEvent::ALL
            .iter()
            .copied()
            .find(|event| event.as_str() == text)
            .ok_or_else(|| FieldProblem::unknown(text, "the audit events listed in the documentation"))
    }
}

/// The level of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Operator,
    Outcome,
    Routine,
}

/// Which events of a queue are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditLevel {
    /// Every transition.
    All,
    /// Operator actions and every final state.
    #[default]
    Outcomes,
    /// Operator actions only.
    Operators,
}

impl AuditLevel {
    /// Whether an event is stored at this level.
    pub fn keeps(self, event: AuditEvent) -> bool {
        match event.kind() {
            Kind::Operator => true,
            Kind::Outcome => self != AuditLevel::Operators,
            Kind::Routine => self == AuditLevel::All,
        }
    }
}

/// How important a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
#[non_exhaustive]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// One record of the audit trail.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Sequence number, without gaps; 0 for a live event that is not stored.
    pub seq: u64,
    /// The event.
    pub event: AuditEvent,
    /// The type's own name for a success, if it has one.
    pub alias: Option<String>,
    /// The time.
    pub at: Timestamp,
    /// Type of the actor: `user`, `worker` or `system`.
    pub actor_type: String,
    /// The actor.
    pub actor_id: String,
    /// The tenant that owns the job or setting.
    pub tenant: Tenant,
    /// The job, if the record is about one.
    pub job: Option<JobId>,
    /// The queue of that job, or the queue the record is about.
    pub queue: Option<QueueName>,
    /// The type of that job, or the type the record is about.
    pub job_type: Option<JobType>,
    /// The trace it belongs to.
    pub trace_id: Option<String>,
    /// Further data, as JSON.
    pub context: String,
}

impl Record {
    /// The displayed name: the alias of the job's type, or the event's own name.
    pub fn name(&self) -> &str {
        self.alias.as_deref().unwrap_or(self.event.as_str())
    }

    /// The record as it is hashed: every field prefixed with its length, and for optional texts whether they exist, so
    /// that no two records are encoded alike.
    fn canonical(&self, into: &mut Sha256) {
        let mut field = |bytes: &[u8]| {
            into.update(u64::try_from(bytes.len()).expect("a length fits 64 bits").to_be_bytes());
            into.update(bytes);
        };
        field(&self.seq.to_be_bytes());
        field(self.event.as_str().as_bytes());
        field(&[u8::from(self.alias.is_some())]);
        field(self.alias.as_deref().unwrap_or_default().as_bytes());
        field(&self.at.as_millis().to_be_bytes());
        field(self.actor_type.as_bytes());
        field(self.actor_id.as_bytes());
        field(self.tenant.as_str().as_bytes());
        field(self.job.as_ref().map_or(&[][..], |job| &job.as_bytes()[..]));
        field(&[u8::from(self.trace_id.is_some())]);
        field(self.trace_id.as_deref().unwrap_or_default().as_bytes());
        field(self.context.as_bytes());
        // Records from before these fields existed end here, and so do records without both.
        if self.queue.is_some() || self.job_type.is_some() {
            field(&[u8::from(self.queue.is_some()), u8::from(self.job_type.is_some())]);
            field(self.queue.as_ref().map_or("", QueueName::as_str).as_bytes());
            field(self.job_type.as_ref().map_or("", JobType::as_str).as_bytes());
        }
    }
}

/// A seal of the audit trail: the hash of all records up to `through`.
///
/// The chain has one link per record, so it does not matter where the seals were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The last record it covers.
    pub through: u64,
    /// SHA-256 over the previous link and the record, in hexadecimal.
    pub hash: String,
}

impl Seal {
    /// The start of the chain.
    pub fn origin() -> Seal {
        Seal { through: 0, hash: String::new() }
    }

    /// The seal after one more record.
    #[must_use]
    pub fn extend(&self, record: &Record) -> Seal {
        let mut hasher = Sha256::new();
        hasher.update(self.hash.as_bytes());
        record.canonical(&mut hasher);
        let hash = hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
            text
        });
        Seal { through: record.seq, hash }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
