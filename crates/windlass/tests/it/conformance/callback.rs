//! Callbacks: every end is reported, by a job of its own, in the commit that brought the end about (M95).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::error::{ActError, SubmitError};
use windlass::job::{Failure, Job, Labels, NewJob, RetryPolicy, State};
use windlass::store::command::redrive::Redrive;
use windlass::store::command::settings::Settings;
use windlass::store::config::{Push, QueueSettings, TenantSettings};
use windlass::store::filter::Filter;
use windlass::store::query::list::ListRequest;

use crate::fixture::{Fixture, new_job, on_every_engine, queue};

on_every_engine!(
    every_end_is_reported_once,
    a_report_says_what_became_of_the_job,
    a_callback_is_not_reported_on,
    a_callback_is_tried_for_days_and_can_be_redriven,
    a_slow_receiver_holds_up_its_own_callbacks_only,
    only_who_asks_for_callbacks_is_given_them,
    callbacks_count_against_no_limit_of_their_tenant,
    names_of_the_system_are_nobody_elses,
);

fn with_callback(url: &str) -> NewJob {
    let tags = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
    let labels = Labels { tags, correlation_id: Some("order-7".into()), callback_url: Some(url.into()) };
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::fixed() };
    NewJob { labels, retry: Some(retry), ..new_job("email.send") }
}

/// The callbacks there are, the oldest first.
async fn callbacks(t: &Fixture) -> Vec<Job> {
    let filter = Filter { queue: Some(queue("windlass.callbacks")), ..Filter::default() };
    let mut found = t.store.list(&t.me, ListRequest { filter, ..ListRequest::default() }).await.unwrap().jobs;
    found.sort_by_key(|snapshot| snapshot.job.seq);
    found.into_iter().map(|snapshot| snapshot.job).collect()
}

