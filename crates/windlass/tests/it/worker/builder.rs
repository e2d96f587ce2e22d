//! Submissions: builder options reach the store, invalid values are reported when the builder is awaited, and batches
//! are all or nothing.

use std::time::Duration;

use windlass::client::{ActionResult, JobBuilder, Submit, UnknownNode};
use windlass::error::{ActionError, SubmitError};
use windlass::handler::State;
use windlass::job::{JobState, Priority, RetryPolicy, Tenant};
use windlass::testing::TestClient;
use windlass::worker::Worker;

use super::harness::{EventSender, events, step_by_step_on_every_engine};
use super::job_types::{Add, Greet, Mail, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    everything_a_builder_says_is_kept,
    a_draft_says_the_same_as_a_submission,
    a_kind_has_wishes_and_a_submission_overrides_them,
    a_moment_and_a_delay_hold_a_job_back,
    the_same_key_finds_the_first_job,
    a_unique_key_names_its_holder,
    what_is_not_allowed_is_reported_when_awaited,
    a_job_waits_for_handles_and_ids,
    one_of_several_is_enough_for_after_any,
    many_of_a_kind_are_submitted_in_order_or_not_at_all,
    a_graph_of_any_kinds_is_one_submission,
    a_node_of_another_batch_is_refused,
    anything_that_stands_for_a_job_can_be_waited_for,
    a_batch_with_one_bad_job_stores_nothing,
    a_chain_runs_link_by_link,
    a_broken_chain_ends_with_its_broken_link,
    priorities_have_numbers_and_names,
    urgent_jobs_run_first,
);

fn full(submit: Submit<Greet>) -> Submit<Greet> {
    submit
        .queue("mail")
        .priority(77)
        .delay(secs(60))
        .key("k")
        .key_window(secs(600))
        .unique("u")
        .concurrency_key("c")
        .tag("colour", "red")
        .tag("size", "xl")
        .correlation_id("order-7")
        .callback_url("https://example.com/done")
        .retry(RetryPolicy::backoff())
        .timeout(secs(5))
        .lease(secs(40))
        .lifetime(secs(3600))
        .tenant(Tenant::new("acme").unwrap())
        .traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
}

