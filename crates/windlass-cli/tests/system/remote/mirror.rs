//! What a client reads through a server is what the store itself says.

use windlass::error::{ActionError, FieldProblem, SubmitError};
use windlass::job::{
    ErrorCause, Failure, JitterMode, JobState, JobType, NewJob, Payload, QueueName, RetryPolicy, SuspendMode,
    Tenant, WorkerVersion,
};
use windlass::settings::{PartialTimeouts, QueueSettings, Retention, TenantSettings, TypeSettings};
use windlass::store::caller::Caller;
use windlass::store::{
    ActionRequest, ClaimRequest, Finish, NewWorker, Outcome, Redrive, Report, Settings, StoreOptions,
    SubmitOptions, Suspend,
};
use windlass::{Api, Client, Cx, Store, Worker};
use windlass_testkit::InProcessServer;

use super::job_types::{Greet, greet};
use crate::fixture::{On, secs};

/// Model: setting-levels, error-record, pending-suspension, retention. Suspensions, causes, limits, traces and retention come through unchanged.
#[tokio::test]
async fn what_the_server_shows_is_read_back_whole() {
    let (_files, address) = On::Sqlite.address();
    let kept = Store::open(&address, StoreOptions::default()).unwrap();
    let server = InProcessServer::new(kept.clone());
    let remote = Client::connect(&server.url, StoreOptions::default()).unwrap().api().clone();
    let me = Caller::local();
    let timeouts = PartialTimeouts {
        start: Some(secs(90)),
        max_execution: Some(secs(60)),
        ..PartialTimeouts::default()
    };
    let retention =
        Retention { completed: Some(secs(60)), dead_letter: Some(secs(9_000)), ..Retention::default() };
    let queue = QueueName::new("mail").unwrap();
    let job_type = JobType::new("send").unwrap();
    let set = QueueSettings { timeouts, retention, ..QueueSettings::default() };
    remote.configure(&me, Settings::Queue(queue.clone(), set.clone()).into()).await.unwrap();
    let kind = TypeSettings { retention, timeouts, ..TypeSettings::default() };
    remote.configure(&me, Settings::Type(job_type.clone(), kind.clone()).into()).await.unwrap();
    let config = kept.config(&me).await.unwrap();
    assert_eq!((&config.queues[&(queue.clone(), None)], &config.types[&job_type]), (&set, &kind));
    let look = remote.queue(&me, queue.clone()).await.unwrap();
    assert_eq!((look.settings.retention, look.settings.timeouts), (retention, timeouts));
    let retry = RetryPolicy { jitter_mode: JitterMode::Hashed, ..RetryPolicy::standard() };
    let new = NewJob {
        queue,
        retry: Some(retry),
        start_timeout: Some(secs(30)),
        requires_version: WorkerVersion::new("2.0+7").ok(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        tracestate: Some("vendor=1".into()),
        baggage: Some("user=7".into()),
        ..NewJob::new(job_type, Payload::json("1"))
    };
    let id = remote.submit(&me, vec![new], SubmitOptions::default()).await.unwrap()[0].job.id;
    let new = NewWorker { version: Some("2.0+7".into()), ..NewWorker::default() };
    let worker = remote.register(&me, new).await.unwrap().id;
    let request = ClaimRequest { worker, queues: None, types: None, limit: 1 };
    let claimed = remote.claim(&me, &request, secs(0)).await.unwrap().jobs.remove(0);
    let suspend =
        Suspend { mode: SuspendMode::Graceful, reason: Some("deploy".into()), expires: Some(secs(60)) };
    remote.act(&me, id, ActionRequest::Suspend(suspend)).await.unwrap();
    same(&kept, &*remote, id).await;
    let cause = ErrorCause::new("no space").with_code("ENOSPC");
    let failure = Failure::temporary("cannot write").with_cause("cannot open").with_cause(cause);
    let report = Report::new(id, claimed.job.fence, Outcome::Failed(failure));
    let answer = remote.finish(&me, worker, vec![report]).await.unwrap();
    assert!(matches!(answer[..], [Finish::Applied(_)]), "{answer:?}");
    same(&kept, &*remote, id).await;
    server.stop().await;
}

/// Model: partial-output. What a handler streams through a server is what its readers get through the server, and in the store.
#[tokio::test]
async fn output_is_streamed_and_followed_through_a_server() {
    let (_files, address) = On::Sqlite.address();
    let kept = Store::open(&address, StoreOptions::default()).unwrap();
    let server = InProcessServer::new(kept.clone());
    let client = Client::connect(&server.url, StoreOptions::default()).unwrap();
    let words: Vec<String> = (0..300).map(|number| format!("{number} ")).collect();
    let written = words.clone();
    let handler = move |job: Greet, cx: Cx| {
        let words = written.clone();
        async move {
            for word in &words {
                cx.stream(word).await?;
            }
            cx.step("saved", async { anyhow::Ok(()) }).await?;
            cx.stream(&serde_json::json!({"words": words.len()})).await?;
            anyhow::Ok(job.name)
        }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&client).handle(handler);
    let working = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await.unwrap() });
    let job = client.submit(greet("a")).await.unwrap();
    let (mut stream, mut texts) = (job.stream(), Vec::new());
    while let Some(chunk) = stream.next().await.unwrap() {
        texts.push(chunk.text());
    }
    assert_eq!(stream.ended(), Some(JobState::Completed));
    assert_eq!(texts.pop().unwrap(), r#"{"words":300}"#);
    assert_eq!(texts, words);
    let stored = kept.stream(&Caller::local(), job.id(), 0, 1_000, secs(0)).await.unwrap().unwrap();
    assert_eq!((stored.chunks.len(), stored.last), (301, 301));
    drop(stop);
    working.await.unwrap();
    server.stop().await;
}

