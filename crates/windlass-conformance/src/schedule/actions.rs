//! What people do to schedules, and who may.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::ScheduleError;
use windlass::job::{Dependency, JobId, JobState, NewJob, Payload};
use windlass::limits;
use windlass::schedule::{CatchUp, ScheduleSpec};
use windlass::store::caller::Role;
use windlass::store::engine::RecordQuery;
use windlass::store::{NewSchedule, PauseOptions, ScheduleRef};

use super::{cron, every, get, jobs, named, put};
use crate::fixture::{Fixture, caller, new_job, secs, tenant};

tests!(
    schedule_actions, schedule::actions:
    the_next_five_runs_are_shown,
    putting_the_same_changes_nothing,
    an_edit_keeps_the_past_and_counts_from_now,
    a_paused_schedule_leaves_its_runs_out_for_good,
    a_pause_ends_automatically,
    a_schedule_is_triggered_by_hand,
    a_deleted_schedule_runs_no_more,
    a_deleted_schedule_can_be_restored,
    only_the_latest_deleted_schedules_are_kept_and_not_for_ever,
    every_change_is_audited,
    tenants_do_not_see_each_others_schedules,
    only_operators_handle_schedules,
    a_schedule_that_is_not_allowed_is_refused,
);

/// Model: schedule-actions
async fn the_next_five_runs_are_shown(t: &Fixture) {
    put(t, "nightly", cron("0 2 * * *", "UTC")).await;
    let shown: Vec<String> = get(t, "nightly").await.next_runs().iter().map(ToString::to_string).collect();
    let expected = ["16", "17", "18", "19", "20"].map(|day| format!("2027-01-{day}T02:00:00.000Z"));
    assert_eq!(shown, expected);
}

/// Model: schedule-actions
async fn putting_the_same_changes_nothing(t: &Fixture) {
    let first = put(t, "often", every(60)).await;
    assert!(first.is_new && first.is_changed);
    t.advance(secs(30));
    let before = t.everything().await;
    let again = put(t, "often", every(60)).await;
    assert!(!again.is_new && !again.is_changed);
    assert_eq!((again.schedule, t.everything().await), (first.schedule, before));
}

/// Model: schedule-actions
async fn an_edit_keeps_the_past_and_counts_from_now(t: &Fixture) {
    let start = t.now();
    put(t, "often", every(60)).await;
    t.advance(secs(70));
    t.tick().await;
    let job = NewJob { queue: crate::fixture::queue("slow"), ..new_job("report") };
    let edited = put(t, "often", NewSchedule { job, ..every(60) }).await;
    assert!(!edited.is_new && edited.is_changed);
    assert_eq!(edited.schedule.next_at, Some(start.plus(secs(120))), "the same timing continues");
    let edited = put(t, "often", every(100)).await.schedule;
    assert_eq!(edited.next_at, Some(t.now().plus(secs(100))), "another begins now");
    assert_eq!((edited.submitted, edited.created_at), (1, start));
    assert_eq!(edited.updated_at, t.now());
}

/// Model: schedule-actions
async fn a_paused_schedule_leaves_its_runs_out_for_good(t: &Fixture) {
    let start = t.now();
    put(t, "often", NewSchedule { missed: CatchUp::All, ..every(60) }).await;
    let how = PauseOptions { reason: Some("month end".into()), expires: None };
    assert!(t.store.pause_schedule(&t.me, named("often"), how).await.unwrap());
    assert!(!t.store.pause_schedule(&t.me, named("often"), PauseOptions::default()).await.unwrap());
    let paused = get(t, "often").await;
    let pause = paused.pause_now(t.now()).expect("it is paused");
    assert_eq!(
        (pause.by.as_str(), pause.since, pause.reason.as_deref()),
        ("local", start, Some("month end"))
    );
    assert_eq!(paused.next_runs(), []);
    t.advance(secs(150));
    t.tick().await;
    assert!(jobs(t).await.is_empty());
    assert!(t.store.resume_schedule(&t.me, named("often")).await.unwrap());
    assert!(!t.store.resume_schedule(&t.me, named("often")).await.unwrap());
    t.tick().await;
    assert!(jobs(t).await.is_empty(), "nothing is made up for");
    t.advance(secs(30));
    t.tick().await;
    assert_eq!(jobs(t).await[0].run_at, start.plus(secs(180)));
}

