//! Push workers: a web program with one endpoint is a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use windlass::clock::{Clock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{Category, JobState, NewJob, Payload, Tenant};
use windlass::settings::Push;
use windlass::settings::patch::{Field, QueuePatch};
use windlass::store::caller::{Caller, Role};
use windlass::store::{Environment, Store, StoreOptions};
use windlass::webhook_url::TargetPolicy;
use windlass_server::webhooks::signature::Purpose;
use windlass_testkit::receiver::{Receiver, Request, answer};

use super::calling_store::{CallingStore, job, once};

#[tokio::test]
async fn a_job_is_posted_with_its_facts_and_completed_with_the_answer() {
    let mut receiver = Receiver::answering(answer("200 OK", r#"{"greeting": "hello"}"#)).await;
    let office = CallingStore::open();
    office.push("mail", Some(Push::to(receiver.url()))).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let id = office
        .submit(NewJob {
            idempotency_key: Some("order 7/ü%".into()),
            traceparent: Some(traceparent.into()),
            tracestate: Some("vendor=1".into()),
            baggage: Some("user=7,name=a%20b".into()),
            ..job("mail", r#"{"name":  "a"}"#)
        })
        .await;
    let request = receiver.request().await;
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.body, br#"{"name":  "a"}"#, "byte for byte");
    let url = receiver.url();
    let expected = [
        ("content-type", "application/json"),
        ("windlass-job-id", &id.to_string()),
        ("windlass-job-type", "greet"),
        ("windlass-queue", "mail"),
        ("windlass-tenant", "default"),
        ("windlass-attempt", "1"),
        ("windlass-idempotency-key", "order%207/%C3%BC%25"),
        ("traceparent", traceparent),
        ("tracestate", "vendor=1"),
        ("baggage", "user=7,name=a%20b"),
        ("webhook-id", &id.to_string()),
        ("windlass-event", "job.push"),
        ("windlass-audience", url.split('?').next().unwrap()),
    ];
    for (name, value) in expected {
        assert_eq!(request.header(name), value, "{name}");
    }
    verify(&request, &office.secret("default", Purpose::Push, &receiver.url()).await);
    assert_eq!(office.outcome(id).await, (JobState::Completed, None));
    assert_eq!(office.result(id).await.as_deref(), Some(r#"{"greeting": "hello"}"#));
    office.close().await;
}

/// The name of the push worker begins with `push`, and a worker's name may not be longer than a queue's.
#[tokio::test]
async fn a_queue_with_the_longest_name_is_pushed() {
    let mut receiver = Receiver::answering(answer("200 OK", "1")).await;
    let office = CallingStore::open();
    let queue = "q".repeat(windlass::limits::NAME_CHARS_MAX);
    office.push(&queue, Some(Push::to(receiver.url()))).await;
    let id = office.submit(job(&queue, "{}")).await;
    receiver.request().await;
    assert_eq!(office.outcome(id).await, (JobState::Completed, None));
    office.close().await;
}

/// Verifies a request with the reference implementation.
pub(crate) fn verify(request: &Request, secret: &str) {
    assert!(is_signed(request, secret), "{:?}", request.line);
}

pub(crate) fn is_signed(request: &Request, secret: &str) -> bool {
    let mut headers = hyper::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, request.header(name).parse().unwrap());
    }
    standardwebhooks::Webhook::new(secret).unwrap().verify(&request.body, &headers).is_ok()
}

#[tokio::test]
async fn the_status_decides_what_becomes_of_the_job() {
    let permanent = |status: u16| (JobState::Failed, Some((Category::Permanent, format!("http_{status}"))));
    let temporary =
        |status: u16| (JobState::DeadLetter, Some((Category::Temporary, format!("http_{status}"))));
    let cases = [
        ("204 No Content", (JobState::Completed, None)),
        ("302 Found", temporary(302)),
        ("400 Bad Request", permanent(400)),
        ("404 Not Found", permanent(404)),
        ("410 Gone", permanent(410)),
        ("422 Unprocessable", permanent(422)),
        ("408 Request Timeout", temporary(408)),
        ("425 Too Early", temporary(425)),
        ("429 Too Many", temporary(429)),
        ("500 Oh", temporary(500)),
        ("503 Later", temporary(503)),
    ];
    let office = CallingStore::open();
    let mut sent = Vec::new();
    for (status, outcome) in cases {
        let receiver = Receiver::answering(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
        office.push(&queue_of(status), Some(Push::to(receiver.url()))).await;
        let id = office.submit(once(&queue_of(status), "{}")).await;
        sent.push((id, status, outcome, receiver));
    }
    for (id, status, outcome, _receiver) in sent {
        assert_eq!(office.outcome(id).await, outcome, "{status}");
    }
}

fn queue_of(status: &str) -> String {
    format!("answer-{}", &status[..3])
}

/// Model: retry-after
#[tokio::test]
async fn a_receiver_says_when_to_be_sent_the_job_again() {
    let times = AtomicUsize::new(0);
    let mut receiver = Receiver::start(move |_, mut stream| {
        let is_first = times.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            let busy = "HTTP/1.1 503 Later\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n".to_owned();
            stream.write_all(if is_first { busy } else { answer("200 OK", "7") }.as_bytes()).await
        }
    })
    .await;
    let office = CallingStore::open();
    office.push("mail", Some(Push::to(receiver.url()))).await;
    // Its own backoff would be an hour.
    let mut new = job("mail", "{}");
    new.retry.as_mut().unwrap().initial_delay = Duration::from_secs(3600);
    let id = office.submit(new).await;
    let (first, second) = (receiver.request().await, receiver.request().await);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"), "it is the same message");
    assert_eq!((first.header("windlass-attempt"), second.header("windlass-attempt")), ("1", "2"));
    let fences = [&first, &second].map(|request| request.header("windlass-fence").parse::<u64>().unwrap());
    assert!(fences[0] < fences[1], "{fences:?}");
    assert_eq!(office.outcome(id).await, (JobState::Completed, None));
}

#[tokio::test]
async fn only_json_is_kept_as_a_result_and_only_as_much_as_a_store_keeps() {
    let office = CallingStore::open();
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let cases = [
        ("text", "done", None),
        ("none", "", None),
        ("null", "null", None),
        ("json", "[1]", Some("[1]")),
        ("long", &long, None),
    ];
    let mut sent = Vec::new();
    for (queue, body, kept) in cases {
        let receiver = Receiver::answering(answer("200 OK", body)).await;
        office.push(queue, Some(Push::to(receiver.url()))).await;
        sent.push((office.submit(once(queue, "{}")).await, queue, kept, receiver));
    }
    for (id, queue, kept, _receiver) in sent {
        let too_large = (JobState::Failed, Some((Category::Permanent, "result_too_large".into())));
        let outcome = if queue == "long" { too_large } else { (JobState::Completed, None) };
        assert_eq!(office.outcome(id).await, outcome, "{queue}");
        assert_eq!(office.result(id).await.as_deref(), kept, "{queue}");
    }
}

/// Model: payload. Bytes are sent as what they are.
#[tokio::test]
async fn bytes_are_sent_with_their_own_content_type() {
    let mut receiver = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::open();
    office.push("mail", Some(Push::to(receiver.url()))).await;
    office.submit(NewJob { payload: Payload::bytes([0, 255, 7], "image/png"), ..job("mail", "") }).await;
    let request = receiver.request().await;
    assert_eq!((request.header("content-type"), request.body.as_slice()), ("image/png", &[0, 255, 7][..]));
    // One that cannot stand in a header line is refused at submission.
    let injected = "text/plain\r\nx-injected: 1";
    let refused =
        office.try_submit(NewJob { payload: Payload::bytes("a", injected), ..job("mail", "") }).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("content_type")));
}

/// A receiver that answers when it is let, and counts how many it has at once.
async fn gated(at_once: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>, gate: &Arc<Semaphore>) -> Receiver {
    let (at_once, most, gate) = (at_once.clone(), most.clone(), gate.clone());
    Receiver::start(move |_, mut stream| {
        let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        let (at_once, gate) = (at_once.clone(), gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            at_once.fetch_sub(1, Ordering::SeqCst);
            stream.write_all(answer("200 OK", "").as_bytes()).await
        }
    })
    .await
}

/// Model: concurrency-limits
#[tokio::test]
async fn no_more_are_sent_at_once_than_target_and_queue_allow() {
    for (concurrency, max_running, expected) in [(2, None, 2), (10, Some(3), 3)] {
        let (at_once, most) = (Arc::default(), Arc::default());
        let gate = Arc::new(Semaphore::new(0));
        let mut receiver = gated(&at_once, &most, &gate).await;
        let office = CallingStore::open();
        let max_running = Field::from(max_running);
        let limit = QueuePatch { max_running, ..QueuePatch::default() };
        office.configure_as(&office.me, "mail", limit).await;
        office.push("mail", Some(Push { concurrency, ..Push::to(receiver.url()) })).await;
        let mut ids = Vec::new();
        for _ in 0..12 {
            ids.push(office.submit(job("mail", "{}")).await);
        }
        for _ in 0..expected {
            receiver.request().await;
        }
        gate.add_permits(12);
        for id in ids {
            assert_eq!(office.outcome(id).await, (JobState::Completed, None));
        }
        assert_eq!(most.load(Ordering::SeqCst), expected);
    }
}

#[tokio::test]
async fn a_changed_target_counts_without_a_restart() {
    let (mut first, mut second) =
        (Receiver::answering(answer("200 OK", "1")).await, Receiver::answering(answer("200 OK", "2")).await);
    let office = CallingStore::open();
    office.push("mail", Some(Push::to(first.url()))).await;
    let id = office.submit(job("mail", "{}")).await;
    first.request().await;
    office.ended(id).await;
    // Another address, and more at once: the worker is replaced.
    office.push("mail", Some(Push { concurrency: 3, ..Push::to(second.url()) })).await;
    while second.is_quiet() {
        let id = office.submit(job("mail", "{}")).await;
        office.ended(id).await;
    }
    second.request().await;
    // Without a target its jobs wait for another worker, and say so.
    office.push("mail", None).await;
    let left = loop {
        let id = office.submit(job("mail", "{}")).await;
        let seen = office.store.wait(&office.me, id, Duration::from_millis(200)).await.unwrap().unwrap();
        if !seen.job.state.is_final() {
            break id;
        }
    };
    office.push("mail", Some(Push::to(first.url()))).await;
    assert_eq!(office.outcome(left).await, (JobState::Completed, None));
}

/// Model: tenant-isolation. A tenant's own target is sent its own jobs only, signed with its own secret.
#[tokio::test]
async fn a_tenants_target_is_sent_no_other_tenants_jobs() {
    let mut receiver = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::open();
    let acme = Caller::new("acme", Role::Operator, Some(Tenant::new("acme").unwrap()));
    office.push_as(&acme, "mail", Some(Push::to(receiver.url()))).await;
    let others = office.submit(job("mail", r#""other""#)).await;
    let own = office.submit(NewJob { tenant: acme.tenant.clone(), ..job("mail", r#""own""#) }).await;
    assert_eq!(office.outcome(own).await, (JobState::Completed, None));
    let request = receiver.request().await;
    assert_eq!((request.header("windlass-tenant"), request.body.as_slice()), ("acme", &br#""own""#[..]));
    verify(&request, &office.secret("acme", Purpose::Push, &receiver.url()).await);
    let other = office.store.get(&office.me, others).await.unwrap().unwrap();
    assert_eq!(other.job.state, JobState::Scheduled);
    assert!(receiver.is_quiet());
}

/// Model: callbacks. What a policy forbids by now is not called, whatever it said when the target was set.
#[tokio::test]
async fn a_target_that_may_not_be_called_is_refused_for_good() {
    let receiver = Receiver::answering(answer("200 OK", "")).await;
    let office = CallingStore::with(TargetPolicy { allows_http: true, ports: None, networks: Vec::new() });
    office.push("mail", Some(Push::to(receiver.url()))).await;
    let id = office.submit(job("mail", "{}")).await;
    let outcome = (JobState::Failed, Some((Category::Permanent, "target_refused".into())));
    assert_eq!(office.outcome(id).await, outcome);
    assert!(receiver.is_quiet());
}

#[tokio::test]
async fn a_server_that_stops_gives_back_what_it_was_sending() {
    let mut receiver = Receiver::start(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
        Ok(())
    })
    .await;
    let office = CallingStore::open();
    office.push("mail", Some(Push::to(receiver.url()))).await;
    let id = office.submit(job("mail", "{}")).await;
    receiver.request().await;
    let (store, me) = (office.store.clone(), office.me.clone());
    tokio::time::pause();
    office.close().await;
    let found = store.get(&me, id).await.unwrap().unwrap();
    assert_eq!(
        (found.job.failures, found.job.state.is_final()),
        (0, false),
        "that is not a failure of the job"
    );
    assert!(found.job.lease.is_none(), "no worker has it any more");
}

/// Tokio's clock, which jumps when all tasks wait.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).plus(self.0.elapsed())
    }
}

/// Model: leases-and-heartbeats. Ten minutes, with a lease of one.
#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_while_the_receiver_works() {
    let receiver = Receiver::start(|_, mut stream| async move {
        tokio::time::sleep(Duration::from_secs(600)).await;
        stream.write_all(answer("200 OK", "").as_bytes()).await
    })
    .await;
    let options = StoreOptions { targets: TargetPolicy::anywhere(), ..StoreOptions::default() };
    let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
    let store = Store::open_in("memory:", Environment::new(clock, Entropy::seeded(1), options)).unwrap();
    let office = CallingStore::over(store, TargetPolicy::anywhere());
    let timeout = Some(Duration::from_secs(1200));
    office.push("mail", Some(Push { timeout, ..Push::to(receiver.url()) })).await;
    let id =
        office.submit(NewJob { lease_timeout: Some(Duration::from_secs(60)), ..job("mail", "{}") }).await;
    let found = office.store.wait(&office.me, id, Duration::from_secs(1200)).await.unwrap().unwrap();
    assert_eq!((found.job.state, found.job.attempt, found.job.failures), (JobState::Completed, 1, 0));
}
