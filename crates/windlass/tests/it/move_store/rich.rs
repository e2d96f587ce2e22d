//! A store with some of everything in it, moved to and fro: every question is answered as before, and every worker continues.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use windlass::clock::{SharedGrace, SystemClock};
use windlass::job::{
    Dependency, Failure, GroupStrategy, JobId, NewJob, Payload, ScheduleName, WorkerId, WorkerVersion,
};
use windlass::schedule::ScheduleSpec;
use windlass::settings::{BudgetPeriod, QueueSettings, Rate, TenantSettings, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionRequest, AttemptWrite, ClaimRequest, ClaimedJob, Finish, ListRequest, NewGroup, NewKey,
    NewSchedule, NewWorker, Outcome, Park, Pause, PauseTarget, Redrive, Report, Settings, Store,
    StoreOptions, SubmitOptions, Suspend, TicketOptions,
};
use windlass::ticket::TicketKey;

use super::moved;
use crate::fixture::{On, job_type, lease_ref, new_job, queue, secs, tenant};

/// What the ones who use the store know of it.
pub(super) struct Known {
    /// A job that was deleted, and whose idempotency key is still in force.
    gone: windlass::job::JobId,
    secret: String,
    worker: WorkerId,
    /// A job that runs.
    held: ClaimedJob,
    /// A job that waits for a signal.
    parked: JobId,
}

pub(super) fn open(address: &str) -> Store {
    let tickets = Some(TicketOptions::new(TicketKey::new([7, 7])));
    Store::open(address, StoreOptions { tickets, ..StoreOptions::default() }).expect("the store opens")
}

async fn submit(store: &Store, job: NewJob) -> JobId {
    store.submit(&Caller::local(), vec![job], SubmitOptions::default()).await.unwrap().remove(0).job.id
}

async fn claim(store: &Store, worker: WorkerId) -> ClaimedJob {
    let request = ClaimRequest::new(worker, 1);
    store.claim(&Caller::local(), &request, Duration::ZERO).await.unwrap().jobs.remove(0)
}

async fn finish(store: &Store, worker: WorkerId, claimed: &ClaimedJob, outcome: Outcome) -> Finish {
    let report = Report { cost_cents: 3, ..Report::new(claimed.job.id, claimed.job.fence, outcome) };
    store.finish(&Caller::local(), worker, vec![report]).await.unwrap().remove(0)
}

/// Settings, pauses, keys, schedules, secrets.
async fn configure(store: &Store) -> String {
    let me = Caller::local();
    let rate = Some(Rate { count: 1_000, per: secs(3600) });
    let mail = QueueSettings {
        rate,
        max_running_per_key: Some(1),
        max_depth: Some(10_000),
        ..QueueSettings::default()
    };
    let acme = TenantSettings {
        budget_cents: Some(9_999),
        budget_period: Some(BudgetPeriod::Month),
        ..TenantSettings::default()
    };
    let type_settings = TypeSettings {
        max_running: Some(50),
        result_schema: Some(serde_json::json!({"not": {"type": "boolean"}}).into()),
        ..TypeSettings::default()
    };
    for settings in [
        Settings::Queue(queue("mail"), mail),
        Settings::Tenant(tenant("acme"), acme),
        Settings::Type(job_type("report"), type_settings),
    ] {
        store.configure(&me, settings).await.unwrap();
    }
    let pause = Pause { reason: Some("repairs ✓".into()), expires: Some(secs(86_400)), ..Pause::default() };
    store.pause(&me, PauseTarget::Queue(queue("slow")), pause.clone()).await.unwrap();
    store.pause(&me, PauseTarget::Tenant(tenant("zoo")), pause).await.unwrap();
    let schedule = NewSchedule::new(ScheduleSpec::Every(secs(3600)), new_job("report"));
    store.put_schedule(&me, ScheduleName::new("hourly").unwrap(), schedule).await.unwrap();
    store.webhook_secrets(&me, None).await.unwrap();
    let key = NewKey { tenant: Some(tenant("acme")), ..NewKey::new("billing", Role::Operator) };
    store.create_key(&me, key).await.unwrap().secret.reveal().to_owned()
}

