//! Pauses: the gate, tenants, types, queues and workers; who, since when, why and until when.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::ActionError;
use windlass::job::{Failure, JobId, JobState, NewJob, WorkerId};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ClaimRequest, Directive, Finish, HeartbeatItem, NewWorker, Pause, PauseMode, PauseTarget,
};

use crate::fixture::{Fixture, job_type, just_before, new_job, queue, tenant};

tests!(
    pauses, pauses:
    a_closed_gate_lets_nothing_start_and_running_work_continue,
    a_pause_holds_its_own_jobs_and_no_others,
    a_pause_says_who_when_why_and_until_when,
    every_pause_is_named_at_once,
    a_pause_ends_automatically,
    pausing_twice_changes_nothing,
    an_aggressive_pause_follows_a_graceful_one,
    resuming_what_is_not_paused_changes_nothing,
    resuming_a_pause_that_has_ended_changes_nothing,
    a_reason_has_a_longest_length,
    an_operators_pause_counts_for_the_own_tenant,
    an_operator_pauses_workers_of_the_own_tenant_only,
    a_resumed_job_in_a_paused_queue_is_scheduled_and_not_claimed,
    an_aggressive_queue_pause_suspends_what_runs,
    a_graceful_queue_pause_lets_running_jobs_end,
    a_paused_worker_gets_nothing_and_finishes_what_it_has,
    an_aggressive_worker_pause_releases_what_it_has,
);

const MINUTE: Duration = Duration::from_secs(60);

async fn pause(t: &Fixture, target: PauseTarget, pause: Pause) -> bool {
    t.store.pause(&t.me, target, pause).await.expect("an admin may pause anything")
}

async fn resume(t: &Fixture, target: PauseTarget) -> bool {
    t.store.resume(&t.me, target, None).await.expect("an admin may resume anything")
}

fn aggressive() -> Pause {
    Pause { mode: PauseMode::Aggressive, ..Pause::default() }
}

/// Jobs of two queues, two types and two tenants.
async fn eight_jobs(t: &Fixture) -> Vec<JobId> {
    let mut all = Vec::new();
    for n in 0..8 {
        let job = NewJob {
            queue: queue(["mail", "slow"][n & 1]),
            tenant: Some(tenant(["default", "acme"][(n >> 2) & 1])),
            ..new_job(["send", "report"][(n >> 1) & 1])
        };
        all.push(t.submit(job).await.id);
    }
    all
}

/// Model: processing-on-and-off, pause-reason-and-expiry
async fn a_closed_gate_lets_nothing_start_and_running_work_continue(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let waiting = t.submit(new_job("email.send")).await.id;
    assert!(
        pause(t, PauseTarget::Gate, aggressive()).await,
        "the gate interrupts nothing, whatever the mode"
    );
    assert!(t.claim(worker, 10).await.is_empty());
    let other = t.worker().await;
    assert!(t.claim(other, 10).await.is_empty());
    let reply = t
        .store
        .heartbeat(&t.me, worker, vec![HeartbeatItem::new(claimed.job.id, claimed.job.fence)])
        .await
        .unwrap();
    assert_eq!(reply.directives, [(claimed.job.id, Directive::Continue)]);
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
    assert_eq!(t.submit(new_job("email.send")).await.state, JobState::Scheduled, "submissions are taken");
    assert!(resume(t, PauseTarget::Gate).await);
    assert_eq!(t.claim_one(worker).await.job.id, waiting);
}

/// Whether a pause holds the job at this place.
type IsHeld = fn(usize) -> bool;

