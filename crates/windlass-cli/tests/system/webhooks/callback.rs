//! Callbacks, from the end of a job to the receiver.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use windlass::callback;
use windlass::job::{Category, JobId, JobMetadata, JobRecord, JobState, NewJob, Tenant};
use windlass::store::{ActionRequest, DeliveryKind, DeliveryOutcome, Filter, ListRequest};
use windlass::webhook_url::TargetPolicy;
use windlass_server::webhooks::signature::Purpose;
use windlass_testkit::receiver::{Receiver, answer};

use super::calling_store::{CallingStore, job};
use super::push::{is_signed, verify};

fn reporting_to(url: &str) -> NewJob {
    NewJob {
        metadata: JobMetadata { callback_url: Some(url.to_owned()), ..JobMetadata::default() },
        ..job("mail", "{}")
    }
}

impl CallingStore {
    /// Ends a job.
    pub(crate) async fn end(&self, new: NewJob) -> JobId {
        let id = self.submit(new).await;
        self.store.act(&self.me, id, ActionRequest::Cancel { reason: None }).await.unwrap();
        id
    }

    /// Ends a job, and says which callback reports it.
    pub(crate) async fn end_and_report(&self, new: NewJob) -> (JobId, JobRecord) {
        let id = self.end(new).await;
        (id, self.callback_of(id).await)
    }

    async fn callback_of(&self, id: JobId) -> JobRecord {
        let tag = Some((callback::TAG.to_owned(), id.to_string()));
        let request = ListRequest { filter: Filter { tag, ..Filter::default() }, ..ListRequest::default() };
        let mut found = self.store.list(&self.me, request).await.unwrap().jobs;
        assert_eq!(found.len(), 1, "one end, one report");
        found.remove(0).job
    }
}

/// Model: callbacks
#[tokio::test]
async fn an_end_is_reported_and_signed() {
    let mut receiver = Receiver::answering(answer("204 No Content", "")).await;
    let office = CallingStore::open();
    let new = NewJob { tenant: Some(Tenant::new("acme").unwrap()), ..reporting_to(&receiver.url()) };
    let (id, callback) = office.end_and_report(new).await;
    let request = receiver.request().await;
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("webhook-id"), callback.id.to_string());
    verify(&request, &office.secret("acme", Purpose::Callback, &receiver.url()).await);
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        (body["type"].as_str(), body["data"]["id"].as_str()),
        (Some("job.cancelled"), Some(&*id.to_string()))
    );
    assert_eq!(office.outcome(callback.id).await, (JobState::Completed, None));
}

/// Model: callbacks
#[tokio::test]
async fn a_report_that_was_not_taken_is_sent_again_under_the_same_id() {
    let times = AtomicUsize::new(0);
    let mut receiver = Receiver::start(move |_, mut stream| {
        let is_first = times.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            let busy = "HTTP/1.1 503 Later\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n".to_owned();
            stream.write_all(if is_first { busy } else { answer("200 OK", "") }.as_bytes()).await
        }
    })
    .await;
    let office = CallingStore::open();
    let (_, callback) = office.end_and_report(reporting_to(&receiver.url())).await;
    let (first, second) = (receiver.request().await, receiver.request().await);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(first.body, second.body);
    verify(&second, &office.secret("default", Purpose::Callback, &receiver.url()).await);
    assert_eq!(office.outcome(callback.id).await, (JobState::Completed, None));
    let measured = &office.store.environment().metrics.deliveries;
    let calls = DeliveryOutcome::ALL.map(|outcome| measured.count(DeliveryKind::Callback, outcome));
    assert_eq!(calls, [1, 1, 0, 0, 0], "one was accepted, one deferred");
    assert_eq!(measured.micros(DeliveryKind::Callback).read().count, 2);
}

/// Model: callbacks. A caller who may choose callback addresses gets nothing signed that another receiver accepts.
#[tokio::test]
async fn a_message_for_one_receiver_is_not_believed_by_another() {
    let mut receiver = Receiver::answering(answer("200 OK", "")).await;
    let another = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::open();
    office.end(reporting_to(&receiver.url())).await;
    let request = receiver.request().await;
    verify(&request, &office.secret("default", Purpose::Callback, &receiver.url()).await);
    assert_eq!(request.header("windlass-event"), "job.cancelled");
    let of_others = [
        office.secret("default", Purpose::Callback, &another.url()).await,
        office.secret("default", Purpose::Push, &receiver.url()).await,
        office.secret("acme", Purpose::Callback, &receiver.url()).await,
    ];
    assert!(of_others.iter().all(|secret| !is_signed(&request, secret)));
}

/// Model: callbacks. Both secrets sign while one is replaced.
#[tokio::test]
async fn a_replaced_secret_counts_at_once_and_the_old_one_still() {
    let mut receiver = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::open();
    let old = office.secret("default", Purpose::Callback, &receiver.url()).await;
    office.store.rotate_webhook_secret(&office.me, None).await.unwrap();
    let new = office.secret("default", Purpose::Callback, &receiver.url()).await;
    assert_ne!(old, new);
    office.end(reporting_to(&receiver.url())).await;
    let request = receiver.request().await;
    verify(&request, &new);
    verify(&request, &old);
}

/// Model: callbacks
#[tokio::test]
async fn a_receiver_that_wants_no_more_is_not_called_again() {
    for status in [404, 410] {
        let mut receiver =
            Receiver::answering(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n")).await;
        let office = CallingStore::open();
        let (_, callback) = office.end_and_report(reporting_to(&receiver.url())).await;
        receiver.request().await;
        let outcome = (JobState::Failed, Some((Category::Permanent, format!("http_{status}"))));
        assert_eq!(office.outcome(callback.id).await, outcome);
        assert!(receiver.is_quiet());
    }
}

/// Model: callbacks. A name that leads to this machine was taken at submission, and is not called.
#[tokio::test]
async fn a_private_receiver_is_refused_at_delivery_unless_allowed() {
    let receiver = Receiver::answering(answer("200 OK", "")).await;
    let by_name = format!("http://localhost:{}/hook?token=hunter2", receiver.address.port());
    let http = TargetPolicy { allows_http: true, ports: None, networks: Vec::new() };
    let https_only = TargetPolicy { networks: TargetPolicy::anywhere().networks, ..TargetPolicy::default() };
    for (policy, url) in [
        (http.clone(), by_name.as_str()),
        (http, receiver.url().as_str()),
        (https_only, by_name.as_str()),
        (TargetPolicy::default(), by_name.as_str()),
    ] {
        let office = CallingStore::with(policy);
        let (_, callback) = office.end_and_report(reporting_to(url)).await;
        let ended = office.ended(callback.id).await;
        let error = ended.job.details.error.clone().unwrap();
        assert_eq!(
            (ended.job.state, error.code.as_deref()),
            (JobState::Failed, Some("target_refused")),
            "{url}"
        );
        assert!(!error.message.contains("hunter2"), "{}", error.message);
    }
    assert!(receiver.is_quiet());
}

/// A receiver's response is not shown, and may be anything.
#[tokio::test]
async fn an_answer_is_not_echoed() {
    let body = "canary-7f3a: internal page";
    let receiver = Receiver::answering(answer("500 canary-7f3a", body)).await;
    let office = CallingStore::open();
    let (_, callback) = office.end_and_report(reporting_to(&receiver.url())).await;
    let found = loop {
        let found = office.store.get(&office.me, callback.id).await.unwrap().unwrap();
        if found.job.failures > 0 {
            break found;
        }
        tokio::task::yield_now().await;
    };
    assert!(!format!("{found:?}").contains("canary-7f3a"));
}
