//! Records of finished attempts. The attempt that completed a job is not stored separately: it is derived from
//! the job itself, because most jobs complete at their first attempt.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{AttemptOutcome, ErrorRecord, JobRecord, WorkerId};
use crate::store::documents::config::parse;
use crate::store::engine::{EngineResult, JobDataKind, JobDataQuery, Read};

/// A stored record of a finished attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The worker that ran it.
    pub worker: Option<WorkerId>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The outcome.
    pub outcome: AttemptOutcome,
    /// Its error, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
}

impl AttemptRecord {
    /// The attempt that completed this job, if one did and is not stored separately.
    fn completing(job: &JobRecord) -> Option<AttemptRecord> {
        Some(AttemptRecord {
            worker: Some(job.completed_by?),
            started_at: job.started_at?,
            ended_at: job.completed_at?,
            outcome: AttemptOutcome::Completed,
            error: None,
        })
    }
}

/// All finished attempts of a job, with their numbers, in order.
pub(crate) fn ended(
    db: &mut (impl Read + ?Sized),
    job: &JobRecord,
) -> EngineResult<Vec<(u32, AttemptRecord)>> {
    let completing = AttemptRecord::completing(job);
    let mut found = Vec::new();
    if job.attempt > u32::from(completing.is_some()) {
        // A job that sleeps now and then may have any number of attempts; its record has the number.
        let limit = usize::try_from(job.attempt).unwrap_or(usize::MAX).saturating_add(1);
        let query = JobDataQuery { seq: job.seq, kind: JobDataKind::Attempt, name: None, above: None, limit };
        for data in db.job_data(query)? {
            found.push((u32::try_from(data.number).unwrap_or(u32::MAX), parse(&data.body)?));
        }
    }
    found.extend(completing.map(|record| (job.attempt, record)));
    Ok(found)
}
