//! Another tenant's job looks exactly like one that does not exist (Model: tenant-isolation).

use std::time::Duration;

use windlass::error::{ActionError, WorkError};
use windlass::job::{JobId, JobState, JobType, NewJob, Priority};
use windlass::settings::{QueueSettings, TenantSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionOptions, ActionRequest, AttemptWrite, BulkAction, BulkReport, ClaimRequest, Directive, Filter,
    Finish, HeartbeatItem, ListRequest, NewWorker, Outcome, Patch, Pause, PauseTarget, Redrive, Report,
    Settings, Stats, SubmitOptions, Suspend,
};

use crate::fixture::{Fixture, caller, lease_ref, new_job, queue, secs, tenant};

tests!(
    reads_tenants, reads::tenants:
    no_look_shows_another_tenants_job,
    no_action_reaches_another_tenants_job,
    no_worker_touches_another_tenants_job,
    a_pause_or_setting_counts_for_the_own_tenant_only,
    another_tenants_worker_cannot_be_paused,
    submitting_for_another_tenant_is_refused,
    a_tenants_settings_are_in_its_own_trail,
    a_pause_of_a_tenants_worker_is_in_its_own_trail,
);

fn blue() -> NewJob {
    NewJob { tenant: Some(tenant("blue")), ..new_job("report") }
}

fn stranger() -> Caller {
    caller("eve", Role::Operator, "red")
}

/// Model: tenant-isolation
async fn no_look_shows_another_tenants_job(t: &Fixture) {
    let (worker, claimed) = t.running(blue()).await;
    let report =
        Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: Some(b"1".to_vec()) });
    t.store.finish(&t.me, worker, vec![Report { cost_cents: 5, ..report }]).await.unwrap();
    t.advance(secs(1));
    t.submit(blue()).await;
    let eve = stranger();
    for id in [claimed.job.id, JobId::from_bytes([7; 16])] {
        assert_eq!(t.store.get(&eve, id).await.unwrap(), None);
        assert_eq!(t.store.wait(&eve, id, Duration::ZERO).await.unwrap(), None);
        assert_eq!(t.store.explain(&eve, id).await.unwrap(), None);
        assert_eq!(t.store.attempts(&eve, id).await.unwrap(), None);
        assert_eq!(t.store.checkpoints(&eve, id).await.unwrap(), None);
        assert_eq!(t.store.logs(&eve, id, 0).await.unwrap(), None);
        assert_eq!(t.store.result(&eve, id).await.unwrap(), None);
        assert_eq!(t.store.groups(&eve, id).await.unwrap(), None);
        assert_eq!(t.store.neighbours(&eve, id).await.unwrap(), None);
        let query = RecordQuery { job: Some(id), limit: 10, ..RecordQuery::default() };
        assert!(t.store.audit(&eve, query).await.unwrap().is_empty());
    }
    let theirs = Filter { tenant: Some(tenant("blue")), ..Filter::default() };
    for filter in [Filter::default(), theirs] {
        let page = t.store.list(&eve, ListRequest { filter, ..ListRequest::default() }).await.unwrap();
        assert!(page.jobs.is_empty());
    }
    assert_eq!(t.store.stats(&eve).await.unwrap(), Stats::default(), "no count, rate or cost");
    assert_eq!(t.store.oldest_ready(&eve, queue("default")).await.unwrap(), None);
    let own = t.store.stats(&caller("olga", Role::Viewer, "blue")).await.unwrap();
    assert_eq!(
        (own.states[&JobState::Completed], own.costs.len()),
        (1, 1),
        "a viewer of the tenant sees all of it"
    );
}