/// Model: pause-reason-and-expiry, schedule-actions
async fn a_pause_ends_automatically(t: &Fixture) {
    let start = t.now();
    put(t, "often", NewSchedule { missed: CatchUp::All, ..every(60) }).await;
    let how = PauseOptions { reason: None, expires: Some(secs(150)) };
    t.store.pause_schedule(&t.me, named("often"), how.clone()).await.unwrap();
    assert_eq!(get(t, "often").await.next_runs()[0], start.plus(secs(180)), "the first after the pause");
    t.advance(secs(180));
    t.tick().await;
    let runs: Vec<_> = jobs(t).await.iter().map(|job| job.run_at).collect();
    assert_eq!(runs, [start.plus(secs(180))]);
    assert_eq!(get(t, "often").await.paused, None);
    // Resumed before its time, it continues from there.
    t.store.pause_schedule(&t.me, named("often"), how).await.unwrap();
    assert!(t.store.resume_schedule(&t.me, named("often")).await.unwrap());
    assert_eq!(get(t, "often").await.next_runs()[0], start.plus(secs(240)));
}

/// Model: schedule-actions
async fn a_schedule_is_triggered_by_hand(t: &Fixture) {
    let start = t.now();
    put(t, "often", every(60)).await;
    t.store.pause_schedule(&t.me, named("often"), PauseOptions::default()).await.unwrap();
    let first = t.store.trigger_schedule(&t.me, named("often")).await.unwrap();
    let second = t.store.trigger_schedule(&t.me, named("often")).await.unwrap();
    assert_ne!(first.id, second.id, "a new one each time");
    assert_eq!((first.state, first.run_at), (JobState::Scheduled, start));
    assert_eq!(t.get(first.id).await.spec.owner, "schedule:often");
    let schedule = get(t, "often").await;
    assert_eq!((schedule.submitted, schedule.last_run), (2, None));
    assert_eq!(schedule.last_job, Some(second.id));
}

/// Model: schedule-actions
async fn a_deleted_schedule_runs_no_more(t: &Fixture) {
    put(t, "often", every(60)).await;
    t.advance(secs(60));
    t.tick().await;
    t.store.delete_schedule(&t.me, named("often")).await.unwrap();
    t.advance(secs(600));
    t.tick().await;
    assert_eq!(jobs(t).await.len(), 1, "what it submitted stays");
    let gone = t.store.delete_schedule(&t.me, named("often")).await.unwrap_err();
    assert_eq!(gone, ScheduleError::NotFound(named("often")));
    assert_eq!(t.store.schedules(&t.me).await.unwrap(), []);
    // One of the same name is another one.
    assert_eq!(put(t, "often", every(60)).await.schedule.submitted, 0);
}

/// Model: schedule-actions
async fn a_deleted_schedule_can_be_restored(t: &Fixture) {
    put(t, "often", every(60)).await;
    t.advance(secs(60));
    t.tick().await;
    let before = get(t, "often").await;
    t.store.delete_schedule(&t.me, named("often")).await.unwrap();
    let deleted = t.store.deleted_schedules(&t.me).await.unwrap();
    assert_eq!((deleted.len(), &deleted[0].schedule, deleted[0].at), (1, &before, t.now()));
    assert_eq!(deleted[0].by, "local");
    t.advance(secs(150));
    t.tick().await;
    let restored = t.store.restore_schedule(&t.me, named("often")).await.unwrap();
    assert_eq!((restored.submitted, &restored.timing), (before.submitted, &before.timing));
    assert_eq!(get(t, "often").await, restored);
    assert_eq!(restored.next_at, Some(before.start.plus(secs(240))), "it continues as it was counted");
    assert_eq!(t.store.deleted_schedules(&t.me).await.unwrap(), []);
    t.tick().await;
    assert_eq!(jobs(t).await.len(), 1, "runs that were due in between are skipped");
    t.advance(secs(30));
    t.tick().await;
    assert_eq!(jobs(t).await.len(), 2);
    let nothing = t.store.restore_schedule(&t.me, named("often")).await.unwrap_err();
    assert_eq!(nothing, ScheduleError::NotFound(named("often")));
    let events: Vec<AuditEvent> =
        t.records(RecordQuery::default()).await.iter().map(|record| record.event).collect();
    let is_there = |event| events.contains(&event);
    assert!(is_there(AuditEvent::ScheduleDeleted) && is_there(AuditEvent::ScheduleRestored), "{events:?}");
    // A new one of the name is in the way; of two deleted ones the latest is restored.
    t.store.delete_schedule(&t.me, named("often")).await.unwrap();
    put(t, "often", every(90)).await;
    let taken = t.store.restore_schedule(&t.me, named("often")).await.unwrap_err();
    assert!(matches!(&taken, ScheduleError::Invalid(invalid) if invalid.field == "name"), "{taken}");
    t.store.delete_schedule(&t.me, named("often")).await.unwrap();
    let restored = t.store.restore_schedule(&t.me, named("often")).await.unwrap();
    assert_eq!(restored.timing, ScheduleSpec::Every(secs(90)));
}

