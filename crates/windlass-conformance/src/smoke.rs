//! The walk of one job.
use windlass::job::JobState;
use windlass::store::Finish;

use crate::fixture::{Fixture, new_job};

tests!(smoke, smoke: a_job_is_submitted_claimed_and_completed);

/// Model: final-states, counters-and-fences
async fn a_job_is_submitted_claimed_and_completed(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    assert_eq!(claimed.job.attempt, 1);
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
    assert_eq!(t.state(claimed.job.id).await, JobState::Completed);
    assert_eq!(t.complete(worker, &claimed).await, Finish::Stale);
}
