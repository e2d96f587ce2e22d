//! What is written in the commit of an outcome: checkpoints, progress, log lines, and jobs that follow a completion.

use windlass::error::{FieldProblem, SubmitError, WorkError};
use windlass::job::{Dependency, Failure, GroupStrategy, JobState, NewJob, Progress};
use windlass::limits;
use windlass::store::caller::Role;
use windlass::store::{
    AttemptWrite, ClaimedJob, Filter, Finish, ListRequest, NewGroup, Order, Outcome, Park, Report,
    SpawnOptions,
};

use crate::fixture::{Fixture, caller, lease_ref, new_job, secs, tenant};

tests!(
    jobs_finish_together, jobs::finish::together:
    an_outcome_carries_checkpoints_progress_and_log_lines,
    a_wait_is_saved_in_the_commit_that_parks,
    an_outcome_that_cannot_be_written_writes_nothing_and_the_lease_continues,
    a_completion_submits_its_follow_ups_once,
    a_follow_up_may_depend_on_the_job_that_submits_it,
    a_refused_follow_up_leaves_the_job_running_and_the_other_reports_alone,
    only_a_completion_submits_and_only_so_many,
    an_outcome_that_is_refused_writes_nothing_of_what_came_with_it,
    a_job_waits_for_only_so_many_things,
    follow_ups_belong_to_the_tenant_of_their_job_and_need_the_permission_to_submit,
    a_group_is_spawned_together_with_checkpoints,
);

fn checkpoint(step: &str, value: &str) -> AttemptWrite {
    AttemptWrite::Checkpoint { step: step.to_owned(), value: value.into() }
}

fn report(claimed: &ClaimedJob, outcome: Outcome) -> Report {
    Report::new(claimed.job.id, claimed.job.fence, outcome)
}

fn completed(claimed: &ClaimedJob, follow_ups: Vec<NewJob>) -> Report {
    Report { follow_ups, ..report(claimed, Outcome::Completed { result: None }) }
}

async fn of_type(t: &Fixture, job_type: &str) -> Vec<JobState> {
    let filter = Filter { job_type: Some(crate::fixture::job_type(job_type)), ..Filter::default() };
    let request = ListRequest { filter, order: Order::Oldest, limit: 500, ..ListRequest::default() };
    let page = t.store.list(&t.me, request).await.unwrap();
    page.jobs.iter().map(|found| found.job.state).collect()
}

/// Model: atomic-changes, checkpoints, result-cost-and-progress
async fn an_outcome_carries_checkpoints_progress_and_log_lines(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    t.checkpoint(&claimed, "a", "0").await;
    let writes = vec![
        checkpoint("a", "1"),
        checkpoint("b", "[2]"),
        checkpoint("b", "[3]"),
        AttemptWrite::Progress(Progress { percent: 50.0, message: None }),
        AttemptWrite::Logs(vec!["one".into(), "two".into()]),
    ];
    let failed = Report { writes, ..report(&claimed, Outcome::Failed(Failure::temporary("busy"))) };
    let answer = t.store.finish(&t.me, worker, vec![failed.clone()]).await.unwrap();
    assert_eq!(answer, [Finish::Applied(JobState::Retrying)]);
    let id = claimed.job.id;
    let saved = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "[3]".to_owned())];
    assert_eq!(t.checkpoints(id).await, saved);
    let job = t.get(id).await.job;
    assert_eq!((job.details.checkpoints, job.details.checkpoint_bytes), (2, 4));
    assert_eq!(job.details.progress, Some(Progress { percent: 50.0, message: None }));
    assert_eq!(t.store.logs(&t.me, id, 0).await.unwrap().unwrap().len(), 2);
    // A repeat of it is stale, and writes nothing.
    let before = t.picture(id).await;
    assert_eq!(t.store.finish(&t.me, worker, vec![failed]).await.unwrap(), [Finish::Stale]);
    assert_eq!(t.picture(id).await, before);
    assert_eq!(t.store.logs(&t.me, id, 0).await.unwrap().unwrap().len(), 2);
}

