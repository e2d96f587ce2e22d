//! A job as a row of a list.

use windlass::clock::Timestamp;
use windlass::job::{JobRecord, JobState};
use windlass::store::Snapshot;

use crate::dashboard::parts::components::{JobLink, Pill, priority_name};
use crate::dashboard::parts::format::{Moment, line, span, with_moments};

/// A job as a row of a list.
pub(in crate::dashboard) struct Row {
    pub(in crate::dashboard) id: String,
    pub(in crate::dashboard) link: JobLink,
    pub(in crate::dashboard) pill: Pill,
    pub(in crate::dashboard) job_type: String,
    pub(in crate::dashboard) queue: String,
    pub(in crate::dashboard) tenant: String,
    pub(in crate::dashboard) priority: u8,
    pub(in crate::dashboard) priority_name: &'static str,
    pub(in crate::dashboard) attempts: String,
    pub(in crate::dashboard) created: Moment,
    /// How long it ran, or has been running.
    pub(in crate::dashboard) ran: Option<String>,
    pub(in crate::dashboard) percent: Option<String>,
    /// Its error, what it waits for, or its progress.
    pub(in crate::dashboard) note: Option<String>,
    pub(in crate::dashboard) is_bad: bool,
}

impl Row {
    pub(in crate::dashboard) fn new(snapshot: &Snapshot, now: Timestamp) -> Row {
        let why = snapshot.why.as_ref().map(|why| line(&with_moments(&why.message, now), 160));
        Row { note: note(&snapshot.job).or(why), ..Row::of_job(&snapshot.job, now) }
    }

    pub(in crate::dashboard) fn of_job(job: &JobRecord, now: Timestamp) -> Row {
        let is_bad = matches!(job.state, JobState::Failed | JobState::DeadLetter | JobState::Retrying);
        Row {
            id: job.id.to_string(),
            link: JobLink(job.id),
            pill: Pill(job.state),
            job_type: job.lane.job_type.to_string(),
            queue: job.lane.queue.to_string(),
            tenant: job.lane.tenant.to_string(),
            priority: job.effective_priority().value(),
            priority_name: priority_name(job.effective_priority()),
            attempts: format!("{}/{}", job.attempt, job.policy.retry.max_attempts),
            created: Moment::new(job.created_at, now),
            ran: ran(job, now),
            percent: job.details.progress.as_ref().map(|progress| format!("{:.0}", progress.percent)),
            note: note(job),
            is_bad,
        }
    }
}

/// How long its latest attempt took, or has taken.
fn ran(job: &JobRecord, now: Timestamp) -> Option<String> {
    match job.state {
        JobState::Running => Some(span(now.since(job.started_at?))),
        JobState::Completed | JobState::Failed | JobState::DeadLetter => {
            Some(span(job.completed_at?.since(job.started_at?)))
        }
        _ => None,
    }
}

fn note(job: &JobRecord) -> Option<String> {
    let error = job.details.error.as_ref().map(|error| line(&error.message, 160));
    match job.state {
        JobState::Failed | JobState::DeadLetter | JobState::Retrying | JobState::Cancelled => error,
        JobState::Running => {
            job.details.progress.as_ref()?.message.as_deref().map(|message| line(message, 160))
        }
        _ => None,
    }
}
