//! What only a network can do: servers that go away and come back, answers that are lost, keys that are not taken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use windlass::audit::AuditEvent;
use windlass::client::Client;
use windlass::context::Cx;
use windlass::error::{ActionError, OpenError, StoreError, SubmitError, WorkError};
use windlass::job::{JobState, JobType, NewJob, Payload, Tenant};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    ActionOptions, ActionRequest, BulkAction, Filter, NewKey, Pause, StoreOptions, SubmitOptions, Suspend,
};
use windlass::worker::Worker;
use windlass::{Api, Store};
use windlass_testkit::InProcessServer;

use super::job_types::{Greet, greet};
use crate::fixture::{On, secs};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// A store that is kept going.
fn kept(on: On) -> (Client, Option<tempfile::TempDir>) {
    let (files, address) = on.address();
    (Client::from_store(Store::open(&address, StoreOptions::default()).unwrap()), files)
}

fn port_of(server: &InProcessServer) -> SocketAddr {
    server.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Model: counters-and-fences, at-least-once. An outcome that was reported while the server was away is taken when it is back.
#[tokio::test]
async fn a_worker_outlives_a_server_that_restarts() {
    let (kept, _files) = kept(On::Sqlite);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let address = port_of(&server);
    let client = Client::open(&server.url).await.unwrap();
    let (started, mut starts) = mpsc::channel(10);
    let may_end = Arc::new(Notify::new());
    let (end, stop) = (may_end.clone(), Arc::new(Notify::new()));
    let handler = move |job: Greet, cx: Cx| {
        let (started, end) = (started.clone(), end.clone());
        async move {
            cx.step("one", async { anyhow::Ok(()) }).await?;
            started.send(cx.attempt()).await?;
            end.notified().await;
            started.send(cx.attempt()).await?;
            cx.step("two", async { anyhow::Ok(job.name) }).await
        }
    };
    let stopped = stop.clone();
    let worker = Worker::new(&client).queue("default", 2).handle(handler);
    let running = tokio::spawn(worker.run_until(async move { stopped.notified().await }));
    let job = client.submit(greet("x")).await.unwrap();
    assert_eq!(starts.recv().await, Some(1));
    server.stop().await;
    // What the handler saves from here on gets no response at first.
    may_end.notify_one();
    assert_eq!(starts.recv().await, Some(1));
    let server = InProcessServer::on(kept.store().unwrap().clone(), address);
    assert_eq!(job.result(LONG).await.unwrap(), "x");
    assert_eq!(job.snapshot().await.unwrap().unwrap().job.attempt, 1, "nothing ran twice");
    let next = client.submit(greet("next")).await.unwrap();
    may_end.notify_one();
    assert_eq!((starts.recv().await, starts.recv().await), (Some(1), Some(1)));
    assert_eq!(next.result(LONG).await.unwrap(), "next");
    stop.notify_one();
    running.await.unwrap().unwrap();
    drop(server);
}

/// A server that accepts requests and disconnects instead of responding, and then is a real one.
async fn cutting(times: usize, real: SocketAddr) -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(real).await.unwrap();
                if number >= times {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    return;
                }
                // The request arrives, its response does not.
                let mut request = vec![0; 64 << 10];
                let length = near.read(&mut request).await.unwrap();
                far.write_all(&request[..length]).await.unwrap();
                let _ = far.read(&mut request).await;
            });
        }
    });
    (url, asked)
}

/// Model: idempotency-key. Repeated only where that cannot double anything.
#[tokio::test]
async fn a_submission_whose_answer_is_lost_is_never_doubled() {
    let (kept, _files) = kept(On::Sqlite);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let (url, _) = cutting(1, port_of(&server)).await;
    let client = Client::open(&url).await.unwrap();
    let lost = client.submit(greet("a")).await.err().unwrap();
    assert!(matches!(lost, SubmitError::Store(StoreError::Unreachable(_))), "{lost}");
    let (url, asked) = cutting(2, port_of(&server)).await;
    let client = Client::open(&url).await.unwrap();
    let found = client.submit(greet("b")).key("once").await.unwrap();
    assert!(found.is_duplicate(), "the first try had stored it");
    assert!(asked.load(std::sync::atomic::Ordering::SeqCst) >= 3);
    let states = kept.api().stats(&Caller::local()).await.unwrap().states;
    assert_eq!(states[&JobState::Scheduled], 2, "one of each: what was lost had been stored too");
}