/// Model: queue-pause, processing-on-and-off, pause-reason-and-expiry
async fn a_pause_holds_its_own_jobs_and_no_others(t: &Fixture) {
    let all = eight_jobs(t).await;
    let targets: [(PauseTarget, IsHeld); 4] = [
        (PauseTarget::Queue(queue("mail")), |n| n & 1 == 0),
        (PauseTarget::Type(job_type("send")), |n| n & 2 == 0),
        (PauseTarget::Tenant(tenant("acme")), |n| n & 4 != 0),
        (PauseTarget::Gate, |_| true),
    ];
    for (target, is_held) in targets {
        let worker = t.worker().await;
        pause(t, target.clone(), Pause::default()).await;
        let open: Vec<JobId> = (0..8).filter(|n| !is_held(*n)).map(|n| all[n]).collect();
        assert_eq!(t.claim_ids(worker, 10).await, open, "under {target:?}");
        for (n, id) in all.iter().enumerate().filter(|(n, _)| is_held(*n)) {
            let why = t.get(*id).await.why.unwrap_or_else(|| panic!("job {n} says why it waits"));
            assert!(["queue_paused", "gate_closed"].contains(&why.code), "{why:?}");
        }
        resume(t, target).await;
        // Leaving gives the jobs back as they were.
        t.store.deregister(&t.me, worker).await.unwrap();
    }
    let worker = t.worker().await;
    assert_eq!(t.claim_ids(worker, 10).await, all);
}

/// Model: queue-pause, pause-reason-and-expiry, explained-waiting
async fn a_pause_says_who_when_why_and_until_when(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await.id;
    let since = t.now();
    let how = Pause { reason: Some("rotating keys".into()), expires: Some(MINUTE), ..Pause::default() };
    pause(t, PauseTarget::Queue(queue("default")), how).await;
    t.advance(Duration::from_secs(1));
    let config = t.store.config(&t.me).await.unwrap();
    let hold = config.pauses.values().next().expect("it is stored");
    assert_eq!((hold.by.as_str(), hold.since), ("local", since));
    assert_eq!((hold.reason.as_deref(), hold.expires_at), (Some("rotating keys"), Some(since.plus(MINUTE))));
    let reasons = t.store.explain(&t.me, job).await.unwrap().unwrap();
    let details = &reasons[0].details;
    assert_eq!(
        (reasons[0].code, &details["by"], &details["reason"]),
        ("queue_paused", &"local".into(), &"rotating keys".into())
    );
    assert_eq!(details["since"], since.to_string());
    assert_eq!(details["expires_at"], since.plus(MINUTE).to_string());
}

/// Model: explained-waiting
async fn every_pause_is_named_at_once(t: &Fixture) {
    let job = t.submit(NewJob { delay: Some(MINUTE), ..new_job("email.send") }).await.id;
    for target in
        [PauseTarget::Gate, PauseTarget::Queue(queue("default")), PauseTarget::Type(job_type("email.send"))]
    {
        pause(t, target, Pause::default()).await;
    }
    let reasons = t.store.explain(&t.me, job).await.unwrap().unwrap();
    let mut codes: Vec<&str> = reasons.iter().map(|reason| reason.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["gate_closed", "gate_closed", "no_worker", "not_due", "queue_paused"]);
}

/// Model: timer-precision, pause-reason-and-expiry
async fn a_pause_ends_automatically(t: &Fixture) {
    let worker = t.worker().await;
    let targets = [
        PauseTarget::Gate,
        PauseTarget::Tenant(tenant("default")),
        PauseTarget::Type(job_type("email.send")),
        PauseTarget::Queue(queue("default")),
        PauseTarget::Worker(worker),
    ];
    for (n, target) in targets.into_iter().enumerate() {
        let job = t.submit(new_job("email.send")).await.id;
        pause(t, target.clone(), Pause { expires: Some(MINUTE / 4), ..Pause::default() }).await;
        t.advance(just_before(MINUTE / 4));
        t.tick().await;
        assert!(t.claim(worker, 1).await.is_empty(), "still held by {target:?}");
        t.advance(Duration::from_millis(1));
        assert_eq!(t.claim_ids(worker, 1).await, [job], "not held any more, though no maintenance ran");
        t.tick().await;
        assert!(t.store.config(&t.me).await.unwrap().pauses.is_empty());
        let records = t.everything().await.records;
        assert_eq!(records.len(), 2 * (n + 1), "one record of its beginning, one of its end");
        assert_eq!(records.last().unwrap().actor_type, "system");
    }
}