/// Model: schedule-actions, tenant-isolation
async fn only_the_latest_deleted_schedules_are_kept_and_not_for_ever(t: &Fixture) {
    let green = caller("gil", Role::Operator, "green");
    t.store.put_schedule(&green, named("own"), every(60)).await.unwrap();
    t.store.delete_schedule(&green, named("own")).await.unwrap();
    let blue = caller("bo", Role::Operator, "blue");
    assert_eq!(t.store.deleted_schedules(&blue).await.unwrap(), []);
    let not_theirs = t.store.restore_schedule(&blue, named("own")).await.unwrap_err();
    assert_eq!(not_theirs, ScheduleError::NotFound(named("own")));
    t.advance(secs(1));
    for number in 0..limits::DELETED_SCHEDULES_MAX {
        let name = named(&format!("s{number}"));
        t.store.put_schedule(&t.me, name.clone(), every(60)).await.unwrap();
        t.store.delete_schedule(&t.me, name).await.unwrap();
    }
    let kept = t.store.deleted_schedules(&t.me).await.unwrap();
    assert_eq!(kept.len(), limits::DELETED_SCHEDULES_MAX);
    let is_kept = |name: &str| kept.iter().any(|deleted| deleted.schedule.name == named(name));
    assert!(is_kept("own"), "those of another tenant are not dropped");
    assert!(!is_kept("s0") && is_kept("s1"), "the oldest of the tenant with most was dropped");
    t.advance(limits::DELETED_SCHEDULE_RETENTION);
    assert_eq!(t.store.deleted_schedules(&t.me).await.unwrap(), []);
    let late = t.store.restore_schedule(&t.me, named("s1")).await.unwrap_err();
    assert_eq!(late, ScheduleError::NotFound(named("s1")));
    t.advance(secs(1));
    t.store.prune().await.unwrap();
}

/// Model: audit-trail
async fn every_change_is_audited(t: &Fixture) {
    put(t, "often", every(60)).await;
    put(t, "often", every(90)).await;
    t.store.pause_schedule(&t.me, named("often"), PauseOptions::default()).await.unwrap();
    t.store.resume_schedule(&t.me, named("often")).await.unwrap();
    t.store.trigger_schedule(&t.me, named("often")).await.unwrap();
    t.store.delete_schedule(&t.me, named("often")).await.unwrap();
    let records = t.records(RecordQuery::default()).await;
    let events: Vec<AuditEvent> = records.iter().map(|record| record.event).collect();
    let expected = [
        AuditEvent::ScheduleCreated,
        AuditEvent::ScheduleUpdated,
        AuditEvent::SchedulePaused,
        AuditEvent::ScheduleResumed,
        AuditEvent::ScheduleTriggered,
        AuditEvent::ScheduleDeleted,
    ];
    assert_eq!(events, expected);
    assert!(records.iter().all(|record| record.actor_id == "local" && record.context.contains("often")));
}