/// Model: type-and-queue-names, payload, idempotency-key, unique-key, writable-fields, priority-values, setting-levels, tenant-isolation
async fn everything_a_builder_says_is_kept(t: &TestClient) {
    let handle = full(t.client().submit(greet("world"))).await.unwrap();
    let found = t.job(handle.id()).await;
    let (job, spec) = (&found.job, &found.spec);
    assert_eq!(&*spec.payload.bytes, br#"{"name":"world"}"#);
    assert_eq!((job.lane.job_type.as_str(), job.lane.queue.as_str()), ("greet", "mail"));
    assert_eq!(job.lane.tenant.as_str(), "acme");
    assert_eq!((job.priority.value(), job.state), (77, JobState::Delayed));
    assert_eq!(job.run_at, t.now().plus(secs(60)));
    assert_eq!(spec.idempotency_key.as_deref(), Some("k"));
    assert_eq!(spec.unique_key.as_deref(), Some("u"));
    assert_eq!(spec.concurrency_key.as_deref(), Some("c"));
    assert_eq!(spec.metadata.tags.len(), 2);
    assert_eq!(spec.metadata.tags["colour"], "red");
    assert_eq!(spec.metadata.correlation_id.as_deref(), Some("order-7"));
    assert_eq!(spec.metadata.callback_url.as_deref(), Some("https://example.com/done"));
    assert!(spec.traceparent.as_deref().unwrap().starts_with("00-4bf9"));
    assert_eq!(job.policy.retry, RetryPolicy::backoff());
    let limits = job.policy.timeouts;
    assert_eq!((limits.execution, limits.lease, limits.lifetime), (secs(5), secs(40), secs(3600)));
    // The key's window is its own: after it the same key is a new job.
    assert!(full(t.client().submit(greet("world"))).await.unwrap().is_duplicate());
    handle.cancel().await.unwrap();
    t.advance(secs(601)).await;
    assert!(!full(t.client().submit(greet("world"))).await.unwrap().is_duplicate());
}

/// Model: batches
async fn a_draft_says_the_same_as_a_submission(t: &TestClient) {
    let draft = JobBuilder::new(&greet("x")).queue("mail").priority(3).hold();
    let handle = t.client().submit(draft).await.unwrap();
    let job = t.job(handle.id()).await.job;
    assert_eq!((job.lane.queue.as_str(), job.priority.value()), ("mail", 3));
    assert_eq!(job.state, JobState::Created);
}

/// Model: setting-levels
async fn a_kind_has_wishes_and_a_submission_overrides_them(t: &TestClient) {
    let own = t.client().submit(Mail).await.unwrap();
    let job = t.job(own.id()).await.job;
    assert_eq!((job.lane.queue.as_str(), job.priority), ("post", Priority::HIGH));
    assert_eq!(job.policy.retry, RetryPolicy::fixed());
    assert_eq!(job.policy.timeouts.execution, secs(60));
    let other = t.client().submit(Mail).queue("bulk").priority(1).timeout(secs(9));
    let other = other.retry(RetryPolicy::backoff()).await.unwrap();
    let job = t.job(other.id()).await.job;
    assert_eq!((job.lane.queue.as_str(), job.priority.value()), ("bulk", 1));
    assert_eq!(job.policy.retry, RetryPolicy::backoff());
    assert_eq!(job.policy.timeouts.execution, secs(9));
}

async fn quick(job: Greet, State(sender): State<EventSender>) -> anyhow::Result<String> {
    sender.say(&*job.name);
    Ok(job.name)
}

async fn add(job: Add) -> anyhow::Result<u64> {
    Ok(job.numbers.iter().sum())
}

fn quickly(t: &TestClient, sender: &EventSender) -> Worker {
    Worker::new(t.client()).with(sender.clone()).handle(quick).handle(add)
}

/// Model: claim-order
async fn a_moment_and_a_delay_hold_a_job_back(t: &TestClient) {
    let (sender, mut received) = events();
    t.client().submit(greet("delay")).delay(secs(10)).await.unwrap();
    t.client().submit(greet("at")).run_at(t.now().plus(secs(20))).await.unwrap();
    t.client().submit(greet("past")).run_at(t.now().minus(secs(20))).await.unwrap();
    assert_eq!(t.run_due(quickly(t, &sender)).await, 1);
    t.advance(secs(10)).await;
    assert_eq!(t.run_due(quickly(t, &sender)).await, 1);
    t.advance(Duration::from_millis(9_999)).await;
    assert_eq!(t.run_due(quickly(t, &sender)).await, 0);
    t.advance(Duration::from_millis(1)).await;
    assert_eq!(t.run_due(quickly(t, &sender)).await, 1);
    assert_eq!(received.all(), ["past", "delay", "at"]);
}

/// Model: idempotency-key
async fn the_same_key_finds_the_first_job(t: &TestClient) {
    let first = t.client().submit(greet("a")).key("k").await.unwrap();
    assert!(!first.is_duplicate() && !first.payload_differs());
    let again = t.client().submit(greet("a")).key("k").await.unwrap();
    assert!(again.is_duplicate() && !again.payload_differs());
    assert_eq!(again.id(), first.id());
    let other = t.client().submit(greet("b")).key("k").await.unwrap();
    assert!(other.is_duplicate() && other.payload_differs());
    let refused = t.client().submit(greet("b")).key("k").strict().await.err().unwrap();
    assert!(matches!(refused, SubmitError::PayloadDiffers { existing, .. } if existing == first.id()));
    assert!(t.client().submit(greet("a")).key("k").strict().await.unwrap().is_duplicate());
}

/// Model: unique-key
async fn a_unique_key_names_its_holder(t: &TestClient) {
    let holder = t.client().submit(greet("a")).unique("u").await.unwrap();
    let refused = t.client().submit(greet("b")).unique("u").await.err().unwrap();
    assert!(matches!(refused, SubmitError::UniqueKeyTaken { holder: id, .. } if id == holder.id()));
    holder.cancel().await.unwrap();
    t.client().submit(greet("b")).unique("u").await.unwrap();
}

/// Model: type-and-queue-names, writable-fields, priority-values
async fn what_is_not_allowed_is_reported_when_awaited(t: &TestClient) {
    let submit = || t.client().submit(greet("a"));
    let cases: Vec<(Submit<Greet>, &str)> = vec![
        (submit().priority(101), "priority"),
        (submit().priority(-1).queue("!"), "priority"),
        (submit().queue("7up"), "queue"),
        (submit().key(&"k".repeat(257)), "idempotency_key"),
        (submit().tag(&"t".repeat(65), "v"), "tags"),
        (submit().delay(secs(1)).run_at(t.now()), "run_at"),
        (submit().retry(RetryPolicy { max_attempts: 101, ..RetryPolicy::standard() }), "retry"),
    ];
    for (submit, field) in cases {
        let refused = submit.await.err().unwrap();
        let SubmitError::Invalid { index: 0, invalid } = refused else { panic!("{field}: {refused}") };
        assert!(invalid.to_string().contains(field), "{field}: {invalid}");
    }
    assert!(t.client().api().stats(t.client().caller()).await.unwrap().states.values().all(|n| *n == 0));
}

/// Model: dependencies, failed-dependencies
async fn a_job_waits_for_handles_and_ids(t: &TestClient) {
    let (sender, mut received) = events();
    let first = t.client().submit(greet("first")).delay(secs(5)).await.unwrap();
    let second = t.client().submit(Add { numbers: vec![1] }).delay(secs(5)).await.unwrap();
    let last = t.client().submit(greet("last")).after(&first).after(&second.id()).await.unwrap();
    t.run_due(quickly(t, &sender)).await;
    t.assert_state(last.id(), JobState::Pending).await;
    t.advance(secs(5)).await;
    t.run_due(quickly(t, &sender)).await;
    assert_eq!(received.all(), ["first", "last"]);
    t.assert_state(last.id(), JobState::Completed).await;
}

/// Model: dependencies
async fn one_of_several_is_enough_for_after_any(t: &TestClient) {
    let one = t.client().submit(greet("one")).hold().await.unwrap();
    let other = t.client().submit(greet("other")).hold().await.unwrap();
    let any = t.client().submit(greet("any")).after_any(&one).after_any(&other).await.unwrap();
    t.assert_state(any.id(), JobState::Pending).await;
    other.cancel().await.unwrap();
    t.assert_state(any.id(), JobState::Scheduled).await;
}

/// Model: batches
async fn many_of_a_kind_are_submitted_in_order_or_not_at_all(t: &TestClient) {
    let (sender, mut received) = events();
    let drafts = ["a", "b", "c"].map(|name| JobBuilder::new(&greet(name)).priority(60));
    let handles = t.client().submit_all(drafts).await.unwrap();
    let plain = t.client().submit_all([greet("d"), greet("e")]).await.unwrap();
    t.run_due(quickly(t, &sender).queue("default", 1)).await;
    assert_eq!(received.all(), ["a", "b", "c", "d", "e"]);
    assert_eq!(handles[2].result(Duration::ZERO).await.unwrap(), "c");
    assert_eq!(plain[1].result(Duration::ZERO).await.unwrap(), "e");
    let bad = [JobBuilder::new(&greet("f")), JobBuilder::new(&greet("g")).priority(1000)];
    let refused = t.client().submit_all(bad).await.err().unwrap();
    assert!(matches!(refused, SubmitError::Invalid { index: 1, .. }), "{refused}");
    assert_eq!(t.run_due(quickly(t, &sender)).await, 0);
    let none: [Greet; 0] = [];
    assert!(t.client().submit_all(none).await.unwrap().is_empty());
}

/// Model: dependencies, batches
async fn a_graph_of_any_kinds_is_one_submission(t: &TestClient) {
    let (sender, mut received) = events();
    let mut batch = t.client().batch();
    let top = batch.add(greet("top"));
    let left = batch.add(JobBuilder::new(&greet("left")).after(&top).priority(90));
    let right = batch.add(JobBuilder::new(&Add { numbers: vec![1, 2] }).after(&top));
    let bottom = batch.add(JobBuilder::new(&greet("bottom")).after(&left).after(&right));
    let submitted = batch.submit().await.unwrap();
    assert_eq!(submitted.jobs().len(), 4);
    t.run_due(quickly(t, &sender)).await;
    assert_eq!(received.all(), ["top", "left", "bottom"]);
    assert_eq!(submitted.handle(right).unwrap().result(Duration::ZERO).await.unwrap(), 3);
    assert_eq!(submitted.handle(bottom).unwrap().result(Duration::ZERO).await.unwrap(), "bottom");
    assert_eq!(submitted.handle(top).unwrap().id(), submitted.jobs()[0].id());
}

/// Model: dependency-limits, batches
async fn a_node_of_another_batch_is_refused(t: &TestClient) {
    let (mut one, mut other) = (t.client().batch(), t.client().batch());
    let (mine, theirs) = (one.add(greet("mine")), other.add(greet("theirs")));
    let submitted = one.submit().await.unwrap();
    assert_eq!(submitted.handle(theirs).err(), Some(UnknownNode));
    assert_eq!(submitted.handle(mine).unwrap().id(), submitted.jobs()[0].id());
    // Nor does one that waits for another batch's node wait for its own instead.
    other.add(JobBuilder::new(&greet("late")).after(&mine));
    let refused = other.submit().await.err().unwrap();
    assert!(matches!(refused, SubmitError::Invalid { index: 1, .. }), "{refused}");
    assert_eq!(t.submitted::<Greet>().await.len(), 1);
}

/// Model: dependencies
async fn anything_that_stands_for_a_job_can_be_waited_for(t: &TestClient) {
    let (sender, mut received) = events();
    let first = t.client().submit(greet("1")).await.unwrap();
    let second = t.client().submit(greet("2")).priority(60).after(&first).await.unwrap();
    let third = t.client().submit(greet("3")).priority(70).after(&t.client().job(second.id())).await.unwrap();
    t.client().submit(greet("4")).priority(80).after(&third.id()).await.unwrap();
    t.run_due(quickly(t, &sender)).await;
    assert_eq!(received.all(), ["1", "2", "3", "4"]);
    // A program that kept only the id has the typed result, too.
    let kept = t.client().handle::<Greet>(third.id());
    t.assert_state(kept.id(), JobState::Completed).await;
    assert_eq!(kept.result(Duration::ZERO).await.unwrap(), third.result(Duration::ZERO).await.unwrap());
    assert!(format!("{kept:?}").contains(&kept.id().to_string()));
}

/// Model: batches
async fn a_batch_with_one_bad_job_stores_nothing(t: &TestClient) {
    let mut batch = t.client().batch();
    batch.add(greet("fine"));
    batch.add(JobBuilder::new(&greet("bad")).queue(""));
    let refused = batch.submit().await.err().unwrap();
    assert!(matches!(refused, SubmitError::Invalid { index: 1, .. }), "{refused}");
    let mut batch = t.client().batch();
    batch.add(JobBuilder::new(&greet("x")).unique("u"));
    batch.add(JobBuilder::new(&greet("y")).unique("u"));
    assert!(matches!(batch.submit().await, Err(SubmitError::Invalid { index: 1, .. })));
    assert!(t.client().api().stats(t.client().caller()).await.unwrap().states.values().all(|n| *n == 0));
}

/// Model: dependencies
async fn a_chain_runs_link_by_link(t: &TestClient) {
    let (sender, mut received) = events();
    let chain = t.client().chain().then(greet("1")).then(Add { numbers: vec![] }).then(greet("3"));
    let jobs = chain.then(JobBuilder::new(&greet("4")).priority(100)).submit().await.unwrap();
    t.assert_state(jobs[3].id(), JobState::Pending).await;
    t.run_due(quickly(t, &sender)).await;
    assert_eq!(received.all(), ["1", "3", "4"]);
    t.assert_state(jobs[3].id(), JobState::Completed).await;
}

/// Model: failed-dependencies
async fn a_broken_chain_ends_with_its_broken_link(t: &TestClient) {
    let chain = t.client().chain().then(greet("1")).then(greet("2")).then(greet("3"));
    let jobs = chain.submit().await.unwrap();
    jobs[1].cancel().await.unwrap();
    t.assert_state(jobs[0].id(), JobState::Scheduled).await;
    t.assert_state(jobs[2].id(), JobState::Cancelled).await;
}

/// Model: priority-values, changing-priority
async fn priorities_have_numbers_and_names(t: &TestClient) {
    let client = t.client();
    let jobs = [
        client.submit(greet("a")).priority(80).await.unwrap(),
        client.submit(greet("b")).priority(80_i64).await.unwrap(),
        client.submit(greet("c")).priority("high").await.unwrap(),
        client.submit(JobBuilder::new(&greet("d")).priority(Priority::HIGH)).await.unwrap(),
    ];
    for job in &jobs {
        assert_eq!(t.job(job.id()).await.job.priority, Priority::HIGH);
        assert_eq!(job.set_priority("high").await.unwrap(), ActionResult::Unchanged);
        assert_eq!(job.set_priority(81).await.unwrap(), ActionResult::Changed);
        assert!(matches!(job.set_priority("urgent").await, Err(ActionError::Invalid(_))));
    }
    let refused = client.submit(greet("e")).priority("urgent").await.unwrap_err();
    assert!(refused.to_string().contains("priority"), "{refused}");
    // A moment of the system's clock, which is long before this test's.
    let early = client.submit(greet("f")).run_at(std::time::UNIX_EPOCH + secs(1)).await.unwrap();
    t.assert_state(early.id(), JobState::Scheduled).await;
    let late = client.submit(greet("g")).run_at(t.now().plus(secs(5))).await.unwrap();
    t.assert_state(late.id(), JobState::Delayed).await;
}

/// Model: priority-values, claim-order
async fn urgent_jobs_run_first(t: &TestClient) {
    let (sender, mut received) = events();
    for (name, priority) in [("low", 10), ("high", 90), ("middle", 50), ("high too", 90)] {
        t.client().submit(greet(name)).priority(priority).await.unwrap();
    }
    t.run_due(quickly(t, &sender).queue("default", 1)).await;
    assert_eq!(received.all(), ["high", "high too", "middle", "low"]);
}