/// Model: refused-changes, pause-reason-and-expiry
async fn pausing_twice_changes_nothing(t: &Fixture) {
    let worker = t.worker().await;
    let first = Pause { reason: Some("first".into()), ..Pause::default() };
    for target in [PauseTarget::Gate, PauseTarget::Queue(queue("mail")), PauseTarget::Worker(worker)] {
        assert!(pause(t, target.clone(), first.clone()).await);
        let (before, config) = (t.everything().await, t.store.config(&t.me).await.unwrap());
        assert!(!pause(t, target, Pause { reason: Some("second".into()), ..Pause::default() }).await);
        assert_eq!(t.everything().await, before);
        assert_eq!(t.store.config(&t.me).await.unwrap(), config);
    }
}

/// Model: queue-pause, worker-pause. As a suspension of one job does; the reverse changes nothing.
async fn an_aggressive_pause_follows_a_graceful_one(t: &Fixture) {
    for on_worker in [false, true] {
        let (worker, claimed) = t.running(new_job("email.send")).await;
        let target =
            if on_worker { PauseTarget::Worker(worker) } else { PauseTarget::Queue(queue("default")) };
        let first = Pause { reason: Some("first".into()), expires: Some(MINUTE), ..Pause::default() };
        assert!(pause(t, target.clone(), first).await);
        let records = t.records(RecordQuery::default()).await.len();
        assert!(pause(t, target.clone(), aggressive()).await, "{target}");
        let stopped = if on_worker { JobState::Retrying } else { JobState::Suspended };
        assert_eq!(t.state(claimed.job.id).await, stopped);
        assert_eq!(t.complete(worker, &claimed).await, Finish::Stale, "the lease was cut");
        let config = t.store.config(&t.me).await.unwrap();
        let hold = config.pauses.values().next().expect("it is paused").clone();
        assert_eq!((hold.mode, hold.reason.as_deref()), (PauseMode::Aggressive, Some("first")));
        assert_eq!(hold.expires_at, Some(t.now().plus(MINUTE)), "the end stays");
        let expected = if on_worker { AuditEvent::WorkerPaused } else { AuditEvent::QueuePaused };
        let added = t.records(RecordQuery::default()).await.split_off(records);
        let paused = added.iter().find(|record| record.event == expected).expect("it is recorded");
        assert!(paused.context.contains("aggressive"), "{}", paused.context);
        let before = t.everything().await;
        for again in [aggressive(), Pause::default()] {
            assert!(!pause(t, target.clone(), again).await, "{target}");
        }
        assert_eq!(t.everything().await, before);
        resume(t, target).await;
        t.cancel(claimed.job.id).await;
    }
    // A gate stops nothing, whatever its mode.
    assert!(pause(t, PauseTarget::Gate, Pause::default()).await);
    assert!(!pause(t, PauseTarget::Gate, aggressive()).await);
}

/// Model: refused-changes
async fn resuming_what_is_not_paused_changes_nothing(t: &Fixture) {
    for target in [PauseTarget::Gate, PauseTarget::Tenant(tenant("acme")), PauseTarget::Queue(queue("mail"))]
    {
        assert!(!resume(t, target).await);
    }
    assert!(t.everything().await.records.is_empty());
}

/// Model: refused-changes, pause-reason-and-expiry, audit-trail
async fn resuming_a_pause_that_has_ended_changes_nothing(t: &Fixture) {
    let mail = PauseTarget::Queue(queue("mail"));
    for again in [false, true] {
        pause(t, mail.clone(), Pause { expires: Some(MINUTE), ..Pause::default() }).await;
        t.advance(MINUTE);
        if again {
            assert!(pause(t, mail.clone(), Pause::default()).await, "a new pause, not the old one");
            assert!(resume(t, mail.clone()).await);
        } else {
            assert!(!resume(t, mail.clone()).await);
        }
    }
    let recorded: Vec<_> =
        t.everything().await.records.into_iter().map(|r| (r.event, r.actor_type)).collect();
    let expected: Vec<_> = [
        (AuditEvent::QueuePaused, "user"),
        (AuditEvent::QueueResumed, "system"),
        (AuditEvent::QueuePaused, "user"),
        (AuditEvent::QueueResumed, "system"),
        (AuditEvent::QueuePaused, "user"),
        (AuditEvent::QueueResumed, "user"),
    ]
    .map(|(event, by)| (event, by.to_owned()))
    .into();
    assert_eq!(recorded, expected);
}