/// Model: tenant-isolation
async fn no_action_reaches_another_tenants_job(t: &Fixture) {
    let live = t.placed_as(JobState::Running, blue()).await.id;
    let ended = t.placed_as(JobState::Completed, blue()).await.id;
    let before = [t.picture(live).await, t.picture(ended).await];
    let eve = stranger();
    let acts = [
        ActionRequest::Submit,
        ActionRequest::Suspend(Suspend::default()),
        ActionRequest::Resume { reason: None },
        ActionRequest::Cancel { reason: None },
        ActionRequest::Priority(Priority::HIGH),
        ActionRequest::Patch(Patch::default()),
    ];
    for id in [live, ended, JobId::from_bytes([7; 16])] {
        for act in acts.clone() {
            assert_eq!(t.store.act(&eve, id, act.clone()).await, Err(ActionError::NotFound(id)));
            assert_eq!(
                t.store.act_with(&eve, id, act, ActionOptions::strict()).await,
                Err(ActionError::NotFound(id))
            );
        }
        assert_eq!(t.store.redrive(&eve, id, Redrive::default()).await, Err(ActionError::NotFound(id)));
        assert_eq!(t.store.delete(&eve, id).await, Err(ActionError::NotFound(id)));
        assert_eq!(t.store.signal(&eve, id, "go", Vec::new()).await, Err(ActionError::NotFound(id)));
    }
    let cancel = BulkAction::Act(ActionRequest::Cancel { reason: None });
    assert_eq!(t.store.bulk(&eve, &Filter::default(), cancel).await.unwrap(), BulkReport::default());
    assert_eq!([t.picture(live).await, t.picture(ended).await], before);
}

/// Model: tenant-isolation
async fn no_worker_touches_another_tenants_job(t: &Fixture) {
    let placed = t.placed_as(JobState::Running, blue()).await;
    let claimed = placed.claimed.unwrap();
    t.submit(blue()).await;
    let before = t.picture(placed.id).await;
    let robot = caller("robot", Role::Worker, "red");
    let own = t.store.register(&robot, NewWorker::default()).await.unwrap().id;
    let answer = t.store.claim(&robot, &ClaimRequest::new(own, 10), Duration::ZERO).await.unwrap();
    assert!(answer.jobs.is_empty());
    // Nor does it help to speak in the name of a worker that holds the job.
    let theirs = claimed.job.lease.unwrap().worker;
    let outcome = Outcome::Completed { result: None };
    let reports = || vec![Report::new(placed.id, claimed.job.fence, outcome.clone())];
    assert_eq!(t.store.finish(&robot, own, reports()).await.unwrap(), [Finish::Stale]);
    assert_eq!(t.store.finish(&robot, theirs, reports()).await, Err(WorkError::NoSuchWorker(theirs)));
    let beats = || vec![HeartbeatItem::new(placed.id, claimed.job.fence)];
    let reply = t.store.heartbeat(&robot, own, beats()).await.unwrap();
    assert_eq!(reply.directives, [(placed.id, Directive::Lost)]);
    assert_eq!(t.store.heartbeat(&robot, theirs, beats()).await, Err(WorkError::NoSuchWorker(theirs)));
    let note = vec![AttemptWrite::Logs(vec!["hello".into()])];
    let refused = t.store.record(&robot, lease_ref(&claimed), note).await;
    assert_eq!(refused, Err(WorkError::NoSuchJob(placed.id)));
    assert_eq!(t.store.deregister(&robot, theirs).await, Err(WorkError::NoSuchWorker(theirs)));
    assert_eq!(t.picture(placed.id).await, before);
}

/// Model: tenant-isolation
async fn a_pause_or_setting_counts_for_the_own_tenant_only(t: &Fixture) {
    let eve = stranger();
    let worker = t.worker().await;
    let own = t.submit(NewJob { tenant: Some(tenant("red")), ..new_job("report") }).await.id;
    let other = t.submit(blue()).await.id;
    t.store.pause(&eve, PauseTarget::Queue(queue("default")), Pause::default()).await.unwrap();
    t.store.pause(&eve, PauseTarget::Type(JobType::new("report").unwrap()), Pause::default()).await.unwrap();
    let claimed = t.claim(worker, 10).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [other]);
    assert_eq!(t.get(own).await.why.unwrap().code, "gate_closed");
    let none = QueueSettings { max_depth: Some(0), ..QueueSettings::default() };
    t.store.configure(&eve, Settings::Queue(queue("default"), none)).await.unwrap();
    t.submit(blue()).await;
    let refused = t.store.submit(&eve, vec![new_job("report")], SubmitOptions::default()).await;
    assert!(refused.is_err(), "the own tenant's queue is full");
    // What an admin says counts for all.
    t.store.pause(&t.me, PauseTarget::Queue(queue("default")), Pause::default()).await.unwrap();
    assert!(t.claim(worker, 10).await.is_empty());
}

