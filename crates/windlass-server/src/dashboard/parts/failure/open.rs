//! Which queues and types have failures that were not retried. Counters do not know it, so the newest are read.

use std::collections::BTreeSet;

use windlass::job::{JobRecord, JobState, JobType, QueueName};

use crate::dashboard::Dashboard;
use crate::dashboard::page::PageError;
use crate::dashboard::pages::jobs::dead_letters::FailedJobs;
use crate::dashboard::requests::middleware::Visitor;

/// Queues and types with open failures.
#[derive(Default)]
pub(in crate::dashboard) struct OpenFailures {
    queues: BTreeSet<QueueName>,
    types: BTreeSet<JobType>,
    /// Whether there are older ones, which were not read: then each queue and type may have some.
    has_more: bool,
}

impl OpenFailures {
    /// Reads the newest failures.
    pub(in crate::dashboard) async fn read(
        board: &Dashboard,
        visitor: &Visitor,
    ) -> Result<OpenFailures, PageError> {
        let states = [JobState::Failed, JobState::DeadLetter];
        let mut walk = FailedJobs::new(board.store(), &visitor.caller, &states, None);
        let jobs = walk.next().await?;
        Ok(OpenFailures::new(&jobs, !walk.is_over))
    }

    /// Those of these jobs, which are open.
    pub(in crate::dashboard) fn new<'a>(
        jobs: impl IntoIterator<Item = &'a JobRecord>,
        has_more: bool,
    ) -> OpenFailures {
        let mut found = OpenFailures { has_more, ..OpenFailures::default() };
        for job in jobs {
            found.queues.insert(job.lane.queue.clone());
            found.types.insert(job.lane.job_type.clone());
        }
        found
    }

    /// Whether a queue has open failures, or may have some.
    pub(in crate::dashboard) fn in_queue(&self, queue: &QueueName) -> bool {
        self.has_more || self.queues.contains(queue)
    }

    /// Whether a type has open failures, or may have some.
    pub(in crate::dashboard) fn of_type(&self, job_type: &JobType) -> bool {
        self.has_more || self.types.contains(job_type)
    }
}