/// M95
async fn every_end_is_reported_once(t: &Fixture) {
    let url = "https://example.com/hook";
    let (worker, claimed) = t.running(with_callback(url)).await;
    assert!(callbacks(t).await.is_empty(), "nothing has ended yet");
    t.complete(worker, &claimed).await;
    t.complete(worker, &claimed).await;
    let (worker, claimed) = t.running(with_callback(url)).await;
    t.fail(worker, &claimed, Failure::permanent("no", "no")).await;
    let (worker, claimed) = t.running(with_callback(url)).await;
    t.fail(worker, &claimed, Failure::temporary("later")).await;
    let cancelled = t.submit(with_callback(url)).await.id;
    t.cancel(cancelled).await;
    t.cancel(cancelled).await;
    let lifetime = Some(Duration::from_secs(60));
    t.submit(NewJob { lifetime, delay: Some(Duration::from_secs(3600)), ..with_callback(url) }).await;
    t.advance(Duration::from_secs(61));
    t.tick().await;
    t.submit(new_job("email.send")).await;
    let mut told = Vec::new();
    for callback in callbacks(t).await {
        assert_eq!(callback.state, State::Scheduled);
        told.push(body(t, &callback).await["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(told, ["job.completed", "job.failed", "job.dead_letter", "job.cancelled", "job.dead_letter"]);
    t.verify().await;
}

async fn body(t: &Fixture, callback: &Job) -> Value {
    serde_json::from_slice(&t.get(callback.id).await.spec.payload.bytes).unwrap()
}

/// M95
async fn a_report_says_what_became_of_the_job(t: &Fixture) {
    let (worker, claimed) = t.running(with_callback("https://Example.com:8443/hook?a=b")).await;
    t.advance(Duration::from_secs(5));
    t.fail(worker, &claimed, Failure::permanent("no_such_user", "nobody is there")).await;
    let callback = callbacks(t).await.remove(0);
    let found = t.get(callback.id).await;
    let (created, ended) = (claimed.job.created_at.to_string(), t.now().to_string());
    let error = json!({
        "category": "permanent", "code": "no_such_user", "message": "nobody is there", "attempt": 1
    });
    let data = json!({
        "id": claimed.job.id.to_string(), "tenant": "default", "type": "email.send", "queue": "default",
        "state": "failed", "attempt": 1, "error": error, "cost_cents": 0, "correlation_id": "order-7",
        "tags": {"team": "blue"}, "retry_of": null, "created_at": created, "completed_at": ended,
    });
    assert_eq!(body(t, &callback).await, json!({"type": "job.failed", "timestamp": ended, "data": data}));
    let labels = &found.spec.labels;
    assert_eq!(labels.callback_url.as_deref(), Some("https://Example.com:8443/hook?a=b"));
    assert_eq!(labels.tags.get("job"), Some(&claimed.job.id.to_string()), "so that it is found");
    assert_eq!(labels.correlation_id.as_deref(), Some("order-7"));
    assert_eq!(found.spec.concurrency_key.as_deref(), Some("example.com:8443"));
    assert_eq!(found.spec.owner, t.get(claimed.job.id).await.spec.owner, "its owner may manage it");
    assert_eq!(callback.lane.job_type.as_str(), "windlass.callback");
}

/// M95
async fn a_callback_is_not_reported_on(t: &Fixture) {
    let (worker, claimed) = t.running(with_callback("https://example.com/")).await;
    t.complete(worker, &claimed).await;
    let carrier = t.worker_for(&["windlass.callbacks"], &[]).await;
    let claimed = t.claim_one(carrier).await;
    t.complete(carrier, &claimed).await;
    let all = callbacks(t).await;
    assert_eq!((all.len(), all[0].state), (1, State::Completed));
}

/// M95
async fn a_callback_is_tried_for_days_and_can_be_redriven(t: &Fixture) {
    let (worker, claimed) = t.running(with_callback("https://example.com/")).await;
    t.complete(worker, &claimed).await;
    let (began, id) = (t.now(), callbacks(t).await[0].id);
    let mut attempts = 0;
    while !t.state(id).await.is_final() {
        let carrier = t.worker_for(&["windlass.callbacks"], &[]).await;
        let claimed = t.claim_one(carrier).await;
        t.fail(carrier, &claimed, Failure::temporary("not there")).await;
        attempts += 1;
        let next = t.get(id).await.job.retry_at;
        t.advance(next.map_or(Duration::ZERO, |at| at.since(t.now())));
    }
    let days = t.now().since(began).as_secs_f64() / 86_400.0;
    assert_eq!((t.state(id).await, attempts), (State::DeadLetter, 11));
    assert!((2.0..6.0).contains(&days), "{days}");
    let again = t.store.redrive(&t.me, id, Redrive::default()).await.unwrap();
    assert_eq!(again.state, State::Scheduled);
    assert_eq!(callbacks(t).await.len(), 2);
}

/// M95 M110
async fn a_slow_receiver_holds_up_its_own_callbacks_only(t: &Fixture) {
    for _ in 0..30 {
        let id = t.submit(with_callback("https://slow.example/a")).await.id;
        t.cancel(id).await;
    }
    let id = t.submit(with_callback("https://example.com/")).await.id;
    t.cancel(id).await;
    let carrier = t.worker_for(&["windlass.callbacks"], &[]).await;
    let claimed = t.claim(carrier, 100).await;
    let to = |receiver: &str| {
        claimed.iter().filter(|job| job.spec.concurrency_key.as_deref() == Some(receiver)).count()
    };
    assert_eq!((to("slow.example"), to("example.com")), (8, 1));
    let id = t.submit(with_callback("https://slow.example/b")).await.id;
    t.cancel(id).await;
    assert!(t.claim(carrier, 100).await.is_empty(), "one that is new waits as well");
    t.complete(carrier, &claimed[0]).await;
    assert_eq!(t.claim(carrier, 100).await.len(), 1, "the next takes its place");
}

/// M95
async fn only_who_asks_for_callbacks_is_given_them(t: &Fixture) {
    let id = t.submit(with_callback("https://example.com/")).await.id;
    t.cancel(id).await;
    let anybody = t.worker_for(&[], &[]).await;
    assert!(t.claim(anybody, 10).await.is_empty());
    let carrier = t.worker_for(&["windlass.callbacks"], &[]).await;
    assert_eq!(t.claim(carrier, 10).await.len(), 1);
}

/// M95 M113
async fn callbacks_count_against_no_limit_of_their_tenant(t: &Fixture) {
    let settings = TenantSettings { max_depth: Some(1), budget_cents: Some(0), ..TenantSettings::default() };
    t.set_tenant("default", settings).await;
    for _ in 0..3 {
        let id = t.submit(with_callback("https://example.com/")).await.id;
        t.cancel(id).await;
    }
    let carrier = t.worker_for(&["windlass.callbacks"], &[]).await;
    assert_eq!(t.claim(carrier, 10).await.len(), 3, "no budget is needed to deliver them");
    t.submit(new_job("email.send")).await;
    let refused = t.refused(vec![new_job("email.send")]).await;
    assert!(matches!(refused, SubmitError::TooDeep { depth: 1, .. }), "{refused}");
}

async fn names_of_the_system_are_nobody_elses(t: &Fixture) {
    let own = NewJob { queue: queue("windlass.callbacks"), ..new_job("email.send") };
    for (field, job) in [("type", new_job("windlass.callback")), ("queue", own)] {
        let refused = t.refused(vec![job]).await;
        assert!(
            matches!(&refused, SubmitError::Invalid { invalid, .. } if invalid.field == field),
            "{refused}"
        );
    }
    let push = Some(Push::to("https://example.com/"));
    let settings =
        Settings::Queue(queue("windlass.callbacks"), QueueSettings { push, ..QueueSettings::default() });
    let refused = t.store.configure(&t.me, settings).await.unwrap_err();
    assert!(matches!(&refused, ActError::Invalid(invalid) if invalid.field == "push"), "{refused}");
}
