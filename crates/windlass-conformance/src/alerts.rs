//! Alerts: decided from stored numbers, one message per change in the commit that stores it, and hidden from other tenants.

use std::time::Duration;

use windlass::alert::message::AlertMessage;
use windlass::alert::{self, AlertCondition, AlertNotice, AlertRule, AlertStatus, AlertValue};
use windlass::audit::AuditEvent;
use windlass::callback;
use windlass::error::{ActionError, AlertError, SubmitError};
use windlass::job::{AlertName, Failure, JobState, NewJob, Payload, RetryPolicy};
use windlass::limits;
use windlass::store::caller::Role;
use windlass::store::engine::RecordQuery;
use windlass::store::{Alert, AlertRef, Filter, ListRequest, PauseOptions, PutAlert, Redrive, Snapshot};

use crate::fixture::{Fixture, caller, job_type, new_job, queue, secs, tenant};
use crate::schedule::every;

tests!(
    alerts, alerts:
    dead_letters_fire_once_and_resolve_once,
    a_change_its_record_and_its_message_are_one_commit,
    the_oldest_ready_job_fires,
    the_failure_rate_of_a_type_fires,
    a_missed_schedule_fires,
    an_alert_watches_its_queue_type_and_tenant,
    deliveries_of_alerts_are_not_watched,
    a_paused_alert_is_not_decided,
    a_test_sends_a_sample_and_changes_nothing,
    a_replaced_alert_keeps_its_state,
    alerts_of_others_do_not_exist,
    who_may_not_read_settings_sees_the_host_only,
    the_number_of_alerts_is_bounded,
    what_an_alert_may_not_be_is_refused_by_field,
    messages_of_alerts_cannot_be_submitted_by_hand,
    two_rounds_at_once_send_one_message,
);

const URL: &str = "https://hooks.example.com/services/SECRET?a=b";

fn named(name: &str) -> AlertName {
    AlertName::new(name).unwrap()
}

fn at(of: &str, name: &str) -> AlertRef {
    AlertRef { tenant: Some(tenant(of)), name: named(name) }
}

fn dead(more_than: u64) -> AlertRule {
    AlertRule::new(AlertCondition::DeadLetters { more_than, within: secs(600) }, URL)
}

async fn put(t: &Fixture, name: &str, rule: AlertRule) -> PutAlert {
    t.store.put_alert(&t.me, named(name), rule).await.expect("the alert is allowed")
}

async fn get(t: &Fixture, name: &str) -> Alert {
    t.store.alert(&t.me, named(name)).await.unwrap().expect("the alert is there")
}

/// Lets numbers settle, and decides.
async fn check(t: &Fixture) -> usize {
    // Statistics are written once a second.
    t.advance(secs(1));
    t.tick().await;
    t.store.check_alerts().await.unwrap().messages
}

/// A job without retries, of a tenant.
fn once(of: &str) -> NewJob {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    NewJob { retry, tenant: Some(tenant(of)), ..new_job("email.send") }
}

/// Makes a dead letter.
async fn die(t: &Fixture, job: NewJob) {
    let worker = t.worker().await;
    t.submit(job).await;
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::temporary("503")).await;
    assert_eq!(t.state(claimed.job.id).await, JobState::DeadLetter);
}

/// The deliveries there are, oldest first.
async fn deliveries(t: &Fixture) -> Vec<Snapshot> {
    let filter = Filter { job_type: Some(job_type(alert::TYPE)), ..Filter::default() };
    let mut found = t.store.list(&t.me, ListRequest { filter, ..ListRequest::default() }).await.unwrap().jobs;
    found.reverse();
    found
}

async fn messages(t: &Fixture) -> Vec<AlertMessage> {
    let found = deliveries(t).await;
    found.iter().map(|job| serde_json::from_slice(&job.spec.payload.bytes).unwrap()).collect()
}

async fn notices(t: &Fixture) -> Vec<AlertNotice> {
    messages(t).await.into_iter().map(|message| message.notice).collect()
}

