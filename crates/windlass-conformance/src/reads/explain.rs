//! Why a job does not run: every reason at once, the first of them in the snapshot (Model: explained-waiting).

use serde_json::json;
use windlass::job::{Dependency, Failure, GroupStrategy, JobId, JobState, JobType, NewJob, Rate};
use windlass::settings::{QueueSettings, TenantSettings, TypeSettings};
use windlass::store::{
    ActionRequest, ListRequest, NewGroup, NewWorker, Park, Pause, PauseTarget, Reason, Settings, Suspend,
};

use crate::fixture::{Fixture, lease_ref, new_job, queue, secs, tenant};

tests!(
    reads_explain, reads::explain:
    a_job_that_is_about_to_run_runs_or_is_final_has_no_reason,
    a_suspension_and_a_hold_say_who_and_until_when,
    a_job_that_is_not_due_says_until_when,
    a_parked_job_says_what_it_waits_for,
    unmet_dependencies_are_counted_and_named,
    a_pause_says_who_since_when_and_why,
    a_job_that_no_live_worker_takes_says_so,
    limits_that_are_used_up_are_named,
    a_concurrency_key_says_who_holds_it,
    a_job_without_a_free_slot_says_so,
    every_reason_is_listed_at_once_and_the_first_is_why,
    limits_are_listed_beside_what_keeps_a_job_from_being_ready,
);

/// All reasons; the first one is in the snapshot too.
async fn reasons(t: &Fixture, id: JobId) -> Vec<Reason> {
    let reasons = t.store.explain(&t.me, id).await.unwrap().expect("the job is there");
    let why = t.get(id).await.why;
    assert_eq!(why.as_ref().map(|why| why.code), reasons.first().map(|first| first.code));
    assert_eq!(why.map(|why| why.message), reasons.first().map(|first| first.message.clone()));
    reasons
}

async fn codes(t: &Fixture, id: JobId) -> Vec<&'static str> {
    reasons(t, id).await.into_iter().map(|reason| reason.code).collect()
}

/// The one reason that this job has.
async fn only(t: &Fixture, id: JobId) -> Reason {
    let mut reasons = reasons(t, id).await;
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons.remove(0)
}

/// Model: explained-waiting
async fn a_job_that_is_about_to_run_runs_or_is_final_has_no_reason(t: &Fixture) {
    for state in [JobState::Scheduled, JobState::Running].into_iter().chain(JobState::FINAL) {
        assert!(codes(t, t.placed(state).await.id).await.is_empty(), "{state}");
    }
    let unknown = JobId::from_bytes([7; 16]);
    assert_eq!(t.store.explain(&t.me, unknown).await.unwrap(), None);
}

/// Model: explained-waiting
async fn a_suspension_and_a_hold_say_who_and_until_when(t: &Fixture) {
    let placed = t.placed(JobState::Scheduled).await;
    let suspend = Suspend { reason: Some("wait".into()), expires: Some(secs(60)), ..Suspend::default() };
    t.act(placed.id, ActionRequest::Suspend(suspend)).await;
    let reason = only(t, placed.id).await;
    let until = t.now().plus(secs(60)).to_string();
    assert_eq!((reason.code, reason.message), ("suspended", format!("suspended by local until {until}")));
    let details = json!({"by": "local", "since": t.now().to_string(), "reason": "wait", "mode": "idle_only",
        "expires_at": until});
    assert_eq!(reason.details, details);
    assert_eq!(only(t, t.placed(JobState::Created).await.id).await.code, "held");
}

/// Model: explained-waiting
async fn a_job_that_is_not_due_says_until_when(t: &Fixture) {
    for state in [JobState::Delayed, JobState::Retrying] {
        let placed = t.placed(state).await;
        let reason = only(t, placed.id).await;
        let due = t.now().plus(secs(3600)).to_string();
        assert_eq!((reason.code, reason.details), ("not_due", json!({"run_at": due})));
        t.cancel(placed.id).await;
    }
}

/// Model: explained-waiting
async fn a_parked_job_says_what_it_waits_for(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("parent")).await;
    t.park(worker, &claimed, Park::For(secs(60))).await;
    let reason = only(t, claimed.job.id).await;
    let until = t.now().plus(secs(60)).to_string();
    assert_eq!((reason.code, reason.details), ("waiting", json!({"until": until})));

    let (worker, claimed) = t.running(new_job("parent")).await;
    t.park(worker, &claimed, Park::Signal { name: "go".into(), step: None, timeout: None }).await;
    let reason = only(t, claimed.job.id).await;
    assert_eq!((reason.code, &reason.details["signal"]), ("waiting", &json!("go")));

    let (_, claimed) = t.running(new_job("parent")).await;
    let jobs = vec![new_job("child")];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
    t.store.spawn(&t.me, lease_ref(&claimed), group).await.unwrap();
    let reason = only(t, claimed.job.id).await;
    assert_eq!((reason.code, reason.details), ("waiting", json!({"group": 1})));
}

