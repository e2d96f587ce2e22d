//! How attempts end: results, costs, releases, and reports that are stale or not allowed.

pub mod cause;
pub mod lifetime;
pub mod retry;
pub mod start;
pub mod together;

use windlass::error::WorkError;
use windlass::job::{AttemptOutcome, Category, Failure, JobId, JobState, JobType};
use windlass::limits;
use windlass::store::{Finish, JobResult, Outcome, Park, Report};

use crate::fixture::{Fixture, new_job, secs, tenant};

tests!(
    jobs_finish, jobs::finish:
    a_result_is_kept_byte_for_byte_and_a_job_without_one_says_so,
    a_result_at_the_limit_is_kept_and_one_byte_more_is_rejected_while_the_lease_continues,
    a_failed_attempt_keeps_its_error_and_a_success_clears_it_from_the_job,
    the_error_record_has_every_field_and_its_type_is_derived,
    a_long_message_is_cut_to_4_kib_at_the_boundary_of_a_character,
    a_permanent_first_failure_counts_no_retry,
    a_release_is_no_failure_and_is_due_at_once,
    costs_add_up_per_job_and_per_tenant_and_type,
    a_batch_is_answered_in_order_and_a_bad_item_is_rejected_alone,
    a_thousand_outcomes_are_taken_and_one_more_is_refused_as_a_whole,
    a_repeated_or_stale_report_changes_nothing,
    every_attempt_has_an_identity_and_names_the_one_before,
);

/// Model: result-cost-and-progress
async fn a_result_is_kept_byte_for_byte_and_a_job_without_one_says_so(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let result = br#"{ "pages" : 3.0, "name":"\u00e9" }"#.to_vec();
    let outcome = Outcome::Completed { result: Some(result.clone()) };
    assert_eq!(
        t.finish(worker, claimed.job.id, claimed.job.fence, outcome).await,
        Finish::Applied(JobState::Completed)
    );
    let kept = t.store.result(&t.me, claimed.job.id).await.unwrap().unwrap();
    assert_eq!(kept.0.as_deref(), Some(result.as_slice()));

    let (worker, claimed) = t.running(new_job("report")).await;
    t.complete(worker, &claimed).await;
    assert_eq!(t.store.result(&t.me, claimed.job.id).await.unwrap(), Some(JobResult(None)));
    let unknown = JobId::from_bytes([7; 16]);
    assert_eq!(t.store.result(&t.me, unknown).await.unwrap(), None);
}

/// Model: result-cost-and-progress
async fn a_result_at_the_limit_is_kept_and_one_byte_more_is_rejected_while_the_lease_continues(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let (id, fence) = (claimed.job.id, claimed.job.fence);
    let of_size = |size: usize| Outcome::Completed { result: Some(vec![b'1'; size]) };
    let before = t.picture(id).await;
    let answer = t.finish(worker, id, fence, of_size(limits::PAYLOAD_BYTES_DEFAULT + 1)).await;
    assert!(matches!(&answer, Finish::Rejected(invalid) if invalid.field == "result"), "{answer:?}");
    assert_eq!(t.picture(id).await, before);
    let answer = t.finish(worker, id, fence, of_size(limits::PAYLOAD_BYTES_DEFAULT)).await;
    assert_eq!(answer, Finish::Applied(JobState::Completed));
    let kept = t.store.result(&t.me, id).await.unwrap().unwrap().0.unwrap();
    assert_eq!(kept.len(), limits::PAYLOAD_BYTES_DEFAULT);
}

/// Model: error-record
async fn a_failed_attempt_keeps_its_error_and_a_success_clears_it_from_the_job(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let id = claimed.job.id;
    t.fail(worker, &claimed, Failure::temporary("busy").with_code("busy")).await;
    let error = t.get(id).await.job.details.error.clone().expect("the job shows its latest error");
    t.advance(secs(2));
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    assert_eq!(t.get(id).await.job.details.error, None);
    let attempts = t.attempts(id).await;
    let errors: Vec<_> =
        attempts.iter().map(|attempt| attempt.record.as_ref().unwrap().error.clone()).collect();
    assert_eq!(errors, [Some(error), None]);
}

/// Model: error-record
async fn the_error_record_has_every_field_and_its_type_is_derived(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    t.advance(secs(5));
    let failure = Failure::temporary("busy").with_code("busy").with_retry_after(secs(7));
    t.fail(worker, &claimed, failure).await;
    let error = t.get(claimed.job.id).await.job.details.error.clone().unwrap();
    assert_eq!((error.category, error.code.as_deref()), (Category::Temporary, Some("busy")));
    assert_eq!((error.message.as_str(), error.at, error.attempt), ("busy", t.now(), 1));
    assert_eq!((error.retry_after, error.error_type()), (Some(secs(7)), "RETRYABLE"));
    t.advance(secs(7));
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::permanent("gone", "no such address")).await;
    let error = t.get(claimed.job.id).await.job.details.error.clone().unwrap();
    assert_eq!((error.attempt, error.error_type(), error.retry_after), (2, "TERMINAL", None));
}

