//! Messages of alerts, from the change of a state to the receiver.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use windlass::alert::{AlertCondition, AlertFormat, AlertRule};
use windlass::job::{AlertName, Category, JobState, Tenant};
use windlass::store::{AlertRef, DeliveryKind, DeliveryOutcome};
use windlass::webhook_url::TargetPolicy;
use windlass_server::webhooks::signature::Purpose;
use windlass_testkit::receiver::{Receiver, answer};

use super::calling_store::{CallingStore, job};
use super::push::{is_signed, verify};

fn at(tenant: &str, name: &str) -> AlertRef {
    AlertRef { tenant: Some(Tenant::new(tenant).unwrap()), name: AlertName::new(name).unwrap() }
}

/// Fires on any job that waits for more than a second.
fn late(url: &str) -> AlertRule {
    AlertRule::new(AlertCondition::OldestReady { longer_than: Duration::from_secs(1) }, url)
}

/// Model: alerts. Maintenance decides, and the receiver is notified.
#[tokio::test]
async fn a_message_is_signed_with_a_secret_of_its_own() {
    let mut receiver = Receiver::answering(answer("204 No Content", "")).await;
    let office = CallingStore::open();
    office.store.put_alert(&office.me, at("acme", "late"), late(&receiver.url())).await.unwrap();
    let test = office.store.test_alert(&office.me, at("acme", "late")).await.unwrap();
    let request = receiver.request().await;
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.header("webhook-id"), test.id.to_string());
    assert_eq!(request.header("windlass-event"), "alert.test");
    verify(&request, &office.secret("acme", Purpose::Alert, &receiver.url()).await);
    for (tenant, purpose) in
        [("acme", Purpose::Callback), ("acme", Purpose::Push), ("default", Purpose::Alert)]
    {
        assert!(!is_signed(&request, &office.secret(tenant, purpose, &receiver.url()).await));
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["type"], &body["data"]["alert"]), (&json!("alert.test"), &json!("late")));
    assert_eq!((&body["data"]["tenant"], &body["data"]["state"]), (&json!("acme"), &json!("ok")));
    assert_eq!(office.outcome(test.id).await, (JobState::Completed, None));
    let measured = &office.store.environment().metrics.deliveries;
    assert_eq!(measured.count(DeliveryKind::Alert, DeliveryOutcome::Accepted), 1);
}

/// Model: alerts. Only maintenance asks for it.
#[tokio::test]
async fn maintenance_decides_about_alerts() {
    let mut receiver = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::open();
    let name = AlertName::new("late").unwrap();
    office.submit(job("mail", "{}")).await;
    let slack = AlertRule { format: AlertFormat::Slack, ..late(&receiver.url()) };
    office.store.put_alert(&office.me, name, slack).await.unwrap();
    let request = receiver.request().await;
    assert_eq!(request.header("content-type"), "application/json");
    assert!(request.headers.keys().all(|name| !name.starts_with("webhook-")), "Slack knows no secret");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with(":red_circle: Alert late is firing: the oldest ready job waits for "), "{text}");
    assert_eq!(body.as_object().unwrap().len(), 1);
}

/// Model: alerts, callbacks
#[tokio::test]
async fn a_private_address_is_not_called() {
    let receiver = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::with(TargetPolicy::default());
    office.store.put_alert(&office.me, at("acme", "late"), late(&receiver.url())).await.unwrap();
    let test = office.store.test_alert(&office.me, at("acme", "late")).await.unwrap();
    let refused = Some((Category::Permanent, "target_refused".to_owned()));
    assert_eq!(office.outcome(test.id).await, (JobState::Failed, refused));
}

/// Model: alerts. A message that waits goes where the alert says now, and nowhere once it is deleted.
#[tokio::test]
async fn a_corrected_url_counts_for_messages_that_wait() {
    let times = AtomicUsize::new(0);
    let mut wrong = Receiver::start(move |_, mut stream| {
        times.fetch_add(1, Ordering::SeqCst);
        async move {
            let busy = "HTTP/1.1 503 Later\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(busy.as_bytes()).await
        }
    })
    .await;
    let mut right = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::open();
    office.store.put_alert(&office.me, at("acme", "late"), late(&wrong.url())).await.unwrap();
    let test = office.store.test_alert(&office.me, at("acme", "late")).await.unwrap();
    wrong.request().await;
    office.store.put_alert(&office.me, at("acme", "late"), late(&right.url())).await.unwrap();
    assert_eq!(right.request().await.header("webhook-id"), test.id.to_string());
    assert_eq!(office.outcome(test.id).await, (JobState::Completed, None));
    office.store.put_alert(&office.me, at("acme", "late"), late(&wrong.url())).await.unwrap();
    let last = office.store.test_alert(&office.me, at("acme", "late")).await.unwrap();
    wrong.request().await;
    office.store.delete_alert(&office.me, at("acme", "late")).await.unwrap();
    let deleted = Some((Category::Permanent, "alert_deleted".to_owned()));
    assert_eq!(office.outcome(last.id).await, (JobState::Failed, deleted));
}