/// Model: alerts
async fn dead_letters_fire_once_and_resolve_once(t: &Fixture) {
    put(t, "dead", dead(1)).await;
    die(t, once("default")).await;
    assert_eq!(check(t).await, 0, "one is allowed");
    die(t, once("default")).await;
    assert_eq!(check(t).await, 1);
    let fired = get(t, "dead").await;
    assert_eq!((fired.state.status, fired.state.since), (AlertStatus::Firing, t.now()));
    assert_eq!(fired.state.value, Some(AlertValue::Count(2)));
    die(t, once("default")).await;
    assert_eq!(check(t).await + check(t).await, 0, "it fires already");
    // They leave the ten minutes, and it keeps firing for five more.
    for _ in 0..12 {
        t.advance(secs(60));
        check(t).await;
    }
    assert_eq!(notices(t).await, [AlertNotice::Firing]);
    for _ in 0..6 {
        t.advance(secs(60));
        check(t).await;
    }
    assert_eq!(notices(t).await, [AlertNotice::Firing, AlertNotice::Resolved]);
    assert_eq!(get(t, "dead").await.state.status, AlertStatus::Ok);
}

/// Model: alerts, atomic-changes
async fn a_change_its_record_and_its_message_are_one_commit(t: &Fixture) {
    put(t, "dead", AlertRule { queue: Some(queue("default")), ..dead(0) }).await;
    die(t, once("default")).await;
    check(t).await;
    let delivery = deliveries(t).await.remove(0);
    let fired = get(t, "dead").await;
    assert_eq!(fired.last_delivery, Some(delivery.job.id));
    let query = RecordQuery { event: Some(AuditEvent::AlertFired), ..RecordQuery::default() };
    let record = t.records(query).await.remove(0);
    assert_eq!((record.at, record.queue), (delivery.job.created_at, Some(queue("default"))));
    assert!(record.context.contains(&delivery.job.id.to_string()), "{}", record.context);
    assert!(record.context.contains("https://hooks.example.com\"") && !record.context.contains("SECRET"));
    // A durable job among callbacks, before them, and tried for a day.
    assert_eq!(delivery.job.lane.queue.as_str(), callback::QUEUE);
    assert_eq!(delivery.spec.metadata.tags.get(alert::TAG).map(String::as_str), Some("dead"));
    assert!(!format!("{delivery:?}").contains("SECRET"), "no job contains the URL");
    let worker = t.worker_for(&[callback::QUEUE], &[]).await;
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::retry_after(secs(5), "503")).await;
    assert_eq!(t.state(delivery.job.id).await, JobState::Retrying);
    t.advance(limits::ALERT_DELIVERY_LIFETIME);
    t.tick().await;
    assert_eq!(t.state(delivery.job.id).await, JobState::DeadLetter);
}

/// Model: alerts
async fn the_oldest_ready_job_fires(t: &Fixture) {
    let rule = AlertRule::new(AlertCondition::OldestReady { longer_than: secs(300) }, URL);
    put(t, "late", AlertRule { keep_firing_for: Duration::ZERO, ..rule }).await;
    t.submit(new_job("email.send")).await;
    t.advance(secs(299));
    assert_eq!(check(t).await, 0);
    assert_eq!(check(t).await, 1);
    assert_eq!(get(t, "late").await.state.value, Some(AlertValue::Time(secs(301))));
    let worker = t.worker().await;
    t.claim_one(worker).await;
    assert_eq!(check(t).await, 1);
    assert_eq!(notices(t).await, [AlertNotice::Firing, AlertNotice::Resolved]);
}

/// Model: alerts
async fn the_failure_rate_of_a_type_fires(t: &Fixture) {
    let condition = AlertCondition::FailureRate { more_than: 49, within: secs(300), min_attempts: 4 };
    let rule = AlertRule { job_type: Some(job_type("email.send")), ..AlertRule::new(condition, URL) };
    put(t, "failing", rule).await;
    for is_good in [true, false, false] {
        let (worker, claimed) = t.running(new_job("email.send")).await;
        if is_good {
            t.complete(worker, &claimed).await;
        } else {
            t.fail(worker, &claimed, Failure::permanent("x", "no")).await;
        }
        let (worker, other) = t.running(new_job("other")).await;
        t.complete(worker, &other).await;
    }
    assert_eq!(check(t).await, 0, "too few attempts");
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.complete(worker, &claimed).await;
    assert_eq!(check(t).await, 1);
    assert_eq!(get(t, "failing").await.state.value, Some(AlertValue::PerMille(500)));
}

