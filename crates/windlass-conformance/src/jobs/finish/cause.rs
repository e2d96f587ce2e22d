//! The errors behind an error: kept with the job and with its attempt, within their limits (Model: error-record).

use windlass::job::{ErrorCause, Failure, JobState};
use windlass::limits;
use windlass::store::Finish;

use crate::fixture::{Fixture, new_job, secs};

tests!(
    jobs_finish_cause, jobs::finish::cause:
    the_errors_behind_a_failure_are_kept_with_the_job_and_its_attempt,
    a_chain_over_its_limits_is_cut_and_never_refused,
    a_failure_for_want_of_resources_is_final_unless_it_is_to_be_retried,
);

async fn the_errors_behind_a_failure_are_kept_with_the_job_and_its_attempt(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let disk = ErrorCause::new("no space left \u{1F4BE}").with_code("ENOSPC");
    let failure = Failure::temporary("cannot write").with_cause("cannot open").with_cause(disk.clone());
    t.fail(worker, &claimed, failure).await;
    let job = t.get(claimed.job.id).await.job;
    let expected = vec![ErrorCause::new("cannot open"), disk];
    assert_eq!(job.details.error.as_ref().unwrap().cause, expected);
    assert_eq!(t.attempts(job.id).await[0].record.as_ref().unwrap().error.as_ref().unwrap().cause, expected);
    t.advance(secs(2));
    let again = t.claim_one(worker).await;
    assert_eq!(again.job.details.error.as_ref().unwrap().cause, expected, "the next attempt sees it");
    assert_eq!(t.complete(worker, &again).await, Finish::Applied(JobState::Completed));
    assert_eq!(t.attempts(job.id).await[0].record.as_ref().unwrap().error.as_ref().unwrap().cause, expected);
}

async fn a_chain_over_its_limits_is_cut_and_never_refused(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let long = ErrorCause { message: "\u{20AC}".repeat(5_000), code: Some("c".repeat(5_000)) };
    let failure = Failure { cause: vec![long; 100], ..Failure::permanent("no", "no") };
    assert_eq!(t.fail(worker, &claimed, failure).await, Finish::Applied(JobState::Failed));
    let job = t.get(claimed.job.id).await.job;
    let kept = &job.details.error.as_ref().unwrap().cause;
    assert_eq!(kept.len(), limits::ERROR_CAUSES_MAX);
    for cause in kept {
        assert!(cause.message.len() <= limits::ERROR_CAUSE_BYTES_MAX);
        assert!(cause.code.as_ref().unwrap().len() <= limits::ERROR_CODE_CHARS_MAX);
    }
}

/// Model: error-categories
async fn a_failure_for_want_of_resources_is_final_unless_it_is_to_be_retried(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let failure = Failure::resource("quota", "over quota");
    assert_eq!(t.fail(worker, &claimed, failure).await, Finish::Applied(JobState::Failed));
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.failures, job.crashes), (0, 0));
}
