//! Sleeping, signals and children: a handler that waits holds no slot, and finds its place again after any crash.

use std::time::Duration;

use windlass::client::JobBuilder;
use windlass::context::{ChildError, Children, Cx, First};
use windlass::handler::State;
use windlass::job::{Failure, GroupStrategy, JobId, JobState};
use windlass::store::{Filter, ListRequest};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use super::harness::{EventSender, events, step_by_step_on_every_engine};
use super::job_types::{Add, Greet, greet};
use crate::fixture::secs;

const DAY: Duration = Duration::from_secs(24 * 3600);

step_by_step_on_every_engine!(
    a_sleep_ends_when_its_first_run_said,
    a_wait_ends_when_its_first_run_said,
    a_sleep_that_parked_no_job_begins_again,
    a_sleep_or_a_timeout_longer_than_the_lifetime_is_refused,
    signals_sent_early_are_kept_and_each_is_received_once,
    a_signal_is_received_again_after_a_crash,
    a_signal_of_another_kind_is_an_error,
    fail_fast_ends_with_the_first_bad_child,
    collect_all_waits_for_every_child,
    a_threshold_needs_only_so_many,
    a_group_of_none_is_decided,
    groups_follow_each_other_and_nest,
    children_are_spawned_once_wherever_the_parent_dies,
    children_that_are_not_allowed_fail_their_parent_for_good,
    a_parent_waits_without_a_slot,
    groups_run_side_by_side,
    the_first_of_a_group_a_signal_and_a_sleep_wakes_the_job,
    a_child_is_started_once_and_not_waited_for,
);

/// Two steps. A worker that dies between them has saved the first one, and what was called before it.
async fn two_steps(cx: &Cx) -> anyhow::Result<()> {
    cx.step("first", async { anyhow::Ok(()) }).await?;
    cx.step("second", async { anyhow::Ok(()) }).await
}

fn between_two_steps() -> CrashPoint {
    CrashPoint::BeforeStep("second".into())
}

/// Model: sleeps-and-signals
async fn a_sleep_ends_when_its_first_run_said(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let (slept, worked) = tokio::join!(cx.sleep(secs(100)), two_steps(&cx));
        slept.and(worked)?;
        cx.sleep(secs(100)).await?;
        anyhow::Ok(String::new())
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler).crash_at(between_two_steps())).await;
    t.advance(secs(60)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(Duration::from_millis(39_999)).await;
    assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 0);
    t.advance(Duration::from_millis(1)).await;
    assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 1);
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(secs(100)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Completed).await;
    assert_eq!(t.job(job.id()).await.job.failures, 1);
}

/// The only step works for a millisecond, and its worker dies in the middle of it.
async fn one_long_step(cx: &Cx) -> anyhow::Result<()> {
    let work = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        cx.step("second", async { anyhow::Ok(()) }).await
    };
    cx.step("first", work).await
}

/// The end of a sleep or a wait is saved at once if other work runs beside it, not with the next call.
///
/// Model: sleeps-and-signals
#[tokio::test(start_paused = true)]
async fn a_crash_within_a_long_step_does_not_lose_the_ends_of_what_waits_beside_it() {
    let t = TestClient::new();
    let sleeping = |_: Greet, cx: Cx| async move {
        let (slept, worked) = tokio::join!(cx.sleep(secs(100)), one_long_step(&cx));
        slept.and(worked)?;
        anyhow::Ok(String::new())
    };
    let waiting = |_: Greet, cx: Cx| async move {
        let wait = cx.wait_signal::<String>("word", Some(secs(100)));
        let (word, worked) = tokio::join!(wait, one_long_step(&cx));
        word.and(worked)?;
        anyhow::Ok(String::new())
    };
    for is_sleep in [true, false] {
        let worker = || {
            let worker = Worker::new(t.client());
            if is_sleep { worker.handle(sleeping) } else { worker.handle(waiting) }
        };
        let job = t.client().submit(greet("x")).await.unwrap();
        t.run_due(worker().crash_at(between_two_steps())).await;
        t.advance(secs(60)).await;
        t.run_due(worker()).await;
        t.advance(Duration::from_millis(39_999)).await;
        t.assert_state(job.id(), JobState::Waiting).await;
        t.advance(Duration::from_millis(1)).await;
        t.run_due(worker()).await;
        t.assert_state(job.id(), JobState::Completed).await;
    }
}