/// Compares what both say of a job.
async fn same(kept: &Store, remote: &dyn Api, id: windlass::job::JobId) {
    let me = Caller::local();
    let (here, there) =
        (kept.get(&me, id).await.unwrap().unwrap(), remote.get(&me, id).await.unwrap().unwrap());
    let (mine, theirs) = (&here.job, &there.job);
    assert_eq!((mine.state, mine.trace, &mine.policy), (theirs.state, theirs.trace, &theirs.policy));
    assert_eq!(mine.details.suspension, theirs.details.suspension);
    assert_eq!(mine.details.suspend_requested, theirs.details.suspend_requested);
    assert_eq!(mine.details.error, theirs.details.error);
    assert_eq!(here.why, there.why);
    let attempts = (kept.attempts(&me, id).await.unwrap(), remote.attempts(&me, id).await.unwrap());
    assert_eq!(attempts.0, attempts.1);
}

/// Settings and refusals of the number of names and concurrency keys come through unchanged.
#[tokio::test]
async fn a_refused_name_or_key_is_read_back_whole() {
    let kept = Store::open("memory:", StoreOptions::default()).unwrap();
    let server = InProcessServer::new(kept.clone());
    let remote = Client::connect(&server.url, StoreOptions::default()).unwrap().api().clone();
    let (me, tenant) = (Caller::local(), Tenant::default());
    let set =
        TenantSettings { max_queues: Some(1), max_concurrency_keys: Some(1), ..TenantSettings::default() };
    remote.configure(&me, Settings::Tenant(tenant.clone(), set.clone()).into()).await.unwrap();
    assert_eq!(kept.config(&me).await.unwrap().tenants[&tenant], set);
    let job = |queue: &str, key: &str| NewJob {
        queue: QueueName::new(queue).unwrap(),
        concurrency_key: Some(key.into()),
        ..NewJob::new(JobType::new("send").unwrap(), Payload::json("1"))
    };
    let submit = async |store: &dyn Api, job| store.submit(&me, vec![job], SubmitOptions::default()).await;
    let first = submit(&*remote, job("a", "x")).await.unwrap()[0].job.id;
    for refused in [job("b", "x"), job("a", "y")] {
        let expected = submit(&kept, refused.clone()).await.unwrap_err();
        let SubmitError::Invalid { invalid, .. } = &expected else { panic!("{expected}") };
        assert!(matches!(invalid.problem, FieldProblem::LimitReached { .. }), "{expected}");
        assert_eq!(submit(&*remote, refused).await.unwrap_err(), expected);
    }
    remote.act(&me, first, ActionRequest::Cancel { reason: None }).await.unwrap();
    submit(&*remote, job("a", "y")).await.unwrap();
    let expected = kept.redrive(&me, first, Redrive::default()).await.unwrap_err();
    assert!(matches!(expected, ActionError::Invalid(_)), "{expected}");
    assert_eq!(remote.redrive(&me, first, Redrive::default()).await.unwrap_err(), expected);
}
