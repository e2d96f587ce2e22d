//! A graceful suspension that waits for the running attempt to end, and what the audit trail says of every pause.

use serde_json::{Value, json};
use windlass::audit::{AuditEvent, Record};
use windlass::error::ActionError;
use windlass::job::{Failure, JobState, SuspendMode};
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionOptions, ActionRequest, Finish, Outcome, Park, Pause, PauseTarget, Suspend};

use crate::fixture::{Fixture, new_job, queue, secs};

tests!(
    actions_pending, actions::pending:
    a_suspension_that_was_asked_for_is_shown_until_it_takes_effect,
    a_suspension_is_recorded_as_its_operators_whatever_ended_the_attempt,
    a_suspension_that_was_withdrawn_or_overtaken_leaves_its_request_in_the_audit_trail,
    a_suspension_whose_end_came_before_it_took_effect_is_dropped,
    a_suspension_that_was_asked_for_is_lifted_at_its_end,
    asking_for_a_suspension_again_is_refused_in_the_strict_form,
    every_pause_and_its_end_are_recorded_with_the_mode,
);

fn olga() -> Caller {
    Caller::new("olga", Role::Operator, None)
}

fn gracefully(reason: &str) -> ActionRequest {
    ActionRequest::Suspend(Suspend::graceful().reason(reason))
}

fn context(record: &Record) -> Value {
    serde_json::from_str(&record.context).expect("a context is JSON")
}

/// Model: pending-suspension
async fn a_suspension_that_was_asked_for_is_shown_until_it_takes_effect(t: &Fixture) {
    let placed = t.placed(JobState::Running).await;
    let asked_at = t.now();
    t.store.act(&olga(), placed.id, gracefully("deploy")).await.unwrap();
    t.advance(secs(3));
    let shown = t.get(placed.id).await;
    let requested = shown.job.details.suspend_requested.clone().unwrap();
    assert_eq!((&*requested.by, requested.reason.as_deref()), ("olga", Some("deploy")));
    assert_eq!((requested.mode, requested.at), (SuspendMode::Graceful, asked_at));
    let why = shown.why.unwrap();
    assert_eq!(why.code, "suspend_requested");
    let details = json!({"by": "olga", "at": asked_at.to_string(), "reason": "deploy", "mode": "graceful",
        "expires_at": null});
    assert_eq!(why.details, details);
    let reasons = t.store.explain(&t.me, placed.id).await.unwrap().unwrap();
    assert_eq!(reasons.iter().map(|reason| reason.code).collect::<Vec<_>>(), ["suspend_requested"]);
    t.fail(placed.worker, &placed.claimed.unwrap(), Failure::temporary("busy")).await;
    let held = t.get(placed.id).await;
    assert_eq!(held.why.unwrap().code, "suspended");
    let details = &held.job.details;
    assert_eq!(details.suspend_requested, None);
    assert_eq!((details.suspended_at, details.suspended_by.as_deref()), (Some(t.now()), Some("olga")));
    assert_eq!(
        details.suspension.as_ref().map(|held| (held.mode, held.at)),
        Some((SuspendMode::Graceful, asked_at))
    );
}

/// Model: pending-suspension
async fn a_suspension_whose_end_came_before_it_took_effect_is_dropped(t: &Fixture) {
    let placed = t.placed(JobState::Running).await;
    let briefly = Suspend { expires: Some(secs(5)), ..Suspend::graceful() };
    t.store.act(&olga(), placed.id, ActionRequest::Suspend(briefly)).await.unwrap();
    t.advance(secs(5));
    t.fail(placed.worker, &placed.claimed.unwrap(), Failure::temporary("busy")).await;
    let job = t.get(placed.id).await.job;
    assert_eq!((job.state, &job.details.suspend_requested), (JobState::Retrying, &None));
}

/// Model: pending-suspension, pause-reason-and-expiry. While the attempt runs on, by maintenance or by the next action.
async fn a_suspension_that_was_asked_for_is_lifted_at_its_end(t: &Fixture) {
    let id = t.placed(JobState::Running).await.id;
    let briefly = || ActionRequest::Suspend(Suspend { expires: Some(secs(5)), ..Suspend::graceful() });
    for by_maintenance in [true, false] {
        assert!(t.store.act(&olga(), id, briefly()).await.unwrap().is_changed);
        t.advance(secs(5));
        if by_maintenance {
            t.tick().await;
            let job = t.get(id).await.job;
            assert_eq!((job.state, &job.details.suspend_requested), (JobState::Running, &None));
        }
    }
    let asked = t.store.act(&olga(), id, gracefully("again")).await.unwrap();
    assert!(asked.is_changed, "the new request is not taken for the one that is over");
    let requested = asked.job.details.suspend_requested.clone().unwrap();
    assert_eq!((requested.reason.as_deref(), requested.expires_at), (Some("again"), None));
    let events = t.events_of(id).await;
    assert_eq!(events.iter().filter(|event| **event == AuditEvent::Resumed).count(), 2, "{events:?}");
}