/// Model: alerts, schedule-runs
async fn a_missed_schedule_fires(t: &Fixture) {
    put(t, "missed", AlertRule::new(AlertCondition::ScheduleMissed { within: secs(600) }, URL)).await;
    crate::schedule::put(t, "often", every(60)).await;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(check(t).await, 0, "it was on time");
    t.advance(secs(600));
    t.tick().await;
    assert_eq!(check(t).await, 1);
    assert_eq!(get(t, "missed").await.state.value, Some(AlertValue::Count(1)));
}

/// Model: alerts, tenant-isolation
async fn an_alert_watches_its_queue_type_and_tenant(t: &Fixture) {
    let put_at = async |which: AlertRef, rule: AlertRule| {
        t.store.put_alert(&t.me, which, rule).await.unwrap();
    };
    put_at(at("blue", "dead"), dead(0)).await;
    put_at(at("green", "dead"), dead(0)).await;
    put_at(named("all").into(), dead(0)).await;
    put_at(named("queue").into(), AlertRule { queue: Some(queue("other")), ..dead(0) }).await;
    put_at(named("type").into(), AlertRule { job_type: Some(job_type("other")), ..dead(0) }).await;
    die(t, once("blue")).await;
    assert_eq!(check(t).await, 2);
    let mut sent: Vec<(Option<String>, String)> = messages(t)
        .await
        .into_iter()
        .map(|message| (message.tenant.map(|tenant| tenant.to_string()), message.alert.to_string()))
        .collect();
    sent.sort();
    assert_eq!(sent, [(None, "all".to_owned()), (Some("blue".to_owned()), "dead".to_owned())]);
    let found = deliveries(t).await;
    let tenants: Vec<&str> = found.iter().map(|job| job.job.lane.tenant.as_str()).collect();
    assert!(tenants.contains(&"blue") && tenants.contains(&"default"), "{tenants:?}");
    die(t, NewJob { queue: queue("other"), ..once("blue") }).await;
    die(t, NewJob { job_type: job_type("other"), ..once("blue") }).await;
    assert_eq!(check(t).await, 2);
}

/// Model: alerts. A receiver that fails does not cause messages about itself.
async fn deliveries_of_alerts_are_not_watched(t: &Fixture) {
    put(t, "dead", dead(0)).await;
    t.store.test_alert(&t.me, named("dead")).await.unwrap();
    t.advance(limits::ALERT_DELIVERY_LIFETIME);
    t.tick().await;
    assert_eq!(deliveries(t).await[0].job.state, JobState::DeadLetter);
    assert_eq!(check(t).await, 0);
}

/// Model: alerts
async fn a_paused_alert_is_not_decided(t: &Fixture) {
    put(t, "dead", dead(0)).await;
    let how = PauseOptions { reason: Some("release".into()), expires: Some(secs(120)) };
    assert!(t.store.pause_alert(&t.me, named("dead"), how.clone()).await.unwrap());
    assert!(!t.store.pause_alert(&t.me, named("dead"), how).await.unwrap(), "it is paused");
    die(t, once("default")).await;
    assert_eq!(check(t).await, 0);
    assert!(t.store.resume_alert(&t.me, named("dead")).await.unwrap());
    assert!(!t.store.resume_alert(&t.me, named("dead")).await.unwrap());
    assert_eq!(check(t).await, 1);
    // A pause ends by itself.
    put(t, "later", dead(0)).await;
    let how = PauseOptions { reason: None, expires: Some(secs(60)) };
    t.store.pause_alert(&t.me, named("later"), how).await.unwrap();
    assert_eq!(check(t).await, 0);
    t.advance(secs(60));
    assert_eq!(check(t).await, 1);
    let events: Vec<AuditEvent> =
        t.records(RecordQuery::default()).await.iter().map(|record| record.event).collect();
    for event in [AuditEvent::AlertCreated, AuditEvent::AlertPaused, AuditEvent::AlertResumed] {
        assert!(events.contains(&event), "{event}");
    }
}

