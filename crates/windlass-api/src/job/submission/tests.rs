//! A submission in the API has every option that the library has, and says the same.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::job::{
    Category, Debounce, Dependency, JitterMode, JobId, JobMetadata, JobType, NewJob, Payload, Priority,
    QueueName, RetryPolicy, Strategy, Tenant, WorkerVersion,
};

use super::Submission;

/// A job with every field set. Without `..`, so that a new field is added here, and so to the test below.
fn full(payload: Payload) -> NewJob {
    let time = |seconds| Some(Duration::from_secs(seconds));
    NewJob {
        job_type: JobType::new("mail.send").unwrap(),
        payload,
        queue: QueueName::new("mail").unwrap(),
        requires_version: Some(WorkerVersion::new("2.4.0-rc.1+7").unwrap()),
        priority: Some(Priority::new(80).unwrap()),
        delay: time(1),
        run_at: Some(Timestamp::from_millis(1_900_000_000_123)),
        hold: true,
        idempotency_key: Some("a".to_owned()),
        idempotency_window: time(2),
        unique_key: Some("b".to_owned()),
        concurrency_key: Some("c".to_owned()),
        debounce: Some(Debounce { key: "d".to_owned(), delay: Duration::from_millis(1_500) }),
        retry: Some(RetryPolicy {
            strategy: Strategy::Linear,
            initial_delay: Duration::from_secs(3),
            max_delay: Duration::from_secs(4),
            multiplier: 1.1,
            jitter: 0.3,
            jitter_mode: JitterMode::Hashed,
            max_attempts: 7,
            retry_on: vec![Category::Temporary, Category::Resource],
        }),
        execution_timeout: time(5),
        lease_timeout: time(6),
        lifetime: time(7),
        start_timeout: time(8),
        after: vec![Dependency::Job(JobId::from_bytes([1; 16])), Dependency::Named("first".to_owned())],
        after_any: vec![Dependency::Named("second".to_owned())],
        name: Some("third".to_owned()),
        metadata: JobMetadata {
            tags: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            correlation_id: Some("e".to_owned()),
            callback_url: Some("https://example.com/done".to_owned()),
        },
        tenant: Some(Tenant::new("acme").unwrap()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: Some("vendor=1".into()),
        baggage: Some("user=7".into()),
    }
}

fn read_back(new: &NewJob) -> NewJob {
    let sent = serde_json::to_string(&Submission::from(new)).unwrap();
    serde_json::from_str::<Submission>(&sent).unwrap().into_job(None).unwrap()
}

#[test]
fn a_job_with_every_option_arrives_as_it_was_sent() {
    for payload in [
        Payload::json(br#"{"to":"a@example.com","floats":[0.1,1e300],"n":null}"#),
        Payload::json(b" [1] "),
        Payload::bytes(vec![0, 255], "application/octet-stream"),
    ] {
        let new = full(payload);
        assert_eq!(read_back(&new), new);
    }
}

#[test]
fn a_job_without_options_is_sent_without_them() {
    let new = NewJob::new(JobType::new("mail.send").unwrap(), Payload::json(b"1"));
    let sent = serde_json::to_value(Submission::from(&new)).unwrap();
    assert_eq!(sent, serde_json::json!({"type": "mail.send", "payload": 1, "queue": "default"}));
    assert_eq!(read_back(&new), new);
}