/// A sleep and its parking are one commit: a crash before it leaves nothing of the sleep.
///
/// Model: sleeps-and-signals
async fn a_sleep_that_parked_no_job_begins_again(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.sleep(secs(100)).await?;
        anyhow::Ok(String::new())
    };
    for point in [CrashPoint::BeforePark, CrashPoint::BeforeFinish] {
        let job = t.client().submit(greet("x")).await.unwrap();
        t.run_due(Worker::new(t.client()).handle(handler).crash_at(point)).await;
        t.advance(secs(60)).await;
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.advance(Duration::from_millis(99_999)).await;
        t.assert_state(job.id(), JobState::Waiting).await;
        t.advance(Duration::from_millis(1)).await;
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.assert_state(job.id(), JobState::Completed).await;
    }
}

async fn listening(_: Greet, cx: Cx) -> anyhow::Result<String> {
    let mut words = Vec::new();
    while let Some(word) = cx.wait_signal::<String>("word", Some(secs(60))).await? {
        words.push(word);
    }
    Ok(words.join(" "))
}

/// Model: lifetime, sleeps-and-signals. What is left of the lifetime counts, also for a worker behind a server.
async fn a_sleep_or_a_timeout_longer_than_the_lifetime_is_refused(t: &TestClient) {
    let handler = |job: Greet, cx: Cx| async move {
        if let Ok(days) = job.name.parse() {
            cx.sleep(DAY * days).await?;
        } else {
            cx.wait_signal::<bool>("paid", Some(DAY * 30)).await?;
        }
        anyhow::Ok("later".to_owned())
    };
    for name in ["30", "wait"] {
        let job = t.client().submit(greet(name)).await.unwrap();
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.assert_state(job.id(), JobState::Failed).await;
        t.assert_failed(job.id(), "lifetime_too_short").await;
        let error = t.job(job.id()).await.job.details.error.clone().unwrap();
        assert!(error.message.contains("lifetime"), "{}", error.message);
    }
    let old = t.client().submit(greet("3")).await.unwrap();
    let long = t.client().submit(greet("30")).lifetime(DAY * 40).await.unwrap();
    t.advance(DAY * 5).await;
    t.run_for(DAY * 31, || Worker::new(t.client()).handle(handler)).await;
    t.assert_failed(old.id(), "lifetime_too_short").await;
    t.assert_completed(&long, "later").await;
}