/// Model: repeated-actions, pending-suspension
async fn asking_for_a_suspension_again_is_refused_in_the_strict_form(t: &Fixture) {
    let id = t.placed(JobState::Running).await.id;
    t.store.act(&olga(), id, gracefully("deploy")).await.unwrap();
    let refused = t.store.act_with(&olga(), id, gracefully("again"), ActionOptions::strict()).await;
    assert_eq!(refused, Err(ActionError::SuspensionRequested(id)));
    assert!(!t.store.act(&olga(), id, gracefully("again")).await.unwrap().is_changed);
}

/// Model: pending-suspension, audit-trail
async fn a_suspension_is_recorded_as_its_operators_whatever_ended_the_attempt(t: &Fixture) {
    let ends = [
        Some(Outcome::Failed(Failure::temporary("busy"))),
        Some(Outcome::Released),
        Some(Outcome::Parked(Park::For(secs(60)))),
        // Its lease ends: no worker reports anything.
        None,
    ];
    for outcome in ends {
        let placed = t.placed(JobState::Running).await;
        t.store.act(&olga(), placed.id, gracefully("deploy")).await.unwrap();
        if let Some(outcome) = outcome.clone() {
            let fence = placed.claimed.unwrap().job.fence;
            t.finish(placed.worker, placed.id, fence, outcome).await;
        } else {
            t.advance(secs(300));
            t.tick().await;
        }
        assert_eq!(t.state(placed.id).await, JobState::Suspended, "{outcome:?}");
        let trail: Vec<Record> =
            t.trail().await.into_iter().filter(|record| record.job == Some(placed.id)).collect();
        let events: Vec<AuditEvent> = trail.iter().map(|record| record.event).collect();
        assert_eq!(events, [AuditEvent::SuspendRequested, AuditEvent::Suspended], "{outcome:?}");
        assert_eq!(trail[0].event.as_str(), "job.lifecycle.suspend_requested");
        for (record, state) in trail.iter().zip(["running", "suspended"]) {
            assert_eq!((&*record.actor_type, &*record.actor_id), ("user", "olga"));
            let expected = json!({"job_id": placed.id.to_string(), "actor_id": "olga", "reason": "deploy",
                "mode": "graceful", "previous_state": "running", "state": state});
            assert_eq!(context(record), expected);
        }
    }
}

/// Model: repeated-actions, pending-suspension
async fn a_suspension_that_was_withdrawn_or_overtaken_leaves_its_request_in_the_audit_trail(t: &Fixture) {
    let placed = t.placed(JobState::Running).await;
    t.act(placed.id, gracefully("deploy")).await;
    t.act(placed.id, ActionRequest::Resume { reason: Some("not today".into()) }).await;
    assert_eq!(t.get(placed.id).await.why, None);
    let events = t.events_of(placed.id).await;
    assert_eq!(events, [AuditEvent::SuspendRequested, AuditEvent::Resumed]);
    let expected = json!({"job_id": placed.id.to_string(), "actor_id": "local", "reason": "not today",
        "mode": "graceful", "previous_state": "running", "state": "running"});
    assert_eq!(context(t.trail().await.last().unwrap()), expected);
    let placed = t.placed(JobState::Running).await;
    t.act(placed.id, gracefully("deploy")).await;
    assert_eq!(
        t.complete(placed.worker, &placed.claimed.unwrap()).await,
        Finish::Applied(JobState::Completed)
    );
    assert_eq!(t.events_of(placed.id).await, [AuditEvent::SuspendRequested, AuditEvent::Completed]);
}

/// Model: queue-pause, worker-pause, processing-on-and-off, audit-trail
async fn every_pause_and_its_end_are_recorded_with_the_mode(t: &Fixture) {
    let worker = t.worker().await;
    t.submit(new_job("email.send")).await;
    let email = windlass::job::JobType::new("email.send").unwrap();
    let targets = [
        PauseTarget::Gate,
        PauseTarget::Type(email),
        PauseTarget::Queue(queue("default")),
        PauseTarget::Worker(worker),
    ];
    for (target, pause) in
        targets.iter().flat_map(|target| [(target, Pause::graceful()), (target, Pause::aggressive())])
    {
        let mode = json!(pause.mode);
        let before = t.trail().await.len();
        assert!(t.store.pause(&t.me, target.clone(), pause.clone()).await.unwrap());
        assert!(t.store.resume(&t.me, target.clone(), None).await.unwrap());
        assert!(t.store.pause(&t.me, target.clone(), pause.expires_in(secs(1))).await.unwrap());
        t.advance(secs(1));
        t.tick().await;
        let trail = t.trail().await;
        let recorded: Vec<Value> =
            trail[before..].iter().map(|record| context(record)["mode"].clone()).collect();
        assert_eq!(recorded, [&mode; 4].map(Value::clone), "{target:?}");
    }
}