/// Model: refused-changes, pause-reason-and-expiry
async fn a_reason_has_a_longest_length(t: &Fixture) {
    let how = |length: usize| Pause { reason: Some("ü".repeat(length)), ..Pause::default() };
    assert!(pause(t, PauseTarget::Gate, how(1_024)).await);
    let before = t.everything().await;
    let error = t.store.pause(&t.me, PauseTarget::Queue(queue("mail")), how(1_025)).await.unwrap_err();
    assert!(matches!(error, ActionError::Invalid(_)), "{error}");
    let error = t.store.resume(&t.me, PauseTarget::Gate, Some("x".repeat(1_025))).await.unwrap_err();
    assert!(matches!(error, ActionError::Invalid(_)), "{error}");
    assert_eq!(t.everything().await, before);
    assert_eq!(t.store.config(&t.me).await.unwrap().pauses.len(), 1);
}

/// Model: tenant-isolation, roles
async fn an_operators_pause_counts_for_the_own_tenant(t: &Fixture) {
    let all = eight_jobs(t).await;
    let operator = Caller::new("ops", Role::Operator, Some(tenant("acme")));
    for target in [PauseTarget::Queue(queue("mail")), PauseTarget::Type(job_type("send"))] {
        assert!(t.store.pause(&operator, target, Pause::default()).await.unwrap());
    }
    for target in [PauseTarget::Gate, PauseTarget::Tenant(tenant("acme"))] {
        let error = t.store.pause(&operator, target, Pause::default()).await.unwrap_err();
        assert!(matches!(error, ActionError::Forbidden(_)), "{error}");
    }
    let worker = t.worker().await;
    let open = [0, 1, 2, 3, 7].map(|n| all[n]);
    assert_eq!(t.claim_ids(worker, 10).await, open);
    assert!(!resume(t, PauseTarget::Queue(queue("mail"))).await, "the queue of all tenants was not paused");
    for role in [Role::Viewer, Role::Submitter, Role::Worker] {
        let caller = Caller::new("another", role, Some(tenant("acme")));
        let error = t.store.resume(&caller, PauseTarget::Queue(queue("mail")), None).await.unwrap_err();
        assert!(matches!(error, ActionError::Forbidden(_)), "{error}");
    }
    assert_eq!(t.store.config(&t.me).await.unwrap().pauses.len(), 2);
}

/// Model: worker-pause, tenant-isolation
async fn an_operator_pauses_workers_of_the_own_tenant_only(t: &Fixture) {
    let operator = Caller::new("ops", Role::Operator, Some(tenant("acme")));
    let register = async |caller: &Caller| t.store.register(caller, NewWorker::default()).await.unwrap().id;
    let own = register(&operator).await;
    let theirs = register(&Caller::new("w", Role::Worker, Some(tenant("umbrella")))).await;
    let refused =
        async |worker| t.store.pause(&operator, PauseTarget::Worker(worker), aggressive()).await.unwrap_err();
    for worker in [theirs, WorkerId::new(7)] {
        assert_eq!(refused(worker).await, ActionError::NoSuchWorker(worker));
    }
    let error = refused(t.worker().await).await;
    assert!(matches!(error, ActionError::Forbidden(_)), "{error}");
    assert!(t.store.config(&t.me).await.unwrap().pauses.is_empty());
    assert!(t.store.pause(&operator, PauseTarget::Worker(own), Pause::default()).await.unwrap());
    assert!(t.store.resume(&operator, PauseTarget::Worker(own), None).await.unwrap());
}

/// Model: queue-pause
async fn a_resumed_job_in_a_paused_queue_is_scheduled_and_not_claimed(t: &Fixture) {
    let worker = t.worker().await;
    let job = t.submit(new_job("email.send")).await.id;
    t.suspend(job).await;
    pause(t, PauseTarget::Queue(queue("default")), Pause::default()).await;
    assert_eq!(t.resume(job).await.job.state, JobState::Scheduled);
    assert!(t.claim(worker, 1).await.is_empty());
    resume(t, PauseTarget::Queue(queue("default"))).await;
    assert_eq!(t.claim_one(worker).await.job.id, job);
}