/// Jobs in many states, with all kinds of data.
async fn work(store: &Store, worker: WorkerId) -> (ClaimedJob, JobId) {
    let me = Caller::local();
    let first =
        submit(store, NewJob { idempotency_key: Some("order 17 ✓".into()), ..new_job("first") }).await;
    let claimed = claim(store, worker).await;
    assert_eq!(claimed.job.id, first);
    let notes = vec![
        AttemptWrite::Checkpoint { step: "rows ✓".into(), value: b"17".to_vec() },
        AttemptWrite::Logs((0..9).map(|line| format!("line {line}")).collect()),
        AttemptWrite::Stream { offset: Some(0), chunks: vec![b"\"Once\"".to_vec(), b"{\"a\": 1}".to_vec()] },
    ];
    store.record(&me, lease_ref(&claimed), notes).await.unwrap();
    finish(store, worker, &claimed, Outcome::Failed(Failure::temporary("busy"))).await;
    store.act(&me, first, ActionRequest::Suspend(Suspend::default())).await.unwrap();
    let parent = submit(store, new_job("parent")).await;
    let claimed = claim(store, worker).await;
    let jobs = (0..3).map(|_| new_job("child")).collect();
    let group = NewGroup { name: "children".into(), strategy: GroupStrategy::CollectAll, jobs };
    store.spawn(&me, lease_ref(&claimed), group).await.unwrap();
    let child = claim(store, worker).await;
    finish(store, worker, &child, Outcome::Completed { result: Some(br#"{"a": 1}"#.to_vec()) }).await;
    let child = claim(store, worker).await;
    finish(store, worker, &child, Outcome::Failed(Failure::permanent("bad", "no such thing"))).await;
    store.redrive(&me, child.job.id, Redrive::default()).await.unwrap();
    let after = vec![Dependency::Job(parent), Dependency::Job(first)];
    submit(store, NewJob { after: after.clone(), after_any: after[..1].to_vec(), ..new_job("late") }).await;
    submit(store, NewJob { priority: Some(windlass::job::Priority::CRITICAL), ..new_job("parked") }).await;
    let parked = claim(store, worker).await;
    let park = Park::Signal { name: "paid".into(), step: None, timeout: Some(secs(9_000)) };
    finish(store, worker, &parked, Outcome::Parked(park)).await;
    store.signal(&me, parent, "early", b"1".to_vec()).await.unwrap();
    let keyed = |text: &str| NewJob {
        priority: Some(windlass::job::Priority::CRITICAL),
        queue: queue("mail"),
        concurrency_key: Some("user 1".into()),
        unique_key: Some(text.into()),
        ..new_job("email.send")
    };
    submit(store, keyed("one")).await;
    submit(store, keyed("two")).await;
    let held = claim(store, worker).await;
    assert!(claimed_nothing_of_that_key(store, worker).await);
    (held, parked.job.id)
}

async fn claimed_nothing_of_that_key(store: &Store, worker: WorkerId) -> bool {
    let request = ClaimRequest::new(worker, 1);
    let found = store.claim(&Caller::local(), &request, Duration::ZERO).await.unwrap().jobs;
    let others = found.iter().filter(|claimed| claimed.job.concurrency.is_some()).count();
    for claimed in &found {
        finish(store, worker, claimed, Outcome::Released).await;
    }
    others == 0
}

/// Fills a new store with some of everything.
pub(super) async fn fill(address: &str) -> Known {
    let store = open(address);
    let me = Caller::local();
    let secret = configure(&store).await;
    let new = NewWorker { heartbeats: false, ..NewWorker::default() };
    let worker = store.register(&me, new).await.unwrap().id;
    let (held, parked) = work(&store, worker).await;
    for number in 0..40_u32 {
        let mut job = NewJob {
            tenant: (number % 3 == 0).then(|| tenant("acme")),
            delay: (number % 4 == 0).then(|| secs(7_200)),
            hold: number % 7 == 0,
            requires_version: (number % 7 == 0).then(|| WorkerVersion::new("1.4.2").unwrap()),
            queue: queue(if number % 5 == 0 { "slow" } else { "default" }),
            ..NewJob::new(job_type("report"), Payload::bytes(vec![0, 255, 10], "application/x-thing"))
        };
        job.metadata.tags.insert("customer".into(), format!("{}", number % 6));
        job.metadata.correlation_id = Some(format!("order {number}"));
        submit(&store, job).await;
    }
    let month = Some(secs(30 * 86_400));
    let gone = NewJob { idempotency_key: Some("gone".into()), idempotency_window: month, ..new_job("gone") };
    let gone = submit(&store, gone).await;
    store.act(&me, gone, ActionRequest::Cancel { reason: None }).await.unwrap();
    store.delete(&me, gone).await.unwrap();
    store.tick().await.unwrap();
    store.seal().await.unwrap();
    store.close();
    Known { gone, secret, worker, held, parked }
}

fn text(answer: impl Debug) -> String {
    format!("{answer:?}")
}

/// Everything that can be asked of a store, as it is answered.
async fn answers(address: &str) -> Vec<String> {
    let (store, me) = (open(address), Caller::local());
    let request = ListRequest { limit: 500, ..ListRequest::default() };
    let jobs = store.list(&me, request).await.unwrap().jobs;
    let mut config = store.config(&me).await.unwrap();
    // Each store has its own.
    config.grace = SharedGrace::default();
    let mut answers = vec![
        text(config),
        text(store.queues(&me).await),
        text(store.job_types(&me).await),
        text(store.keys(&me).await),
        text(store.schedules(&me).await),
        text(store.webhook_secrets(&me, None).await),
        text(store.stats(&me).await.map(|stats| (stats.states, stats.queues))),
        text(store.audit(&me, RecordQuery { limit: 1_000, ..RecordQuery::default() }).await),
        text(store.verify_audit().await),
        text(&jobs),
    ];
    for found in &jobs {
        let id = found.job.id;
        answers.push(text(store.get(&me, id).await));
        answers.push(text(store.attempts(&me, id).await));
        answers.push(text(store.checkpoints(&me, id).await));
        answers.push(text(store.logs(&me, id, 1).await));
        answers.push(text(store.stream(&me, id, 0, 10, Duration::ZERO).await));
        answers.push(text(store.result(&me, id).await));
        answers.push(text(store.groups(&me, id).await));
        answers.push(text(store.neighbours(&me, id).await));
    }
    store.close();
    answers
}

/// Model: counters-and-fences, idempotency-key, sleeps-and-signals, audit-chain, one-lease-at-a-time. Everything continues where it was.
#[tokio::test]
async fn a_rich_store_answers_as_before_wherever_it_was_moved() {
    let ((_one, first), (_, second), (_other, third)) =
        (On::Sqlite.address(), On::Postgres.address(), On::Sqlite.address());
    let known = fill(&first).await;
    let before = answers(&first).await;
    let there = moved(&first, &second, Arc::new(SystemClock::new()), 7).await.unwrap();
    assert_eq!(there.leases, 1);
    assert!(there.parts.iter().all(|part| part.rows > 0), "there was some of everything: {:?}", there.parts);
    for (one, other) in before.iter().zip(answers(&second).await) {
        assert_eq!(*one, other);
    }
    let back = moved(&second, &third, Arc::new(SystemClock::new()), 1_000).await.unwrap();
    assert_eq!(there.parts, back.parts);
    assert_eq!(before, answers(&third).await);
    continue_run(&third, known).await;
}

async fn continue_run(address: &str, known: Known) {
    let (store, me) = (open(address), Caller::local());
    assert!(store.authenticate(&known.secret).await.unwrap().is_some(), "keys are still valid");
    let again = NewJob { idempotency_key: Some("order 17 ✓".into()), ..new_job("first") };
    let receipt = store.submit(&me, vec![again], SubmitOptions::default()).await.unwrap().remove(0);
    assert!(receipt.is_duplicate, "keys are still remembered");
    let again = NewJob { idempotency_key: Some("gone".into()), ..new_job("gone") };
    let receipt = store.submit(&me, vec![again], SubmitOptions::default()).await.unwrap().remove(0);
    assert_eq!((receipt.job.id, receipt.is_deleted, receipt.payload_differs), (known.gone, true, false));
    let taken = NewJob { queue: queue("mail"), unique_key: Some("one".into()), ..new_job("email.send") };
    assert!(store.submit(&me, vec![taken], SubmitOptions::default()).await.is_err(), "keys are still taken");
    assert!(claimed_nothing_of_that_key(&store, known.worker).await, "the key is still held");
    let stale = windlass::job::Fence(known.held.job.fence.0 - 1);
    let outcome = Outcome::Completed { result: None };
    let report = Report::new(known.held.job.id, stale, outcome.clone());
    let answer = store.finish(&me, known.worker, vec![report]).await.unwrap().remove(0);
    assert!(matches!(answer, Finish::Stale), "{answer:?}");
    let answer = finish(&store, known.worker, &known.held, outcome).await;
    assert!(matches!(answer, Finish::Applied(_)), "the lease is still held: {answer:?}");
    store.signal(&me, known.parked, "paid", b"1".to_vec()).await.unwrap();
    let next = claim(&store, known.worker).await;
    assert!(!next.job.id.to_string().is_empty());
    for result in store.verify().await.unwrap() {
        assert!(result.holds(), "{}: {:#?}", result.promise, result.findings);
    }
    store.close();
}