/// Model: error-record
async fn a_long_message_is_cut_to_4_kib_at_the_boundary_of_a_character(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    // The euro sign has three bytes, and 4096 is not a multiple of three. The fields are public, so a message may come
    // past the constructor that cuts it.
    let failure = Failure { message: "€".repeat(2000), ..Failure::temporary("") };
    t.fail(worker, &claimed, failure).await;
    let error = t.get(claimed.job.id).await.job.details.error.clone().unwrap();
    assert_eq!(error.message, "€".repeat(1365));
}

/// Model: counters-and-fences
async fn a_permanent_first_failure_counts_no_retry(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let answer = t.fail(worker, &claimed, Failure::permanent("gone", "no such address")).await;
    assert_eq!(answer, Finish::Applied(JobState::Failed));
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.attempt, job.failures, job.retry_count()), (1, 0, 0));
    assert_eq!((job.completed_at, job.lease), (Some(t.now()), None));
}

/// Model: counters-and-fences, crashes-and-poison
async fn a_release_is_no_failure_and_is_due_at_once(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let answer = t.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Released).await;
    assert_eq!(answer, Finish::Applied(JobState::Retrying));
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.failures, job.crashes, job.retry_at), (0, 0, Some(t.now())));
    assert_eq!(job.details.error, None);
    let again = t.claim_one(worker).await;
    assert_eq!((again.job.id, again.job.attempt), (claimed.job.id, 2));
    assert!(again.job.fence > claimed.job.fence, "a fence is never used again");
    let first = t.attempts(job.id).await.remove(0).record.unwrap();
    assert_eq!(first.outcome, AttemptOutcome::Released);
}

/// Model: result-cost-and-progress
async fn costs_add_up_per_job_and_per_tenant_and_type(t: &Fixture) {
    let worker = t.worker().await;
    let mut jobs = Vec::new();
    for (name, job_type) in [("blue", "mail"), ("blue", "scan"), ("red", "mail"), ("blue", "mail")] {
        let mut job = new_job(job_type);
        job.tenant = Some(tenant(name));
        jobs.push(t.submit(job).await.id);
    }
    for (cents, claimed) in [3, 5, 7, 11].into_iter().zip(t.claim(worker, 4).await) {
        let outcome = Outcome::Failed(Failure::temporary("busy"));
        let report = Report { cost_cents: cents, ..Report::new(claimed.job.id, claimed.job.fence, outcome) };
        t.store.finish(&t.me, worker, vec![report]).await.unwrap();
    }
    t.advance(secs(2));
    for claimed in t.claim(worker, 4).await {
        let outcome = Outcome::Completed { result: None };
        let report = Report { cost_cents: 100, ..Report::new(claimed.job.id, claimed.job.fence, outcome) };
        // The second report is stale: what it says it cost is not booked again.
        let answers = t.store.finish(&t.me, worker, vec![report.clone(), report]).await.unwrap();
        assert_eq!(answers, [Finish::Applied(JobState::Completed), Finish::Stale]);
    }
    for (cents, id) in [103, 105, 107, 111].into_iter().zip(jobs) {
        assert_eq!(t.get(id).await.job.cost_cents, cents);
    }
    let costs = t.store.stats(&t.me).await.unwrap().costs;
    let of = |name: &str, job_type: &str| costs[&(tenant(name), JobType::new(job_type).unwrap())];
    assert_eq!((of("blue", "mail"), of("blue", "scan"), of("red", "mail")), (214, 105, 107));
    assert_eq!(costs.len(), 3);
}

/// Model: counters-and-fences, result-cost-and-progress
async fn a_batch_is_answered_in_order_and_a_bad_item_is_rejected_alone(t: &Fixture) {
    let worker = t.worker().await;
    t.submit_all((0..6).map(|_| new_job("report")).collect()).await;
    let claimed = t.claim(worker, 6).await;
    let park = |name: &str| Park::Signal { name: name.into(), step: None, timeout: None };
    let outcomes = [
        Outcome::Completed { result: None },
        Outcome::Parked(park("")),
        Outcome::Completed { result: None },
        Outcome::Failed(Failure::permanent("gone", "never")),
        Outcome::Released,
        Outcome::Parked(park("go")),
    ];
    let mut reports: Vec<Report> = claimed
        .iter()
        .zip(outcomes)
        .map(|(claimed, outcome)| Report::new(claimed.job.id, claimed.job.fence, outcome))
        .collect();
    reports[2].cost_cents = -1;
    let answers = t.store.finish(&t.me, worker, reports).await.unwrap();
    assert_eq!(answers[0], Finish::Applied(JobState::Completed));
    assert!(matches!(&answers[1], Finish::Rejected(invalid) if invalid.field == "park.signal"));
    assert!(matches!(&answers[2], Finish::Rejected(invalid) if invalid.field == "cost_cents"));
    assert_eq!(answers[3], Finish::Applied(JobState::Failed));
    assert_eq!(answers[4], Finish::Applied(JobState::Retrying));
    assert_eq!(answers[5], Finish::Applied(JobState::Waiting));
    for rejected in &claimed[1..3] {
        assert_eq!(t.get(rejected.job.id).await.job, rejected.job, "the lease continues");
        assert!(t.events_of(rejected.job.id).await.is_empty());
    }
    assert_eq!(t.complete(worker, &claimed[1]).await, Finish::Applied(JobState::Completed));
    assert_eq!(t.complete(worker, &claimed[2]).await, Finish::Applied(JobState::Completed));
}