/// Model: counters-and-fences, queue-pause
async fn an_aggressive_queue_pause_suspends_what_runs(t: &Fixture) {
    let worker = t.worker().await;
    let (mail, other) = (NewJob { queue: queue("mail"), ..new_job("send") }, new_job("send"));
    t.submit_all(vec![mail.clone(), mail.clone(), other]).await;
    let claimed = t.claim(worker, 3).await;
    let waiting = t.submit(mail).await.id;
    let how = Pause { reason: Some("fire".into()), expires: Some(MINUTE), ..aggressive() };
    pause(t, PauseTarget::Queue(queue("mail")), how).await;
    for claimed in &claimed[..2] {
        let job = t.get(claimed.job.id).await.job;
        assert_eq!((job.state, job.failures, job.attempt), (JobState::Suspended, 0, 1));
        assert_eq!(job.details.suspension.as_ref().unwrap().reason.as_deref(), Some("fire"));
        assert_eq!(t.complete(worker, claimed).await, Finish::Stale, "the lease was cut");
    }
    assert_eq!(t.state(waiting).await, JobState::Scheduled, "only what runs is suspended");
    assert_eq!(t.complete(worker, &claimed[2]).await, Finish::Applied(JobState::Completed));
    t.advance(MINUTE);
    t.tick().await;
    let expected = [claimed[0].job.id, claimed[1].job.id, waiting];
    assert_eq!(t.claim_ids(worker, 3).await, expected, "the pause and its suspensions end automatically");
}

/// Model: queue-pause
async fn a_graceful_queue_pause_lets_running_jobs_end(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    pause(t, PauseTarget::Queue(queue("default")), Pause::default()).await;
    assert_eq!(t.state(claimed.job.id).await, JobState::Running);
    let failed = t.fail(worker, &claimed, Failure::temporary("again")).await;
    assert_eq!(failed, Finish::Applied(JobState::Retrying));
    t.advance(MINUTE);
    assert!(t.claim(worker, 1).await.is_empty(), "but a retry does not start");
}

/// Model: worker-pause
async fn a_paused_worker_gets_nothing_and_finishes_what_it_has(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let other = t.worker().await;
    let waiting = t.submit(new_job("email.send")).await.id;
    pause(t, PauseTarget::Worker(worker), Pause::default()).await;
    let answer = t.store.claim(&t.me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap();
    assert!(answer.jobs.is_empty() && answer.is_paused);
    let reply = t
        .store
        .heartbeat(&t.me, worker, vec![HeartbeatItem::new(claimed.job.id, claimed.job.fence)])
        .await
        .unwrap();
    assert_eq!(reply.directives, [(claimed.job.id, Directive::Continue)]);
    assert_eq!(reply.paused, Some(PauseMode::Graceful));
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
    assert_eq!(t.claim_ids(other, 1).await, [waiting], "others are not concerned");
    resume(t, PauseTarget::Worker(worker)).await;
    let answer = t.store.claim(&t.me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap();
    assert!(!answer.is_paused);
}

/// Model: crashes-and-poison, worker-pause
async fn an_aggressive_worker_pause_releases_what_it_has(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let other = t.worker().await;
    pause(t, PauseTarget::Worker(worker), aggressive()).await;
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.state, job.failures, job.crashes), (JobState::Retrying, 0, 0));
    let reply = t
        .store
        .heartbeat(&t.me, worker, vec![HeartbeatItem::new(claimed.job.id, claimed.job.fence)])
        .await
        .unwrap();
    assert_eq!(reply.directives, [(claimed.job.id, Directive::Lost)]);
    assert_eq!(reply.paused, Some(PauseMode::Aggressive));
    assert_eq!(t.complete(worker, &claimed).await, Finish::Stale);
    let again = t.claim_one(other).await;
    assert_eq!((again.job.id, again.job.attempt), (claimed.job.id, 2), "at once, without a backoff");
}