/// Model: tenant-isolation, worker-pause
async fn another_tenants_worker_cannot_be_paused(t: &Fixture) {
    let robot = caller("robot", Role::Worker, "blue");
    let theirs = t.store.register(&robot, NewWorker::default()).await.unwrap().id;
    let everybodys = t.worker().await;
    let eve = stranger();
    for (worker, is_seen) in [(theirs, false), (everybodys, true)] {
        let check = |refused: Result<bool, ActionError>| match refused {
            Err(ActionError::NoSuchWorker(id)) => assert!(!is_seen && id == worker),
            Err(ActionError::Forbidden(_)) => assert!(is_seen),
            other => panic!("{other:?}"),
        };
        check(t.store.pause(&eve, PauseTarget::Worker(worker), Pause::default()).await);
        t.store.pause(&t.me, PauseTarget::Worker(worker), Pause::default()).await.unwrap();
        check(t.store.resume(&eve, PauseTarget::Worker(worker), None).await);
    }
    assert_eq!(t.store.config(&t.me).await.unwrap().pauses.len(), 2);
    let mine =
        t.store.register(&caller("robot", Role::Worker, "red"), NewWorker::default()).await.unwrap().id;
    assert!(t.store.pause(&eve, PauseTarget::Worker(mine), Pause::default()).await.unwrap());
}

/// Model: tenant-isolation, roles
async fn submitting_for_another_tenant_is_refused(t: &Fixture) {
    for role in [Role::Operator, Role::Submitter] {
        let who = caller("eve", role, "red");
        let refused = t.store.submit(&who, vec![blue()], SubmitOptions::default()).await;
        assert!(refused.unwrap_err().to_string().contains("may not"));
    }
    assert!(t.store.stats(&t.me).await.unwrap().states.is_empty());
}

async fn a_tenants_settings_are_in_its_own_trail(t: &Fixture) {
    let settings = TenantSettings { max_depth: Some(7), ..TenantSettings::default() };
    t.store.configure(&t.me, Settings::Tenant(tenant("blue"), settings)).await.unwrap();
    for (name, records) in [("blue", 1), ("default", 0), ("red", 0)] {
        let query = RecordQuery { limit: 10, ..RecordQuery::default() };
        let found = t.store.audit(&caller("ann", Role::Operator, name), query).await.unwrap();
        assert_eq!(found.len(), records, "{name}");
    }
}

/// Model: tenant-isolation
async fn a_pause_of_a_tenants_worker_is_in_its_own_trail(t: &Fixture) {
    let operator = caller("ann", Role::Operator, "blue");
    let worker = t.store.register(&operator, NewWorker::default()).await.unwrap().id;
    let short = Pause::default().reason("confidential").expires_in(secs(60));
    t.store.pause(&operator, PauseTarget::Worker(worker), short).await.unwrap();
    t.store.resume(&operator, PauseTarget::Worker(worker), Some("confidential".to_owned())).await.unwrap();
    // An admin's pause of the same worker concerns the same tenant.
    t.store.pause(&t.me, PauseTarget::Worker(worker), Pause::default()).await.unwrap();
    for (name, records) in [("blue", 3), ("default", 0), ("red", 0)] {
        let query = RecordQuery { limit: 10, ..RecordQuery::default() };
        let found = t.store.audit(&caller("vic", Role::Viewer, name), query).await.unwrap();
        assert_eq!(found.len(), records, "{name}");
    }
}