/// Model: tenant-isolation, roles
#[tokio::test]
async fn a_key_says_who_calls() {
    let (kept, _files) = kept(On::Memory);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let admin = Client::open(&server.url).await.unwrap();
    let boss = admin.api().create_key(&Caller::local(), NewKey::new("boss", Role::Admin)).await.unwrap();
    let with = |secret: &str| server.url.replace("http://", &format!("http://{secret}@"));
    let boss = Client::open(&with(boss.secret.reveal())).await.unwrap();
    let new = |name: &str, role, tenant: &str| NewKey {
        tenant: Some(Tenant::new(tenant).unwrap()),
        ..NewKey::new(name, role)
    };
    let make = |new: NewKey| boss.api().create_key(boss.caller(), new);
    let eve = make(new("eve", Role::Viewer, "default")).await.unwrap();
    let mallory = make(new("mallory", Role::Operator, "other")).await.unwrap();
    assert_eq!(boss.api().keys(boss.caller()).await.unwrap().len(), 3);

    let job = boss.submit(greet("a")).await.unwrap();
    assert_eq!(job.snapshot().await.unwrap().unwrap().spec.owner, "boss");
    let options = StoreOptions { key: Some(eve.secret.clone()), ..StoreOptions::default() };
    let eves = Client::open_with(&server.url, options).await.unwrap();
    assert_eq!(eves.job(job.id()).state().await.unwrap(), Some(JobState::Scheduled));
    let denied = eves.job(job.id()).cancel().await.unwrap_err();
    assert_eq!(denied.to_string(), "eve with role viewer may not manage this job");
    assert!(matches!(eves.submit(greet("b")).await.err().unwrap(), SubmitError::Forbidden(_)));
    let worker = Worker::new(&eves).handle(|job: Greet| async move { anyhow::Ok(job.name) });
    assert!(matches!(worker.run().await, Err(WorkError::Forbidden(_))));
    let others = Client::open(&with(mallory.secret.reveal())).await.unwrap();
    assert_eq!(others.job(job.id()).state().await.unwrap(), None);
    assert!(matches!(others.job(job.id()).cancel().await, Err(ActionError::NotFound(_))));

    boss.api().revoke_key(boss.caller(), eve.key.id.clone()).await.unwrap();
    let refused = eves.job(job.id()).state().await.unwrap_err();
    assert!(matches!(refused, StoreError::Forbidden(_)), "{refused}");
    let unknown = admin.job(job.id()).cancel().await.unwrap_err();
    assert_eq!(unknown.to_string(), "a caller without a valid key with role none may not use this server");
}

#[tokio::test]
async fn what_only_the_keeper_can_do_says_so() {
    let (kept, _files) = kept(On::Memory);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let client = Client::connect(&server.url, StoreOptions::default()).unwrap();
    assert!(client.store().is_none() && kept.store().is_some());
    client.close();
    let closed = client.api().stats(&Caller::local()).await.unwrap_err();
    assert!(matches!(closed, StoreError::Closed), "{closed}");
    for bad in ["http://", "https://key@host", "http://host?x"] {
        let refused = Client::connect(bad, StoreOptions::default()).err().unwrap();
        assert!(matches!(refused, OpenError::BadServerAddress { .. }), "{refused}");
    }
    let refused = Store::open(&server.url, StoreOptions::default()).err().unwrap();
    assert_eq!(refused, OpenError::ServerAddress);
}