/// Model: alerts
async fn a_test_sends_a_sample_and_changes_nothing(t: &Fixture) {
    put(t, "dead", dead(0)).await;
    let before = get(t, "dead").await;
    let job = t.store.test_alert(&t.me, named("dead")).await.unwrap();
    let after = get(t, "dead").await;
    assert_eq!((after.state, after.last_delivery), (before.state, Some(job.id)));
    assert_eq!(notices(t).await, [AlertNotice::Test]);
    let missing = t.store.test_alert(&t.me, named("none")).await.unwrap_err();
    assert_eq!(missing, AlertError::NotFound(named("none")));
}

/// Model: alerts
async fn a_replaced_alert_keeps_its_state(t: &Fixture) {
    let made = put(t, "dead", dead(0)).await;
    assert!(made.is_new && made.is_changed);
    die(t, once("default")).await;
    check(t).await;
    assert!(!put(t, "dead", dead(0)).await.is_changed);
    let changed = put(t, "dead", AlertRule { keep_firing_for: Duration::ZERO, ..dead(5) }).await;
    assert!(!changed.is_new && changed.is_changed);
    assert_eq!(changed.alert.state.status, AlertStatus::Firing);
    assert_eq!(check(t).await, 1, "the new condition does not hold");
    t.store.delete_alert(&t.me, named("dead")).await.unwrap();
    assert_eq!(t.store.alert(&t.me, named("dead")).await.unwrap(), None);
    assert_eq!(check(t).await, 0);
}

/// Model: tenant-isolation, roles
async fn alerts_of_others_do_not_exist(t: &Fixture) {
    put(t, "all", dead(0)).await;
    let (blue, green) = (caller("bo", Role::Operator, "blue"), caller("gil", Role::Operator, "green"));
    t.store.put_alert(&blue, named("own"), dead(0)).await.unwrap();
    for name in ["own", "all"] {
        assert_eq!(t.store.alert(&green, named(name)).await.unwrap(), None);
        assert_eq!(t.store.alert(&green, at("blue", name)).await.unwrap(), None);
        let unknown = AlertError::NotFound(named(name));
        assert_eq!(t.store.delete_alert(&green, named(name)).await.unwrap_err(), unknown);
        assert_eq!(t.store.test_alert(&green, at("blue", name)).await.unwrap_err(), unknown);
        assert_eq!(t.store.resume_alert(&green, named(name)).await.unwrap_err(), unknown);
        let paused = t.store.pause_alert(&green, named(name), PauseOptions::default()).await;
        assert_eq!(paused.unwrap_err(), unknown);
    }
    assert_eq!(t.store.alerts(&green).await.unwrap(), []);
    assert_eq!(t.store.alerts(&blue).await.unwrap().len(), 1);
    assert_eq!(t.store.alerts(&t.me).await.unwrap().len(), 2);
    assert!(t.store.alert(&t.me, named("own")).await.unwrap().is_some(), "the only one of the name");
    let foreign = t.store.put_alert(&green, at("blue", "own"), dead(1)).await.unwrap_err();
    assert!(matches!(foreign, AlertError::Forbidden(_)), "{foreign}");
    for role in [Role::Submitter, Role::Worker, Role::App, Role::Viewer] {
        let eve = caller("eve", role, "blue");
        let refused = t.store.put_alert(&eve, named("own"), dead(2)).await.unwrap_err();
        assert!(matches!(refused, AlertError::Forbidden(_)), "{refused}");
        let refused = t.store.test_alert(&eve, named("own")).await.unwrap_err();
        assert!(matches!(refused, AlertError::Forbidden(_)), "{refused}");
    }
}

