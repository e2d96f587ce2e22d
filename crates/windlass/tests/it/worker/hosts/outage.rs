//! A database that is away for a while: nothing that was done is lost while the lease holds. And heartbeats that do not
//! cause errors of their own.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Semaphore;
use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::AttemptOutcome;
use windlass::store::{Directive, HeartbeatItem};

use crate::fixture::{Fixture, On, secs};
use crate::worker::harness::{Bench, EventSender, PROMPTLY, Started, events, within};
use crate::worker::job_types::{Greet, greet};

/// The file beneath a bench, as another program has it open.
fn intruder(bench: &Bench) -> Connection {
    Connection::open(bench.address.strip_prefix("sqlite:").unwrap()).unwrap()
}

async fn working(
    _: Greet,
    cx: Cx,
    State(sender): State<EventSender>,
    State(gate): State<Arc<Semaphore>>,
) -> anyhow::Result<String> {
    sender.say("started");
    gate.acquire().await?.forget();
    sender.say("done");
    Ok(cx.attempt().to_string())
}

/// Runs a job to its end while the database is away; `leave` takes it away, `come_back` brings it back.
async fn ends_while_the_database_is_away(leave: &str, come_back: &str) {
    let bench = Bench::new(On::Sqlite);
    let ((sender, mut received), gate) = (events(), Arc::new(Semaphore::new(0)));
    let running = Started::new(bench.worker().with(sender).with(gate.clone()).handle(working));
    let jobs = bench.client.submit_all([greet("a"), greet("b")]).await.unwrap();
    received.expect("started").await;
    received.expect("started").await;
    let intruder = intruder(&bench);
    intruder.execute_batch(leave).unwrap();
    gate.add_permits(2);
    received.expect("done").await;
    received.expect("done").await;
    // The outcomes are in front of this in the line of those who want to write.
    let blocked = bench.client.submit(greet("c"));
    let early = tokio::time::timeout(Duration::from_millis(200), async { blocked.await }).await;
    assert!(early.is_err() || early.unwrap().is_err(), "the database is away");
    intruder.execute_batch(come_back).unwrap();
    for job in &jobs {
        assert_eq!(within(PROMPTLY, job.result(PROMPTLY)).await.unwrap(), "1");
        assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Completed]);
    }
    gate.add_permits(1);
    running.stop().await;
    bench.verify().await;
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn an_outcome_outlives_a_locked_database() {
    ends_while_the_database_is_away("BEGIN IMMEDIATE", "COMMIT").await;
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn an_outcome_outlives_a_database_that_refuses() {
    let (leave, come_back) = ("ALTER TABLE hot RENAME TO away", "ALTER TABLE away RENAME TO hot");
    ends_while_the_database_is_away(leave, come_back).await;
}

/// Model: leases-and-heartbeats, wake-ups. Two processes on one file must not wake each other with every beat, yet no lease may run out.
#[tokio::test]
async fn a_lease_that_is_fresh_is_not_written_again() {
    for on in [On::Memory, On::Sqlite] {
        let t = Fixture::new(on);
        for (lease, fresh, old) in [(secs(300), 999, 1_000), (secs(1), 99, 100)] {
            let mut job = crate::fixture::new_job("email.send");
            job.lease_timeout = Some(lease);
            let (worker, claimed) = t.running(job).await;
            let beat = || async {
                let beat = HeartbeatItem::new(claimed.job.id, claimed.job.fence);
                let reply = t.store.heartbeat(&t.me, worker, vec![beat]).await.unwrap();
                assert_eq!(reply.directives, [(claimed.job.id, Directive::Continue)]);
                t.get(claimed.job.id).await.job.lease.unwrap().expires_at
            };
            let begun = t.now();
            t.advance(Duration::from_millis(fresh));
            assert_eq!(beat().await, begun.plus(lease));
            t.advance(Duration::from_millis(old - fresh));
            assert_eq!(beat().await, t.now().plus(lease));
            t.complete(worker, &claimed).await;
        }
        t.verify().await;
        t.store.close();
    }
}