/// Model: refused-changes, repeated-actions, dependency-limits. The errors are those of an embedded store.
#[tokio::test]
async fn refusals_are_the_same_values_here_and_there() {
    let (kept, _files) = kept(On::Memory);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let there = Client::connect(&server.url, StoreOptions::default()).unwrap();
    let (me, there, here) = (Caller::local(), there.api(), kept.api());
    let new = |name: &str| NewJob {
        name: Some(name.into()),
        ..NewJob::new(JobType::new("greet").unwrap(), Payload::json("null"))
    };
    let waiting_for = |name: &str| vec![windlass::job::Dependency::Named(name.into())];
    let batches = [
        vec![NewJob { after: waiting_for("unknown"), ..new("a") }, new("b")],
        vec![new("a"), new("a")],
        vec![NewJob { after: waiting_for("b"), ..new("a") }, NewJob { after: waiting_for("a"), ..new("b") }],
        vec![
            new("a"),
            NewJob { delay: Some(secs(1)), run_at: Some(windlass::clock::Timestamp::MAX), ..new("b") },
        ],
        vec![new("a"), NewJob { unique_key: Some("k".repeat(300)), ..new("b") }],
        vec![new("a"), NewJob { payload: Payload::json(format!("{:?}", "x".repeat(2 << 20))), ..new("b") }],
    ];
    for batch in batches {
        let submit = |store: &Arc<dyn Api>| {
            let (store, me, batch) = (store.clone(), me.clone(), batch.clone());
            async move { store.submit(&me, batch, SubmitOptions::default()).await.unwrap_err() }
        };
        assert_eq!(submit(there).await, submit(here).await);
    }
    let job = there.submit(&me, vec![new("a")], SubmitOptions::default()).await.unwrap()[0].job.id;
    let resume = || ActionRequest::Resume { reason: None };
    let errors = [
        (
            there.act_with(&me, job, resume(), ActionOptions::strict()).await,
            here.act_with(&me, job, resume(), ActionOptions::strict()).await,
        ),
        (there.act(&me, job, ActionRequest::Submit).await, here.act(&me, job, ActionRequest::Submit).await),
    ];
    for (there, here) in errors {
        assert_eq!(there.unwrap_err(), here.unwrap_err());
    }
    let unknown = windlass::job::JobId::from_bytes([7; 16]);
    assert_eq!(there.delete(&me, unknown).await.unwrap_err(), ActionError::NotFound(unknown));
    assert_eq!(there.delete(&me, job).await.unwrap_err(), here.delete(&me, job).await.unwrap_err());
    let unique = |store: &Arc<dyn Api>| {
        let (store, me) = (store.clone(), me.clone());
        let taken = NewJob { unique_key: Some("only".into()), ..new("u") };
        async move { store.submit(&me, vec![taken], SubmitOptions::default()).await }
    };
    unique(there).await.unwrap();
    assert_eq!(unique(there).await.unwrap_err(), unique(here).await.unwrap_err());
}

/// Model: explained-waiting
#[tokio::test]
async fn operators_see_and_do_the_same_through_a_server() {
    let (kept, _files) = kept(On::Sqlite);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let client = Client::open(&server.url).await.unwrap();
    let (there, here, me) = (client.api(), kept.api(), Caller::local());
    let jobs = client.submit_all((0..5).map(|n| greet(&n.to_string()))).await.unwrap();
    client.pause_queue("default", Pause::graceful().reason("lunch")).await.unwrap();
    assert_eq!(there.explain(&me, jobs[0].id()).await, here.explain(&me, jobs[0].id()).await);
    assert_eq!(there.stats(&me).await.unwrap().states, here.stats(&me).await.unwrap().states);
    assert_eq!(client.pauses().await.unwrap(), kept.pauses().await.unwrap());
    let suspend = BulkAction::Act(ActionRequest::Suspend(Suspend::default()));
    assert_eq!(there.bulk_dry_run(&me, &Filter::default()).await.unwrap(), 5);
    assert_eq!(there.bulk(&me, &Filter::default(), suspend).await.unwrap().changed, 5);
    let page = there.list(&me, windlass::store::ListRequest::default()).await.unwrap();
    let ids: Vec<_> = page.jobs.iter().map(|found| found.job.id).collect();
    assert_eq!(ids, jobs.iter().rev().map(|job| job.id()).collect::<Vec<_>>());
    assert!(page.jobs.iter().all(|found| found.job.state == JobState::Suspended));
    let records = |store: &Arc<dyn Api>| {
        let (store, me) = (store.clone(), me.clone());
        let query = windlass::store::engine::RecordQuery { limit: 100, ..Default::default() };
        async move { store.audit(&me, query).await.unwrap() }
    };
    assert_eq!(records(there).await, records(here).await);
}

/// Model: audit-trail. Kept events come once each, in their order, across a restart of the server.
#[tokio::test]
async fn a_stream_of_events_continues_where_it_was() {
    let (kept, _files) = kept(On::Sqlite);
    let server = InProcessServer::new(kept.store().unwrap().clone());
    let address = port_of(&server);
    let client = Client::open(&server.url).await.unwrap();
    let mut events = client.api().clone().events(&Caller::local(), 0);
    let first = client.submit(greet("a")).await.unwrap();
    first.cancel().await.unwrap();
    let next = |record: &windlass::audit::Record| (record.event, record.job, record.seq);
    let seen = loop {
        let record = events.next().await.unwrap();
        if record.event == AuditEvent::Cancelled {
            break next(&record);
        }
    };
    assert_eq!((seen.1, events.position()), (Some(first.id()), seen.2));
    server.stop().await;
    let second = kept.submit(greet("b")).await.unwrap();
    second.cancel().await.unwrap();
    let _server = InProcessServer::on(kept.store().unwrap().clone(), address);
    let again = loop {
        let record = tokio::time::timeout(LONG, events.next()).await.unwrap().unwrap();
        if record.event == AuditEvent::Cancelled {
            break next(&record);
        }
    };
    assert_eq!((again.1, again.2 > seen.2), (Some(second.id()), true));
}