/// Model: sleeps-and-signals, atomic-changes
async fn a_wait_is_saved_in_the_commit_that_parks(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let id = claimed.job.id;
    t.store.signal(&t.me, id, "paid", b"7".to_vec()).await.unwrap();
    let park =
        Park::Any(vec![Park::For(secs(60)), Park::Signal { name: "paid".into(), step: None, timeout: None }]);
    let writes = vec![checkpoint("sleep:", r#"{"at":0}"#)];
    let parked = Report { writes, ..report(&claimed, Outcome::Parked(park)) };
    let answer = t.store.finish(&t.me, worker, vec![parked]).await.unwrap();
    // The signal was there already.
    assert_eq!(answer, [Finish::Applied(JobState::Scheduled)]);
    let names: Vec<String> = t.checkpoints(id).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["signal:paid", "sleep:"]);
}

/// Model: refused-changes, checkpoints
async fn an_outcome_that_cannot_be_written_writes_nothing_and_the_lease_continues(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let too_long = "x".repeat(limits::STEP_NAME_CHARS_MAX + 1);
    let too_large = "1".repeat(limits::PAYLOAD_BYTES_DEFAULT + 1);
    let before = t.picture(claimed.job.id).await;
    for bad in [
        checkpoint("", "1"),
        checkpoint(&too_long, "1"),
        checkpoint("a", &too_large),
        AttemptWrite::Progress(Progress { percent: 101.0, message: None }),
        AttemptWrite::Logs(vec![String::new(); limits::LOG_LINES_PER_CALL_MAX + 1]),
    ] {
        let writes = vec![checkpoint("good", "1"), bad];
        let follow_ups = vec![new_job("next")];
        let wrong = Report { writes, ..completed(&claimed, follow_ups) };
        let answer = t.store.finish(&t.me, worker, vec![wrong]).await.unwrap();
        assert!(matches!(answer[..], [Finish::Rejected(_)]), "{answer:?}");
        assert_eq!(t.picture(claimed.job.id).await, before);
    }
    assert_eq!(of_type(t, "next").await, []);
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
}

/// Model: follow-ups, atomic-changes. A lost answer is repeated, and nothing is submitted a second time.
async fn a_completion_submits_its_follow_ups_once(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("first")).await;
    let done = completed(&claimed, vec![new_job("next"), new_job("next")]);
    let answer = t.store.finish(&t.me, worker, vec![done.clone()]).await.unwrap();
    assert_eq!(answer, [Finish::Applied(JobState::Completed)]);
    assert_eq!(of_type(t, "next").await, [JobState::Scheduled, JobState::Scheduled]);
    assert_eq!(t.store.finish(&t.me, worker, vec![done]).await.unwrap(), [Finish::Stale]);
    assert_eq!(of_type(t, "next").await.len(), 2);
    assert_eq!(t.claim(worker, 10).await.len(), 2);
}

/// Model: follow-ups, dependencies
async fn a_follow_up_may_depend_on_the_job_that_submits_it(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("first")).await;
    let next = NewJob { after: vec![Dependency::Job(claimed.job.id)], ..new_job("next") };
    let answer = t.store.finish(&t.me, worker, vec![completed(&claimed, vec![next])]).await.unwrap();
    assert_eq!(answer, [Finish::Applied(JobState::Completed)]);
    assert_eq!(t.claim(worker, 10).await.len(), 1);
}

/// Model: follow-ups, refused-changes, unique-key
async fn a_refused_follow_up_leaves_the_job_running_and_the_other_reports_alone(t: &Fixture) {
    let worker = t.worker().await;
    let unique = || NewJob { unique_key: Some("k".into()), ..new_job("next") };
    let holder = t.submit(NewJob { delay: Some(secs(60)), ..unique() }).await.id;
    t.submit_all(vec![new_job("first"); 2]).await;
    let claimed = t.claim(worker, 2).await;
    let writes = vec![checkpoint("a", "1")];
    let reports = vec![
        Report { writes, ..completed(&claimed[0], vec![new_job("next"), unique()]) },
        completed(&claimed[1], vec![new_job("other")]),
    ];
    let answers = t.store.finish(&t.me, worker, reports).await.unwrap();
    let taken = SubmitError::UniqueKeyTaken { index: 1, key: "k".into(), holder };
    assert_eq!(answers, [Finish::Refused(Box::new(taken)), Finish::Applied(JobState::Completed)]);
    assert_eq!(of_type(t, "next").await, [JobState::Delayed]);
    assert_eq!(of_type(t, "other").await, [JobState::Scheduled]);
    let after = t.get(claimed[0].job.id).await;
    assert_eq!((after.job.state, after.job.details.checkpoints), (JobState::Running, 0));
    t.cancel(holder).await;
    let again = completed(&claimed[0], vec![new_job("next"), unique()]);
    let answer = t.store.finish(&t.me, worker, vec![again]).await.unwrap();
    assert_eq!(answer, [Finish::Applied(JobState::Completed)]);
}

/// Model: follow-ups, bounded-commits
async fn only_a_completion_submits_and_only_so_many(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("first")).await;
    let next = |count| vec![new_job("next"); count];
    let failed = Outcome::Failed(Failure::temporary("busy"));
    for outcome in [failed, Outcome::Released, Outcome::Parked(Park::For(secs(1)))] {
        let wrong = Report { follow_ups: next(1), ..report(&claimed, outcome) };
        let answer = t.store.finish(&t.me, worker, vec![wrong]).await.unwrap();
        assert!(
            matches!(&answer[..], [Finish::Rejected(invalid)] if invalid.field == "submit"),
            "{answer:?}"
        );
    }
    let answer = t
        .store
        .finish(&t.me, worker, vec![completed(&claimed, next(limits::FOLLOW_UPS_MAX + 1))])
        .await
        .unwrap();
    assert!(matches!(&answer[..], [Finish::Rejected(invalid)] if invalid.field == "submit"), "{answer:?}");
    let reports = vec![completed(&claimed, next(limits::FOLLOW_UPS_MAX)); 101];
    let refused = t.store.finish(&t.me, worker, reports).await.unwrap_err();
    let too_many = |problem: &FieldProblem| matches!(problem, FieldProblem::TooLong { .. });
    assert!(matches!(&refused, WorkError::Invalid(found) if too_many(&found.problem)), "{refused}");
    // As many as a call may submit; all but the first are repeats.
    let reports = vec![completed(&claimed, next(limits::FOLLOW_UPS_MAX)); 100];
    let answers = t.store.finish(&t.me, worker, reports).await.unwrap();
    assert_eq!(answers[..2], [Finish::Applied(JobState::Completed), Finish::Stale]);
    assert_eq!(of_type(t, "next").await.len(), limits::FOLLOW_UPS_MAX);
}

