//! A job's version: a digest that changes with every change of the job, for preconditions (`ETag`, `If-Match`). It is
//! computed from the record and never stored.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{JobId, JobMetadata, JobRecord, JobState, Priority, RareFields, WorkerId};
use crate::clock::Timestamp;
use crate::error::FieldProblem;

/// Bytes of the digest: 96 bits, so that two versions of a job never collide in practice.
const BYTES: usize = 12;

/// A version of a job. Two equal versions of one job mean that it did not change in between.
///
/// The version covers everything that a request, a worker's outcome or a timer changes: state, priority, attempts,
/// times, lease holder, error, suspension, dependencies, costs, tags and other metadata. It does not cover what a
/// running attempt reports about itself (lease renewals, progress, log lines, output, checkpoints) or computed fields (`why`):
/// otherwise no precondition on a running job could ever hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; BYTES]);

/// The covered fields, in the order in which they are hashed.
#[derive(Serialize)]
struct VersionFields<'a> {
    id: JobId,
    state: JobState,
    priorities: (Priority, Priority),
    counts: (u32, u32, u32, u64, u32, bool),
    times: [Timestamp; 4],
    more_times: [Option<Timestamp>; 5],
    workers: (Option<WorkerId>, Option<WorkerId>),
    deadline_at: Option<Timestamp>,
    cost_cents: i64,
    details: &'a RareFields,
    metadata: &'a JobMetadata,
}

impl Version {
    /// The version of a job with this metadata.
    pub fn new(job: &JobRecord, metadata: &JobMetadata) -> Version {
        // These counters grow with log lines, signals, steps and output, which do not count as changes of the job.
        let details = RareFields {
            progress: None,
            log_lines: 0,
            signals: 0,
            checkpoints: 0,
            checkpoint_bytes: 0,
            groups: 0,
            stream: None,
            ..RareFields::clone(&job.details)
        };
        let covered = VersionFields {
            id: job.id,
            state: job.state,
            priorities: (job.priority, job.effective_priority()),
            counts: (job.attempt, job.failures, job.crashes, job.fence.0, job.after_unmet, job.any_unmet),
            times: [job.created_at, job.run_at, job.expires_at, job.updated_at],
            more_times: [
                job.retry_at,
                job.scheduled_at,
                job.first_started_at,
                job.started_at,
                job.completed_at,
            ],
            workers: (job.lease.map(|lease| lease.worker), job.completed_by),
            deadline_at: job.lease.map(|lease| lease.deadline_at),
            cost_cents: job.cost_cents,
            details: &details,
            metadata,
        };
        let bytes = serde_json::to_vec(&covered).expect("a job's record is plain data");
        let digest = Sha256::digest(&bytes);
        let mut version = [0; BYTES];
        version.copy_from_slice(&digest[..BYTES]);
        Version(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

impl FromStr for Version {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<Version, FieldProblem> {
        let unknown = || FieldProblem::Unknown {
            value: text.chars().take(BYTES * 4).collect(),
            allowed: "a version returned with a job",
        };
        if text.len() != BYTES * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(unknown());
        }
        let mut version = [0; BYTES];
        for (place, byte) in version.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[place * 2..place * 2 + 2], 16).map_err(|_| unknown())?;
        }
        Ok(Version(version))
    }
}