/// Model: explained-waiting
async fn unmet_dependencies_are_counted_and_named(t: &Fixture) {
    t.worker().await;
    let first = t.submit_all((0..12).map(|_| new_job("first")).collect()).await;
    let after = first.iter().map(|receipt| Dependency::Job(receipt.job.id)).collect();
    let second = t.submit(NewJob { after, ..new_job("second") }).await.id;
    let reason = only(t, second).await;
    assert_eq!((reason.code, reason.message.as_str()), ("dependencies_unmet", "waits for 12 other jobs"));
    assert_eq!(reason.details["unmet"], 12);
    let named = reason.details["jobs"].as_array().unwrap();
    assert_eq!(named[0], json!({"id": first[0].job.id.to_string(), "state": "scheduled"}));
    assert_eq!(named.len(), 10, "a page of text is enough");
}

/// Model: explained-waiting, queue-pause, processing-on-and-off
async fn a_pause_says_who_since_when_and_why(t: &Fixture) {
    let worker = t.worker().await;
    let job = t.submit(new_job("report")).await;
    let targets = [
        (PauseTarget::Queue(queue("default")), "queue_paused", "queue default is paused"),
        (PauseTarget::Gate, "gate_closed", "processing is paused"),
        (PauseTarget::Tenant(tenant("default")), "gate_closed", "processing is paused for tenant default"),
        (
            PauseTarget::Type(JobType::new("report").unwrap()),
            "gate_closed",
            "processing is paused for type report",
        ),
    ];
    for (target, code, what) in targets {
        let pause = Pause { reason: Some("repairs".into()), expires: Some(secs(20)), ..Pause::default() };
        t.store.pause(&t.me, target.clone(), pause).await.unwrap();
        let reason = only(t, job.id).await;
        let (since, until) = (t.now().to_string(), t.now().plus(secs(20)).to_string());
        assert_eq!(reason.code, code);
        assert_eq!(reason.message, format!("{what} by local since {since} until {until}"));
        assert_eq!(reason.details["reason"], "repairs");
        assert!(t.claim(worker, 1).await.is_empty(), "the explanation is right");
        t.store.resume(&t.me, target, None).await.unwrap();
        assert!(codes(t, job.id).await.is_empty());
    }
}

/// Model: explained-waiting, unknown-types
async fn a_job_that_no_live_worker_takes_says_so(t: &Fixture) {
    let job = t.submit(new_job("report")).await;
    assert_eq!(only(t, job.id).await.code, "no_worker");
    t.worker_for(&["other"], &[]).await;
    t.worker_for(&[], &["scan"]).await;
    assert_eq!(only(t, job.id).await.code, "no_worker", "these take something else");
    let worker = t.worker_for(&["default"], &["report"]).await;
    assert!(codes(t, job.id).await.is_empty());
    t.store.pause(&t.me, PauseTarget::Worker(worker), Pause::default()).await.unwrap();
    assert_eq!(only(t, job.id).await.code, "no_worker", "the only one is paused");
    t.store.resume(&t.me, PauseTarget::Worker(worker), None).await.unwrap();
    t.advance(secs(31));
    assert_eq!(only(t, job.id).await.code, "no_worker", "the only one has fallen silent");
}

/// Model: explained-waiting, concurrency-limits
async fn limits_that_are_used_up_are_named(t: &Fixture) {
    let job_type = JobType::new("report").unwrap();
    let one = Some(1);
    let settings = [
        Settings::Queue(queue("default"), QueueSettings { max_running: one, ..QueueSettings::default() }),
        Settings::Type(job_type, TypeSettings { max_running: one, ..TypeSettings::default() }),
        Settings::Tenant(tenant("default"), TenantSettings { max_running: one, ..TenantSettings::default() }),
    ];
    for settings in settings {
        t.store.configure(&t.me, settings).await.unwrap();
    }
    let (worker, claimed) = t.running(new_job("report")).await;
    let job = t.submit(new_job("report")).await;
    let reasons = reasons(t, job.id).await;
    let scopes: Vec<&str> = reasons.iter().map(|reason| reason.details["scope"].as_str().unwrap()).collect();
    assert!(reasons.iter().all(|reason| reason.code == "max_running"));
    assert_eq!(scopes, ["queue default", "type report", "tenant default"]);
    t.complete(worker, &claimed).await;
    assert!(codes(t, job.id).await.is_empty());
}