/// Model: tenant-isolation
async fn tenants_do_not_see_each_others_schedules(t: &Fixture) {
    let (blue, green) = (caller("bo", Role::Operator, "blue"), caller("gil", Role::Operator, "green"));
    for who in [&blue, &green] {
        t.store.put_schedule(who, named("own"), every(60)).await.unwrap();
    }
    t.store.put_schedule(&blue, named("secret"), every(60)).await.unwrap();
    let names = async |who| -> Vec<String> {
        let found = t.store.schedules(who).await.unwrap();
        found.iter().map(|schedule| format!("{}/{}", schedule.tenant, schedule.name)).collect()
    };
    assert_eq!(names(&green).await, ["green/own"]);
    assert_eq!(names(&t.me).await, ["blue/own", "blue/secret", "green/own"]);
    let theirs = ScheduleRef { tenant: Some(tenant("blue")), name: named("secret") };
    for which in [theirs, named("secret").into()] {
        assert_eq!(t.store.schedule(&green, which.clone()).await.unwrap(), None);
        let not_found = Err(ScheduleError::NotFound(named("secret")));
        assert_eq!(t.store.delete_schedule(&green, which.clone()).await, not_found);
        assert_eq!(t.store.trigger_schedule(&green, which).await.map(drop), not_found);
    }
    // An admin need not say whose the only one of a name is; of two it must.
    assert!(t.store.schedule(&t.me, named("secret")).await.unwrap().is_some());
    assert!(t.store.schedule(&t.me, named("own")).await.unwrap().is_none());
    let of_green = ScheduleRef { tenant: Some(tenant("green")), name: named("own") };
    t.store.delete_schedule(&t.me, of_green).await.unwrap();
    assert_eq!(names(&t.me).await, ["blue/own", "blue/secret"]);
    let foreign =
        NewSchedule { job: NewJob { tenant: Some(tenant("blue")), ..new_job("report") }, ..every(60) };
    let denied = t.store.put_schedule(&green, named("own"), foreign).await.unwrap_err();
    assert!(matches!(denied, ScheduleError::Forbidden(_)), "{denied}");
    t.advance(secs(60));
    t.tick().await;
    assert!(jobs(t).await.iter().all(|job| job.lane.tenant == tenant("blue")));
}

/// Model: roles
async fn only_operators_handle_schedules(t: &Fixture) {
    t.store.put_schedule(&caller("olga", Role::Operator, "default"), named("own"), every(60)).await.unwrap();
    for role in [Role::Submitter, Role::Worker, Role::Viewer] {
        let who = caller("mallory", role, "default");
        let denied = |error: ScheduleError| assert!(matches!(error, ScheduleError::Forbidden(_)), "{error}");
        denied(t.store.put_schedule(&who, named("own"), every(90)).await.map(drop).unwrap_err());
        denied(t.store.delete_schedule(&who, named("own")).await.unwrap_err());
        denied(t.store.restore_schedule(&who, named("own")).await.map(drop).unwrap_err());
        denied(t.store.trigger_schedule(&who, named("own")).await.map(drop).unwrap_err());
        denied(t.store.resume_schedule(&who, named("own")).await.map(drop).unwrap_err());
        let how = PauseOptions::default();
        denied(t.store.pause_schedule(&who, named("own"), how).await.map(drop).unwrap_err());
        assert!(t.store.schedule(&who, named("own")).await.unwrap().is_some(), "any caller may look");
    }
}

/// Model: schedule-runs. With the field that is wrong.
async fn a_schedule_that_is_not_allowed_is_refused(t: &Fixture) {
    let with = |job: NewJob| NewSchedule { job, ..every(60) };
    let past = ScheduleSpec::At(t.now());
    let some_job = JobId::from_bytes([7; 16]);
    let cases = [
        (every(0), "every"),
        (NewSchedule::new(ScheduleSpec::Every(limits::DURATION_MAX + secs(1)), new_job("report")), "every"),
        (NewSchedule::new(past, new_job("report")), "at"),
        (with(NewJob { idempotency_key: Some("k".into()), ..new_job("report") }), "job.idempotency_key"),
        (with(NewJob { run_at: Some(t.now()), ..new_job("report") }), "job.run_at"),
        (with(NewJob { after: vec![Dependency::Job(some_job)], ..new_job("report") }), "job.after"),
        (with(NewJob { name: Some("n".into()), ..new_job("report") }), "job.name"),
        (with(NewJob { lease_timeout: Some(Duration::ZERO), ..new_job("report") }), "job.timeouts.lease"),
    ];
    for (new, field) in cases {
        let error = t.store.put_schedule(&t.me, named("bad"), new).await.map(drop).unwrap_err();
        assert!(
            matches!(&error, ScheduleError::Invalid(invalid) if invalid.field == field),
            "{field}: {error}"
        );
    }
    let large = Payload::json(vec![b'1'; limits::SCHEDULE_PAYLOAD_BYTES_MAX + 1]);
    let new = with(NewJob { payload: large, ..new_job("report") });
    let error = t.store.put_schedule(&t.me, named("bad"), new).await.map(drop).unwrap_err();
    assert!(matches!(error, ScheduleError::Refused(_)), "{error}");
    assert_eq!(t.store.schedules(&t.me).await.unwrap(), []);
}