/// Model: roles
async fn who_may_not_read_settings_sees_the_host_only(t: &Fixture) {
    t.store.put_alert(&t.me, at("blue", "dead"), dead(0)).await.unwrap();
    let seen = t.store.alert(&caller("vi", Role::Viewer, "blue"), named("dead")).await.unwrap().unwrap();
    assert_eq!((seen.rule.url.as_str(), seen.is_redacted), ("https://hooks.example.com", true));
    let seen = t.store.alert(&caller("op", Role::Operator, "blue"), named("dead")).await.unwrap().unwrap();
    assert_eq!((seen.rule.url.as_str(), seen.is_redacted), (URL, false));
}

/// Model: alerts
async fn the_number_of_alerts_is_bounded(t: &Fixture) {
    for number in 0..limits::ALERTS_PER_TENANT_MAX {
        put(t, &format!("a{number}"), dead(0)).await;
    }
    let refused = t.store.put_alert(&t.me, named("more"), dead(0)).await.unwrap_err();
    assert!(matches!(&refused, AlertError::Invalid(invalid) if invalid.field == "alerts"), "{refused}");
    put(t, "a0", dead(9)).await;
    for number in 0..limits::ALERTS_PER_TENANT_MAX {
        for of in ["blue", "green"] {
            t.store.put_alert(&t.me, at(of, &format!("b{number}")), dead(0)).await.unwrap();
        }
    }
    // More of them fire at once than one commit takes.
    die(t, once("blue")).await;
    die(t, once("green")).await;
    let all = 3 * limits::ALERTS_PER_TENANT_MAX - 1;
    assert_eq!(check(t).await, limits::ALERTS_PER_COMMIT);
    assert_eq!(check(t).await, all - limits::ALERTS_PER_COMMIT);
    assert_eq!(check(t).await, 0);
}

/// Model: alerts, callbacks
async fn what_an_alert_may_not_be_is_refused_by_field(t: &Fixture) {
    let clock = AlertCondition::ClockOffset { longer_than: secs(60) };
    for (rule, field) in [
        (AlertRule { url: "https://127.0.0.1/x".into(), ..dead(0) }, "url"),
        (AlertRule { queue: Some(queue("mail")), ..AlertRule::new(clock, URL) }, "queue"),
        (AlertRule { repeat_interval: Some(secs(1)), ..dead(0) }, "repeat_interval"),
    ] {
        let refused = t.store.put_alert(&t.me, named("x"), rule).await.unwrap_err();
        assert!(matches!(&refused, AlertError::Invalid(invalid) if invalid.field == field), "{refused}");
    }
    assert_eq!(t.store.alerts(&t.me).await.unwrap(), []);
}

/// Model: alerts. Or any caller could have a signed message sent.
async fn messages_of_alerts_cannot_be_submitted_by_hand(t: &Fixture) {
    let refused = t.refused(vec![new_job(alert::TYPE)]).await;
    assert!(matches!(&refused, SubmitError::Invalid { invalid, .. } if invalid.field == "type"), "{refused}");
    put(t, "dead", dead(0)).await;
    let job = t.store.test_alert(&t.me, named("dead")).await.unwrap();
    t.cancel(job.id).await;
    let how = Redrive { payload: Some(Payload::json("{}")), ..Redrive::default() };
    let refused = t.store.redrive(&t.me, job.id, how).await.unwrap_err();
    assert!(matches!(&refused, ActionError::Invalid(invalid) if invalid.field == "payload"), "{refused}");
    let anything = t.worker().await;
    assert!(t.claim(anything, 10).await.is_empty(), "only workers that name them receive them");
}

/// Model: alerts. Several processes decide at the same time.
async fn two_rounds_at_once_send_one_message(t: &Fixture) {
    put(t, "dead", dead(0)).await;
    die(t, once("default")).await;
    t.advance(secs(1));
    t.tick().await;
    let rounds = [t.store.clone(), t.store.clone(), t.store.clone()];
    let [a, b, c] = &rounds;
    let (a, b, c) = tokio::join!(a.check_alerts(), b.check_alerts(), c.check_alerts());
    assert_eq!(a.unwrap().messages + b.unwrap().messages + c.unwrap().messages, 1);
    assert_eq!(notices(t).await, [AlertNotice::Firing]);
}