/// Model: counters-and-fences
async fn a_thousand_outcomes_are_taken_and_one_more_is_refused_as_a_whole(t: &Fixture) {
    let worker = t.worker().await;
    let many = limits::OUTCOMES_PER_CALL_MAX;
    t.submit_all((0..=many).map(|_| new_job("report")).collect()).await;
    let mut claimed = t.claim(worker, many).await;
    claimed.extend(t.claim(worker, 1).await);
    let report = |claimed: &windlass::store::ClaimedJob| {
        Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: None })
    };
    let mut reports: Vec<Report> = claimed.iter().map(report).collect();
    let refused = t.store.finish(&t.me, worker, reports.clone()).await.unwrap_err();
    assert!(matches!(&refused, WorkError::Invalid(invalid) if invalid.field == "outcomes"), "{refused:?}");
    assert_eq!(t.store.stats(&t.me).await.unwrap().states[&JobState::Running], many as u64 + 1);
    assert!(t.trail().await.is_empty());
    let last = reports.pop().unwrap();
    let answers = t.store.finish(&t.me, worker, reports).await.unwrap();
    assert_eq!(answers, vec![Finish::Applied(JobState::Completed); many]);
    assert_eq!(
        t.store.finish(&t.me, worker, vec![last]).await.unwrap(),
        [Finish::Applied(JobState::Completed)]
    );
}

/// Model: counters-and-fences
async fn a_repeated_or_stale_report_changes_nothing(t: &Fixture) {
    let (worker, first) = t.running(new_job("report")).await;
    let id = first.job.id;
    t.fail(worker, &first, Failure::temporary("busy")).await;
    t.advance(secs(2));
    let second = t.claim_one(worker).await;
    let other = t.worker().await;
    let outcomes = [
        Outcome::Completed { result: Some(b"1".to_vec()) },
        Outcome::Failed(Failure::permanent("gone", "never")),
        Outcome::Released,
        Outcome::Parked(Park::For(secs(5))),
    ];
    let before = t.picture(id).await;
    for outcome in outcomes {
        // The fence of the attempt before, and the right fence in the wrong hands.
        assert_eq!(t.finish(worker, id, first.job.fence, outcome.clone()).await, Finish::Stale);
        assert_eq!(t.finish(other, id, second.job.fence, outcome.clone()).await, Finish::Stale);
        let unknown = JobId::from_bytes([7; 16]);
        assert_eq!(t.finish(worker, unknown, second.job.fence, outcome).await, Finish::Stale);
    }
    assert_eq!(t.picture(id).await, before);
    t.complete(worker, &second).await;
    let before = t.picture(id).await;
    assert_eq!(t.fail(worker, &second, Failure::permanent("gone", "never")).await, Finish::Stale);
    assert_eq!(t.picture(id).await, before);
}

/// Model: attempt-records
async fn every_attempt_has_an_identity_and_names_the_one_before(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let (id, started) = (claimed.job.id, t.now());
    t.advance(secs(3));
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    let claimed = t.claim_one(worker).await;
    let attempts = t.attempts(id).await;
    let ids: Vec<String> = attempts.iter().map(|attempt| attempt.id.to_string()).collect();
    assert_eq!(ids, [format!("{id}.1"), format!("{id}.2")]);
    assert_eq!((attempts[0].id.previous(), attempts[1].id.previous()), (None, Some(attempts[0].id)));
    assert_eq!(attempts[1].record, None, "the running attempt has not ended");
    assert_eq!(claimed.job.attempt_id(), attempts[1].id);
    let first = attempts[0].record.as_ref().unwrap();
    assert_eq!((first.worker, first.outcome), (Some(worker), AttemptOutcome::Failed));
    assert_eq!((first.started_at, first.ended_at), (started, started.plus(secs(3))));
    t.complete(worker, &claimed).await;
    let job = t.get(id).await.job;
    assert_eq!(job.first_started_at, Some(started));
    assert_eq!(t.attempts(id).await[1].record.as_ref().unwrap().outcome, AttemptOutcome::Completed);
}
