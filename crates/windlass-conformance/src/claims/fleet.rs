//! Sixteen workers that come, die and come again, under every limit at once. Whether a limit was ever exceeded is read from
//! the leases themselves, afterwards; whether one was lost, from what can still run in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{Failure, JobState, NewJob};
use windlass::settings::{PartialTimeouts, QueueSettings, TenantSettings, TypeSettings};
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, ClaimedJob, NewWorker, Outcome, Report, Store};

use crate::claims::concurrency::submit_many;
use crate::fixture::{Everything, Fixture, new_job, queue, tenant};

tests!(claims_fleet, claims::fleet: no_limit_is_exceeded_at_any_instant_and_none_leaks);

const WORKERS: u64 = 16;
const JOBS: usize = 300;

/// Model: concurrency-limits
async fn no_limit_is_exceeded_at_any_instant_and_none_leaks(t: &Fixture) {
    let lease = PartialTimeouts { lease: Some(Duration::from_secs(2)), ..PartialTimeouts::default() };
    let mail = QueueSettings {
        max_running: Some(7),
        max_running_per_key: Some(2),
        timeouts: lease,
        ..QueueSettings::default()
    };
    t.set_queue("mail", mail).await;
    t.set_type("send", TypeSettings { max_running: Some(5), ..TypeSettings::default() }).await;
    t.set_tenant("acme", TenantSettings { max_running: Some(3), ..TenantSettings::default() }).await;
    let random = Entropy::seeded(7);
    t.submit_all((0..JOBS).map(|_| any_job(&random)).collect()).await;
    let fleet = (0..WORKERS)
        .map(|number| tokio::spawn(work(t.store.clone(), t.clock.clone(), Entropy::seeded(100 + number))));
    for worker in fleet.collect::<Vec<_>>() {
        worker.await.expect("a worker that was not meant to die lives");
    }
    never_exceeded(t, &t.everything().await).await;
    nothing_leaked(t).await;
}

fn pick(random: &Entropy, count: usize) -> usize {
    usize::try_from(random.bits() % count as u128).expect("smaller than the count")
}

fn any_job(random: &Entropy) -> NewJob {
    let mut job = new_job(["send", "read"][pick(random, 2)]);
    job.queue = queue(["mail", "mail", "default"][pick(random, 3)]);
    job.tenant = Some(tenant(["acme", "blue"][pick(random, 2)]));
    job.concurrency_key = [None, Some("a"), Some("b"), Some("c")][pick(random, 4)].map(str::to_owned);
    job.lease_timeout = Some(Duration::from_secs(2));
    job
}

/// Works until everything has ended; one claim in eight is never seen again.
async fn work(store: Store, clock: Arc<ManualClock>, random: Entropy) {
    let me = Caller::local();
    let register =
        async || store.register(&me, NewWorker { heartbeats: false, ..NewWorker::default() }).await;
    let mut worker = register().await.expect("any caller may register").id;
    loop {
        let request = ClaimRequest::new(worker, pick(&random, 4) + 1);
        let claimed = store.claim(&me, &request, Duration::ZERO).await.expect("the store answers").jobs;
        clock.advance(Duration::from_millis(pick(&random, 40) as u64));
        tokio::task::yield_now().await;
        if claimed.is_empty() {
            let states = store.stats(&me).await.expect("the store answers").states;
            if states.iter().all(|(state, count)| state.is_final() || *count == 0) {
                return;
            }
            clock.advance(Duration::from_millis(100));
            continue;
        }
        if pick(&random, 8) == 0 {
            worker = register().await.expect("any caller may register").id;
            continue;
        }
        let reports = claimed.iter().map(|claimed| report(&random, claimed)).collect();
        store.finish(&me, worker, reports).await.expect("the worker is known");
    }
}

fn report(random: &Entropy, claimed: &ClaimedJob) -> Report {
    let outcome = match pick(random, 8) {
        0 => Outcome::Failed(Failure::temporary("again")),
        1 => Outcome::Released,
        _ => Outcome::Completed { result: None },
    };
    Report::new(claimed.job.id, claimed.job.fence, outcome)
}

/// Holds every lease that ever was against the limits: at each instant, all that were held then.
async fn never_exceeded(t: &Fixture, all: &Everything) {
    // By what a limit counts for: when leases began (+1) and ended (-1).
    let mut turns: BTreeMap<(String, u64), Vec<(Timestamp, i64)>> = BTreeMap::new();
    for found in &all.jobs {
        let (lane, key) = (&found.job.lane, &found.spec.concurrency_key);
        let mut parts = Vec::new();
        let limits = [
            (lane.queue == queue("mail"), "queue mail".to_owned(), 7),
            (lane.job_type.as_str() == "send", "type send".to_owned(), 5),
            (lane.tenant == tenant("acme"), "tenant acme".to_owned(), 3),
        ];
        parts.extend(limits.into_iter().filter(|(fits, ..)| *fits).map(|(_, part, limit)| (part, limit)));
        // A key counts across queues: one allows two, the other one. Two is what must never be exceeded.
        parts.extend(key.iter().map(|key| (format!("key {} {key}", lane.tenant), 2)));
        for attempt in t.store.attempts(&t.me, found.job.id).await.unwrap().unwrap() {
            let lease = attempt.record.expect("nothing runs any more");
            for part in &parts {
                let turns = turns.entry(part.clone()).or_default();
                turns.extend([(lease.started_at, 1), (lease.ended_at, -1)]);
            }
        }
    }
    let mut seen = 0;
    for ((part, limit), mut turns) in turns {
        // At one instant, ends come before beginnings: that is how a place is passed on.
        turns.sort_unstable();
        let (mut held, mut most) = (0, 0);
        for (_, by) in turns {
            held += by;
            most = most.max(held);
        }
        let limit = i64::try_from(limit).expect("a small number");
        assert!(most <= limit, "{part}: {most} leases at once, the limit is {limit}");
        seen += usize::from(most == limit);
    }
    assert!(seen >= 3, "the limits were reached: full use was made of them");
}

/// After all the crashes exactly as much can run as the limits say.
async fn nothing_leaked(t: &Fixture) {
    let worker = t.worker().await;
    let mail = NewJob { queue: queue("mail"), tenant: Some(tenant("blue")), ..new_job("read") };
    submit_many(t, mail, 20).await;
    assert_eq!(t.claim(worker, 100).await.len(), 7);
    let theirs = NewJob { tenant: Some(tenant("acme")), ..new_job("read") };
    submit_many(t, theirs, 20).await;
    assert_eq!(t.claim(worker, 100).await.len(), 3);
    submit_many(t, NewJob { tenant: Some(tenant("blue")), ..new_job("send") }, 20).await;
    assert_eq!(t.claim(worker, 100).await.len(), 5);
    let states = t.store.stats(&t.me).await.unwrap().states;
    assert_eq!(states[&JobState::Running], 15);
}