/// Model: atomic-changes. A single write could not be undone, because the other reports of the call are committed.
async fn an_outcome_that_is_refused_writes_nothing_of_what_came_with_it(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let progress = AttemptWrite::Progress(Progress { percent: 50.0, message: None });
    let after_a_gap = AttemptWrite::Stream { offset: Some(1), chunks: vec![b"1".to_vec()] };
    let writes = vec![checkpoint("a", "1"), progress, after_a_gap];
    let done = Report { writes, ..completed(&claimed, vec![]) };
    let answer = t.store.finish(&t.me, worker, vec![done]).await.unwrap();
    assert!(matches!(answer[..], [Finish::Rejected(_)]), "{answer:?}");
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.state, &job.details.progress), (JobState::Running, &None));
    assert!(t.checkpoints(claimed.job.id).await.is_empty());
}

/// Model: sleeps-and-signals. An outcome names a hundred things to wait for at most, none of which is a list of such things.
async fn a_job_waits_for_only_so_many_things(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let any = |count| Park::Any(vec![Park::For(secs(60)); count]);
    let parked = |park| vec![report(&claimed, Outcome::Parked(park))];
    for wrong in [any(limits::PARK_WAITS_MAX + 1), Park::Any(vec![any(1)])] {
        let answer = t.store.finish(&t.me, worker, parked(wrong)).await.unwrap();
        assert!(
            matches!(&answer[..], [Finish::Rejected(invalid)] if invalid.field == "park.any"),
            "{answer:?}"
        );
    }
    let answer = t.store.finish(&t.me, worker, parked(any(limits::PARK_WAITS_MAX))).await.unwrap();
    assert_eq!(answer, [Finish::Applied(JobState::Waiting)]);
}

/// Model: tenant-isolation, roles
async fn follow_ups_belong_to_the_tenant_of_their_job_and_need_the_permission_to_submit(t: &Fixture) {
    let (worker, claimed) = t.running(NewJob { tenant: Some(tenant("acme")), ..new_job("first") }).await;
    let foreign = NewJob { tenant: Some(tenant("other")), ..new_job("next") };
    let answer = t.store.finish(&t.me, worker, vec![completed(&claimed, vec![foreign])]).await.unwrap();
    assert!(matches!(answer[..], [Finish::Refused(_)]), "{answer:?}");
    let done = completed(&claimed, vec![new_job("next")]);
    assert_eq!(
        t.store.finish(&t.me, worker, vec![done]).await.unwrap(),
        [Finish::Applied(JobState::Completed)]
    );
    assert_eq!(t.claim_one(worker).await.job.lane.tenant, tenant("acme"));

    let works = caller("worker", Role::Worker, "acme");
    let new = windlass::store::NewWorker::default();
    let worker = t.store.register(&works, new).await.unwrap().id;
    t.submit(NewJob { tenant: Some(tenant("acme")), ..new_job("first") }).await;
    let request = windlass::store::ClaimRequest::new(worker, 1);
    let claimed = t.store.claim(&works, &request, std::time::Duration::ZERO).await.unwrap().jobs.remove(0);
    let done = completed(&claimed, vec![new_job("next")]);
    let answer = t.store.finish(&works, worker, vec![done]).await.unwrap();
    let is_denied =
        matches!(&answer[..], [Finish::Refused(refused)] if matches!(**refused, SubmitError::Forbidden(_)));
    assert!(is_denied, "{answer:?}");
}

/// Model: child-groups, atomic-changes
async fn a_group_is_spawned_together_with_checkpoints(t: &Fixture) {
    let (_, claimed) = t.running(new_job("parent")).await;
    let group = |count| NewGroup {
        name: "children:".into(),
        strategy: GroupStrategy::CollectAll,
        jobs: vec![new_job("child"); count],
    };
    let options = |value: &str| SpawnOptions {
        writes: vec![checkpoint("children:", value)],
        ..SpawnOptions::default()
    };
    let too_large = options(&"1".repeat(limits::PAYLOAD_BYTES_DEFAULT + 1));
    let before = t.everything().await;
    t.store.spawn_with(&t.me, lease_ref(&claimed), group(1), too_large).await.unwrap_err();
    assert_eq!(t.everything().await, before);
    let spawned = t.store.spawn_with(&t.me, lease_ref(&claimed), group(2), options("1")).await.unwrap();
    assert_eq!((spawned.parent.state, spawned.children.len()), (JobState::Waiting, 2));
    assert_eq!(t.checkpoints(claimed.job.id).await, [("children:".to_owned(), "1".to_owned())]);
}