/// Model: explained-waiting, concurrency-limits
async fn a_concurrency_key_says_who_holds_it(t: &Fixture) {
    let keyed = || NewJob { concurrency_key: Some("one".into()), ..new_job("report") };
    let (worker, holder) = t.running(keyed()).await;
    let second = t.submit(keyed()).await;
    // Both before and after a claim has set it aside.
    for _ in 0..2 {
        let reason = only(t, second.id).await;
        assert_eq!(reason.code, "concurrency_key_held");
        assert_eq!(reason.details, json!({"jobs": [holder.job.id.to_string()]}));
        assert!(t.claim(worker, 1).await.is_empty());
    }
    t.complete(worker, &holder).await;
    assert!(codes(t, second.id).await.is_empty());
}

/// Model: explained-waiting. Also in the snapshot, and in a list of several jobs of the lane.
async fn a_job_without_a_free_slot_says_so(t: &Fixture) {
    let new = NewWorker { concurrency: 1, ..NewWorker::default() };
    let worker = t.store.register(&t.me, new).await.unwrap().id;
    let running = t.submit(new_job("report")).await;
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.job.id, running.id);
    let waiting = [t.submit(new_job("report")).await.id, t.submit(new_job("report")).await.id];
    for id in waiting {
        let reason = only(t, id).await;
        assert_eq!((reason.code, &reason.details["slots"]), ("no_free_slot", &json!(1)));
    }
    let listed = t.store.list(&t.me, ListRequest::default()).await.unwrap().jobs;
    let whys: Vec<Option<&str>> = listed.iter().map(|job| job.why.as_ref().map(|why| why.code)).collect();
    assert_eq!(whys, [Some("no_free_slot"), Some("no_free_slot"), None]);
    t.complete(worker, &claimed).await;
    assert!(codes(t, waiting[0]).await.is_empty());
}

/// Model: explained-waiting
async fn every_reason_is_listed_at_once_and_the_first_is_why(t: &Fixture) {
    let first = t.submit(new_job("first")).await.id;
    let job = NewJob {
        hold: true,
        delay: Some(secs(60)),
        after: vec![Dependency::Job(first)],
        ..new_job("report")
    };
    let id = t.submit(job).await.id;
    let pauses = [
        PauseTarget::Gate,
        PauseTarget::Tenant(tenant("default")),
        PauseTarget::Type(JobType::new("report").unwrap()),
        PauseTarget::Queue(queue("default")),
    ];
    for target in pauses {
        t.store.pause(&t.me, target, Pause::default()).await.unwrap();
    }
    let around = ["gate_closed", "gate_closed", "gate_closed", "queue_paused", "no_worker"];
    let with = |own: &[&'static str]| [own, &around].concat();
    assert_eq!(codes(t, id).await, with(&["held", "dependencies_unmet", "not_due"]));
    t.suspend(id).await;
    assert_eq!(codes(t, id).await, with(&["suspended", "held", "dependencies_unmet", "not_due"]));
    t.resume(id).await;
    t.act(id, ActionRequest::Submit).await;
    assert_eq!(codes(t, id).await, with(&["dependencies_unmet", "not_due"]));
    t.advance(secs(60));
    assert_eq!(codes(t, id).await, with(&["dependencies_unmet"]));
    assert_eq!(codes(t, first).await, [&around[..2], &around[3..]].concat());
    // A retry is not due either, beside what holds its lane.
    t.store.resume(&t.me, PauseTarget::Gate, None).await.unwrap();
    let other = t.placed(JobState::Scheduled).await;
    t.store.resume(&t.me, PauseTarget::Tenant(tenant("default")), None).await.unwrap();
    let claimed = t.claim_one(other.worker).await;
    t.fail(other.worker, &claimed, Failure::temporary("busy")).await;
    t.store.pause(&t.me, PauseTarget::Gate, Pause::default()).await.unwrap();
    assert_eq!(codes(t, other.id).await, ["not_due", "gate_closed"]);
}

/// Model: explained-waiting, concurrency-limits. Not only once the job is ready: what would hold it back then is listed before.
async fn limits_are_listed_beside_what_keeps_a_job_from_being_ready(t: &Fixture) {
    let rate = Rate { count: 1, per: secs(3600) };
    let settings = QueueSettings { max_running: Some(1), rate: Some(rate), ..QueueSettings::default() };
    t.store.configure(&t.me, Settings::Queue(queue("default"), settings)).await.unwrap();
    let budget = TenantSettings { budget_cents: Some(0), ..TenantSettings::default() };
    let keyed = || NewJob { concurrency_key: Some("one".into()), ..new_job("report") };
    t.running(keyed()).await;
    t.store.configure(&t.me, Settings::Tenant(tenant("default"), budget)).await.unwrap();
    let id = t.submit(NewJob { delay: Some(secs(60)), ..keyed() }).await.id;
    let limits = ["max_running", "concurrency_key_held", "rate_limited", "over_quota"];
    assert_eq!(codes(t, id).await, [&["not_due"][..], &limits].concat());
    t.suspend(id).await;
    assert_eq!(codes(t, id).await, [&["suspended", "not_due"][..], &limits].concat());
}