/// Model: sleeps-and-signals
async fn a_wait_ends_when_its_first_run_said(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let wait = cx.wait_signal::<String>("word", Some(secs(60)));
        let (word, worked) = tokio::join!(wait, two_steps(&cx));
        worked?;
        anyhow::Ok(format!("{:?}", word?))
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler).crash_at(between_two_steps())).await;
    t.advance(secs(40)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(Duration::from_millis(19_999)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(Duration::from_millis(1)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "None");
}

/// Model: sleeps-and-signals
async fn signals_sent_early_are_kept_and_each_is_received_once(t: &TestClient) {
    let job = t.client().submit(greet("x")).await.unwrap();
    job.signal("word", &"early").await.unwrap();
    job.signal("other", &"unused").await.unwrap();
    job.signal("word", &"bird").await.unwrap();
    t.run_due(Worker::new(t.client()).handle(listening)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(secs(59)).await;
    job.signal("word", &"late").await.unwrap();
    t.run_due(Worker::new(t.client()).handle(listening)).await;
    t.advance(secs(60)).await;
    t.run_due(Worker::new(t.client()).handle(listening)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "early bird late");
}

/// Model: sleeps-and-signals
async fn a_signal_is_received_again_after_a_crash(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let word = cx.wait_signal::<String>("word", None).await?;
        cx.step("use", async { anyhow::Ok(()) }).await?;
        anyhow::Ok(word.unwrap_or_default())
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    job.signal("word", &"first").await.unwrap();
    let dying = Worker::new(t.client()).handle(handler);
    t.run_due(dying.crash_at(CrashPoint::BeforeStep("use".into()))).await;
    job.signal("word", &"second").await.unwrap();
    t.advance(secs(40)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "first");
}

/// Model: error-categories, sleeps-and-signals
async fn a_signal_of_another_kind_is_an_error(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let number = cx.wait_signal::<u64>("number", None).await?;
        anyhow::Ok(format!("{number:?}"))
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    job.signal("number", &"seven").await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    t.assert_failed(job.id(), "signal_unreadable").await;
}

/// A child that does what its name says.
async fn child(job: Greet, cx: Cx) -> anyhow::Result<String> {
    match &*job.name {
        "bad" => Err(Failure::permanent("bad", "as its name says").into()),
        "slow" => {
            cx.sleep(secs(600)).await?;
            Ok("slow".into())
        }
        _ => Ok(job.name),
    }
}

/// A parent's strategy, and what it learned of its children.
async fn collect(_: Add, cx: Cx, State(how): State<How>) -> anyhow::Result<u64> {
    let drafts = how.names.iter().map(|name| JobBuilder::new(&greet(name)).priority(70));
    let children = cx.spawn_all(drafts, how.strategy).await?;
    how.sender.say(describe(&children));
    Ok(children.results.iter().flatten().count() as u64)
}

#[derive(Clone)]
struct How {
    strategy: GroupStrategy,
    names: Vec<&'static str>,
    sender: EventSender,
}

fn describe(children: &Children<String>) -> String {
    let results = children.results.iter().map(|child| match child {
        Ok(result) => result.clone(),
        Err(ChildError::NotCompleted { state, .. }) => state.to_string(),
        Err(error) => error.to_string(),
    });
    format!("{}: {}", children.is_well, results.collect::<Vec<_>>().join(", "))
}

/// Runs a parent with such children as far as it goes, and again ten minutes later; says what it learned, and when.
async fn run_group(
    t: &TestClient,
    strategy: GroupStrategy,
    names: &[&'static str],
) -> (Vec<String>, Vec<String>) {
    let (sender, mut received) = events();
    let how = How { strategy, names: names.to_vec(), sender };
    let worker = || Worker::new(t.client()).with(how.clone()).handle(collect).handle(child);
    t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(worker()).await;
    let at_once = received.all();
    t.advance(secs(600)).await;
    t.run_due(worker()).await;
    (at_once, received.all())
}

/// Model: child-groups
async fn fail_fast_ends_with_the_first_bad_child(t: &TestClient) {
    let (now, later) = run_group(t, GroupStrategy::FailFast, &["slow", "bad", "fine"]).await;
    assert_eq!((now.len(), later.len()), (1, 0));
    assert!(now[0].starts_with("false: cancelled, failed, "), "{now:?}");
    let (now, later) = run_group(t, GroupStrategy::FailFast, &["slow", "fine"]).await;
    assert_eq!((now.len(), later), (0, vec!["true: slow, fine".to_owned()]));
}

/// Model: child-groups
async fn collect_all_waits_for_every_child(t: &TestClient) {
    let (now, later) = run_group(t, GroupStrategy::CollectAll, &["slow", "bad", "fine"]).await;
    assert_eq!(now.len(), 0);
    assert_eq!(later.len(), 1);
    assert!(later[0].ends_with(": slow, failed, fine"), "{later:?}");
}

/// Model: child-groups
async fn a_threshold_needs_only_so_many(t: &TestClient) {
    let (now, later) = run_group(t, GroupStrategy::Threshold(2), &["slow", "a", "bad", "b"]).await;
    assert_eq!((now.len(), later.len()), (1, 0));
    assert!(now[0].starts_with("true: ") && now[0].ends_with(", a, failed, b"), "{now:?}");
    let (now, later) = run_group(t, GroupStrategy::Threshold(2), &["slow", "bad"]).await;
    assert_eq!((now.len(), later.len()), (1, 0), "two can no longer complete");
    assert!(now[0].starts_with("false: "), "{now:?}");
}

/// Model: child-groups
async fn a_group_of_none_is_decided(t: &TestClient) {
    let (now, _) = run_group(t, GroupStrategy::CollectAll, &[]).await;
    assert_eq!(now, ["true: "]);
}

/// Sums up by halves, twice, with children of children.
async fn sum_twice(job: Add, cx: Cx) -> anyhow::Result<u64> {
    if job.numbers.len() <= 1 {
        return Ok(job.numbers.iter().sum());
    }
    let mut sums = Vec::new();
    for _ in 0..2 {
        let halves = job.numbers.split_at(job.numbers.len() / 2);
        let halves = [halves.0, halves.1].map(|half| Add { numbers: half.to_vec() });
        sums.push(cx.spawn_all(halves, GroupStrategy::FailFast).await?.all()?.into_iter().sum::<u64>());
    }
    anyhow::ensure!(sums[0] == sums[1], "{sums:?}");
    Ok(sums[0])
}

/// Model: child-groups
async fn groups_follow_each_other_and_nest(t: &TestClient) {
    let job = t.client().submit(Add { numbers: (1..=8).collect() }).await.unwrap();
    t.run_due(Worker::new(t.client()).queue("default", 3).handle(sum_twice)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), 36);
}

async fn children_of(t: &TestClient, parent: JobId) -> usize {
    let filter = Filter { parent: Some(parent), ..Filter::default() };
    let request = ListRequest { filter, limit: 500, ..ListRequest::default() };
    t.client().api().list(t.client().caller(), request).await.unwrap().jobs.len()
}

async fn before_and_after(_: Add, cx: Cx) -> anyhow::Result<u64> {
    let count = cx.step("before", async { anyhow::Ok(3) }).await?;
    let names = (0..count).map(|number| greet(&number.to_string()));
    let results = cx.spawn_all(names, GroupStrategy::FailFast).await?.all()?;
    cx.step("after", async { anyhow::Ok(results.len() as u64) }).await
}

/// Model: child-groups
async fn children_are_spawned_once_wherever_the_parent_dies(t: &TestClient) {
    let points = [
        CrashPoint::BeforeStep("before".into()),
        CrashPoint::AfterStep("before".into()),
        CrashPoint::BeforeStep("after".into()),
        CrashPoint::AfterStep("after".into()),
        CrashPoint::BeforeFinish,
    ];
    for point in points {
        let worker = || Worker::new(t.client()).handle(before_and_after).handle(child);
        let job = t.client().submit(Add { numbers: vec![] }).await.unwrap();
        // Each round something may die once more; the lease ends, and another worker continues.
        t.run_due(worker().crash_at(point.clone())).await;
        t.advance(secs(40)).await;
        t.run_due(worker()).await;
        assert_eq!(job.result(Duration::ZERO).await.unwrap(), 3, "{point:?}");
        assert_eq!(children_of(t, job.id()).await, 3, "{point:?}");
    }
}

/// Model: dependency-limits, child-groups
async fn children_that_are_not_allowed_fail_their_parent_for_good(t: &TestClient) {
    let bad_child = |_: Greet, cx: Cx| async move {
        cx.spawn_all([JobBuilder::new(&greet("x")).priority(1000)], GroupStrategy::FailFast).await?;
        anyhow::Ok(String::new())
    };
    let bad_strategy = |_: Add, cx: Cx| async move {
        cx.spawn_all([greet("x")], GroupStrategy::Threshold(2)).await?;
        anyhow::Ok(0)
    };
    let first = t.client().submit(greet("x")).await.unwrap();
    let second = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(bad_child).handle(bad_strategy)).await;
    for id in [first.id(), second.id()] {
        t.assert_state(id, JobState::Failed).await;
        assert_eq!(children_of(t, id).await, 0);
    }
}

/// Model: child-groups
async fn a_parent_waits_without_a_slot(t: &TestClient) {
    let (sender, mut received) = events();
    let how = How { strategy: GroupStrategy::CollectAll, names: vec!["a", "b"], sender };
    t.client().submit(Add { numbers: vec![] }).await.unwrap();
    let alone = Worker::new(t.client()).queue("default", 1).with(how).handle(collect).handle(child);
    assert_eq!(t.run_due(alone).await, 4);
    assert_eq!(received.all(), ["true: a, b"]);
}

/// Model: child-groups
async fn groups_run_side_by_side(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let (left, right) = tokio::join!(
            cx.spawn_all([Add { numbers: vec![1, 2] }], GroupStrategy::CollectAll),
            cx.spawn_all([Add { numbers: vec![3, 4] }], GroupStrategy::CollectAll),
        );
        anyhow::Ok(format!("{:?} {:?}", left?.all()?, right?.all()?))
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    // Both groups exist before the first is decided.
    let filter = Filter { parent: Some(job.id()), ..Filter::default() };
    let request = ListRequest { filter, ..ListRequest::default() };
    let page = t.store().list(t.client().caller(), request).await.unwrap();
    assert_eq!(page.jobs.len(), 2);
    let add = |add: Add| async move { anyhow::Ok(add.numbers.iter().sum::<u64>()) };
    let worker = || Worker::new(t.client()).handle(handler).handle(add);
    while t.run_due(worker()).await > 0 {}
    t.assert_state(job.id(), JobState::Completed).await;
    t.assert_completed(&job, "[3] [7]".to_owned()).await;
}

/// Model: child-groups, sleeps-and-signals
async fn the_first_of_a_group_a_signal_and_a_sleep_wakes_the_job(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let children = cx.spawn_all([Add { numbers: vec![1, 2] }], GroupStrategy::CollectAll);
        let waits = cx.race(cx.wait_signal::<String>("stop", None), cx.sleep(secs(60)));
        let first = match cx.race(children, waits).await {
            First::Left(_) => "children",
            First::Right(First::Left(_)) => "signal",
            First::Right(First::Right(_)) => "sleep",
        };
        cx.step("after", async { anyhow::Ok(first.to_owned()) }).await
    };
    for expected in ["children", "signal", "sleep"] {
        let job = t.client().submit(greet("x")).await.unwrap();
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.assert_state(job.id(), JobState::Waiting).await;
        match expected {
            "children" => {
                let add = |add: Add| async move { anyhow::Ok(add.numbers.iter().sum::<u64>()) };
                t.run_due(Worker::new(t.client()).handle(add)).await;
            }
            "signal" => job.signal("stop", &"now").await.unwrap(),
            _ => t.advance(secs(60)).await,
        }
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.assert_completed(&job, expected.to_owned()).await;
    }
}

/// Model: child-groups
async fn a_child_is_started_once_and_not_waited_for(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let first = cx.start(Add { numbers: vec![1, 2] }).await?;
        let second = cx.start(Add { numbers: vec![3, 4] }).await?;
        anyhow::ensure!(cx.failures() > 1, "once more");
        anyhow::Ok(format!("{first} {second}"))
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler).crash_at(CrashPoint::AfterStep("start add".into())))
        .await;
    while !t.job(job.id()).await.job.state.is_final() {
        t.advance(secs(600)).await;
        t.run_due(Worker::new(t.client()).handle(handler)).await;
    }
    let groups = t.store().groups(t.client().caller(), job.id()).await.unwrap().unwrap();
    let ids: Vec<String> =
        groups.iter().flat_map(|group| &group.children).map(|(child, _)| child.id.to_string()).collect();
    t.assert_completed(&job, ids.join(" ")).await;
    assert_eq!(ids.len(), 2);
}
