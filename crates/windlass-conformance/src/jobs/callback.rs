//! Callbacks: a webhook about a finished job is a separate job, submitted in the commit that finishes the job.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::callback;
use windlass::error::{ActionError, SubmitError};
use windlass::job::{Dependency, Failure, JobId, JobState, NewJob};
use windlass::limits;
use windlass::settings::{Push, QueueSettings, TenantSettings};
use windlass::store::caller::Role;
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionRequest, Filter, Finish, ListRequest, Outcome, Patch, Redrive, Settings, Snapshot, SubmitOptions,
};

use crate::fixture::{Fixture, caller, new_job, secs, tenant};

tests!(
    jobs_callback, jobs::callback:
    every_end_is_reported_once,
    a_report_says_what_became_of_the_job,
    a_report_carries_the_result_unless_it_is_large,
    a_report_is_retried_over_days,
    the_end_of_a_report_is_not_reported,
    a_report_goes_where_the_job_said_last,
    a_report_counts_for_no_limit_of_its_tenant,
    only_those_who_ask_by_name_are_given_reports,
    a_report_belongs_to_the_jobs_owner,
    reports_cannot_be_submitted_by_hand,
    nothing_else_is_put_among_reports,
    a_slow_receiver_holds_up_its_own_reports_only,
    a_tenant_has_one_secret_to_sign_with,
    a_replaced_secret_signs_for_another_day,
);

const URL: &str = "https://example.com/hook";

fn with_callback() -> NewJob {
    let mut job = new_job("email.send");
    job.metadata.callback_url = Some(URL.into());
    job
}

/// The reports there are, oldest first.
async fn reports(t: &Fixture) -> Vec<Snapshot> {
    let filter = Filter { queue: Some(crate::fixture::queue(callback::QUEUE)), ..Filter::default() };
    let mut found = t.store.list(&t.me, ListRequest { filter, ..ListRequest::default() }).await.unwrap().jobs;
    found.reverse();
    found
}

fn body(report: &Snapshot) -> Value {
    serde_json::from_slice(&report.spec.payload.bytes).unwrap()
}

async fn report_on(t: &Fixture, id: JobId) -> Vec<Snapshot> {
    let tag = Some((callback::TAG.to_owned(), id.to_string()));
    let request = ListRequest { filter: Filter { tag, ..Filter::default() }, ..ListRequest::default() };
    t.store.list(&t.me, request).await.unwrap().jobs
}

/// Model: callbacks. Whichever way it ends.
async fn every_end_is_reported_once(t: &Fixture) {
    let (worker, completed) = t.running(with_callback()).await;
    t.complete(worker, &completed).await;
    let (worker, failed) = t.running(with_callback()).await;
    t.fail(worker, &failed, Failure::permanent("no_such_user", "gone")).await;
    let (worker, dead) = t.running(NewJob { lifetime: Some(secs(60)), ..with_callback() }).await;
    let cancelled = t.submit(with_callback()).await.id;
    // One that ends with another, and one that ends as it is submitted.
    let after = |id| NewJob { after: vec![Dependency::Job(id)], ..with_callback() };
    let dependent = t.submit(after(cancelled)).await.id;
    t.cancel(cancelled).await;
    let stillborn = t.submit(after(cancelled)).await.id;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(t.complete(worker, &dead).await, Finish::Stale);
    let ends = [
        (completed.job.id, "completed"),
        (failed.job.id, "failed"),
        (dead.job.id, "dead_letter"),
        (cancelled, "cancelled"),
        (dependent, "cancelled"),
        (stillborn, "cancelled"),
    ];
    for (id, state) in ends {
        let found = report_on(t, id).await;
        assert_eq!(found.len(), 1, "{state}");
        let body = body(&found[0]);
        assert_eq!(
            (&body["type"], &body["data"]["id"]),
            (&json!(format!("job.{state}")), &json!(id.to_string()))
        );
    }
    assert_eq!(reports(t).await.len(), ends.len());
    let plain = t.submit(new_job("email.send")).await.id;
    t.cancel(plain).await;
    assert!(report_on(t, plain).await.is_empty(), "it names no address");
}

/// Model: callbacks
async fn a_report_says_what_became_of_the_job(t: &Fixture) {
    let mut job = with_callback();
    job.metadata.correlation_id = Some("order-7".into());
    job.metadata.tags.insert("team".into(), "mail".into());
    let (worker, claimed) = t.running(job).await;
    t.advance(secs(5));
    t.fail(worker, &claimed, Failure::permanent("no_such_user", "a@b.c is unknown")).await;
    let report = &reports(t).await[0];
    let expected = json!({
        "type": "job.failed",
        "timestamp": t.now().to_string(),
        "data": {
            "id": claimed.job.id.to_string(), "tenant": "default", "type": "email.send", "queue": "default",
            "state": "failed", "attempt": 1, "created_at": claimed.job.created_at.to_string(),
            "completed_at": t.now().to_string(), "correlation_id": "order-7", "tags": {"team": "mail"},
            "error": {"category": "permanent", "code": "no_such_user", "message": "a@b.c is unknown"},
        },
    });
    assert_eq!(body(report), expected);
    assert_eq!(report.job.state, JobState::Scheduled);
    assert_eq!(report.spec.metadata.callback_url.as_deref(), Some(URL));
    assert_eq!(report.spec.metadata.correlation_id.as_deref(), Some("order-7"));
}

/// Model: result-cost-and-progress, callbacks. Byte for byte, as the worker wrote it.
async fn a_report_carries_the_result_unless_it_is_large(t: &Fixture) {
    let large = format!("\"{}\"", "x".repeat(limits::CALLBACK_RESULT_BYTES_MAX));
    for (result, is_there) in [("{ \"sum\" : 1.0e2 }", true), (large.as_str(), false)] {
        let (worker, claimed) = t.running(with_callback()).await;
        let outcome = Outcome::Completed { result: Some(result.into()) };
        t.finish(worker, claimed.job.id, claimed.job.fence, outcome).await;
        let report = report_on(t, claimed.job.id).await.remove(0);
        let text = String::from_utf8(report.spec.payload.bytes.to_vec()).unwrap();
        assert_eq!(text.contains(&format!("\"result\":{result}")), is_there);
        assert!(is_there || !text.contains("result"));
    }
}

/// Model: callbacks
async fn a_report_is_retried_over_days(t: &Fixture) {
    let id = t.submit(with_callback()).await.id;
    t.cancel(id).await;
    let started = t.now();
    for failures in 1_u32.. {
        let worker = t.worker_for(&[callback::QUEUE], &[]).await;
        let claimed = t.claim_one(worker).await;
        let failure = match callback::retry_after(failures) {
            Some(wait) => Failure::retry_after(wait, "503"),
            None => Failure::temporary("503"),
        };
        let ended = t.fail(worker, &claimed, failure).await;
        let Some(wait) = callback::retry_after(failures) else {
            assert_eq!(ended, Finish::Applied(JobState::DeadLetter));
            break;
        };
        assert_eq!(ended, Finish::Applied(JobState::Retrying));
        t.advance(wait);
    }
    assert!(t.now().since(started) > Duration::from_secs(3 * 24 * 3600));
    // The receiver works again.
    let report = reports(t).await.remove(0);
    let again = t.store.redrive(&t.me, report.job.id, Redrive::default()).await.unwrap();
    assert_eq!(t.get(again.id).await.spec.payload, report.spec.payload);
    assert_eq!(t.get(again.id).await.spec.metadata.callback_url.as_deref(), Some(URL));
}

/// Model: callbacks
async fn the_end_of_a_report_is_not_reported(t: &Fixture) {
    let id = t.submit(with_callback()).await.id;
    t.cancel(id).await;
    let worker = t.worker_for(&[], &[callback::TYPE]).await;
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.spec.metadata.callback_url.as_deref(), Some(URL));
    t.complete(worker, &claimed).await;
    assert_eq!(reports(t).await.len(), 1);
}

/// Model: writable-fields, callbacks
async fn a_report_goes_where_the_job_said_last(t: &Fixture) {
    let (moved, silent, late) = (
        t.submit(with_callback()).await.id,
        t.submit(with_callback()).await.id,
        t.submit(new_job("x")).await.id,
    );
    let to = |url: Option<&str>| {
        ActionRequest::Patch(Patch { callback_url: Some(url.map(str::to_owned)), ..Patch::default() })
    };
    t.act(moved, to(Some("https://example.com/other"))).await;
    t.act(silent, to(None)).await;
    t.act(late, to(Some(URL))).await;
    for id in [moved, silent, late] {
        t.cancel(id).await;
    }
    let urls: Vec<Option<String>> =
        reports(t).await.into_iter().map(|report| report.spec.metadata.callback_url).collect();
    assert_eq!(urls, [Some("https://example.com/other".into()), Some(URL.into())]);
}

/// Model: callbacks, backpressure
async fn a_report_counts_for_no_limit_of_its_tenant(t: &Fixture) {
    let one = TenantSettings { max_depth: Some(2), max_running: Some(1), ..TenantSettings::default() };
    t.set_tenant("default", one).await;
    t.set_queue(callback::QUEUE, QueueSettings { max_depth: Some(0), ..QueueSettings::default() }).await;
    for _ in 0..3 {
        let id = t.submit(with_callback()).await.id;
        t.cancel(id).await;
    }
    assert_eq!(reports(t).await.len(), 3, "an end is reported whatever the limits");
    let (_, running) = t.running(new_job("email.send")).await;
    t.submit(new_job("email.send")).await;
    t.refused(vec![new_job("email.send")]).await;
    let worker = t.worker_for(&[callback::QUEUE], &[]).await;
    assert_eq!(t.claim(worker, 10).await.len(), 3, "beside {}", running.job.id);
}

/// Model: unknown-types. A worker that takes anything does not mean these.
async fn only_those_who_ask_by_name_are_given_reports(t: &Fixture) {
    let id = t.submit(with_callback()).await.id;
    t.cancel(id).await;
    let anything = t.worker().await;
    assert!(t.claim(anything, 10).await.is_empty());
    let why = reports(t).await[0].why.clone().expect("it waits");
    assert_eq!(why.code, "no_worker");
    let by_type = t.worker_for(&[], &[callback::TYPE]).await;
    assert_eq!(t.claim(by_type, 10).await.len(), 1);
}

/// Model: tenant-isolation, roles
async fn a_report_belongs_to_the_jobs_owner(t: &Fixture) {
    let (own, other) = (caller("sue", Role::Submitter, "blue"), caller("sam", Role::Submitter, "blue"));
    let receipts = t.store.submit(&own, vec![with_callback()], SubmitOptions::default()).await.unwrap();
    t.store.act(&own, receipts[0].job.id, ActionRequest::Cancel { reason: None }).await.unwrap();
    let report = reports(t).await.remove(0);
    assert_eq!((report.job.lane.tenant.clone(), report.spec.owner.as_str()), (tenant("blue"), "sue"));
    let foreign =
        t.store.act(&other, report.job.id, ActionRequest::Cancel { reason: None }).await.unwrap_err();
    assert!(matches!(foreign, ActionError::Forbidden(_)), "{foreign}");
    t.store.act(&own, report.job.id, ActionRequest::Cancel { reason: None }).await.unwrap();
    let green = caller("gil", Role::Operator, "green");
    assert_eq!(t.store.get(&green, report.job.id).await.unwrap(), None);
}

/// Model: callbacks. Or a flood of them would count for no limit.
async fn reports_cannot_be_submitted_by_hand(t: &Fixture) {
    let refused = t.refused(vec![new_job(callback::TYPE)]).await;
    assert!(matches!(&refused, SubmitError::Invalid { invalid, .. } if invalid.field == "type"), "{refused}");
}

/// Model: callbacks
async fn a_tenant_has_one_secret_to_sign_with(t: &Fixture) {
    let olga = caller("olga", Role::Operator, "blue");
    let blue = t.store.webhook_secrets(&olga, None).await.unwrap();
    let text = blue[0].reveal();
    assert!(text.starts_with("whsec_") && text.len() == 50 && blue.len() == 1, "{text}");
    assert_eq!(t.store.webhook_secrets(&t.me, Some(tenant("blue"))).await.unwrap(), blue);
    let own = t.store.webhook_secrets(&t.me, None).await.unwrap();
    assert_ne!(own, blue);
    assert_eq!(t.store.webhook_secrets(&t.me, Some(tenant("default"))).await.unwrap(), own);
    assert_eq!(format!("{own:?}"), "[WebhookSecret]");
    let denied = t.store.webhook_secrets(&olga, Some(tenant("green"))).await.unwrap_err();
    assert!(matches!(denied, ActionError::Forbidden(_)), "{denied}");
    for role in [Role::Submitter, Role::Worker, Role::Viewer] {
        let denied = t.store.webhook_secrets(&caller("eve", role, "blue"), None).await.unwrap_err();
        assert!(matches!(denied, ActionError::Forbidden(_)), "{denied}");
    }
}

/// Model: callbacks. The worker that delivers callbacks must not be sent anything else.
async fn nothing_else_is_put_among_reports(t: &Fixture) {
    let among = NewJob { queue: crate::fixture::queue(callback::QUEUE), ..new_job("email.send") };
    let refused = t.refused(vec![among]).await;
    assert!(
        matches!(&refused, SubmitError::Invalid { invalid, .. } if invalid.field == "queue"),
        "{refused}"
    );
    let settings = QueueSettings { push: Some(Push::to(URL)), ..QueueSettings::default() };
    let settings = Settings::Queue(crate::fixture::queue(callback::QUEUE), settings);
    let refused = t.store.configure(&t.me, settings).await.unwrap_err();
    assert!(matches!(&refused, ActionError::Invalid(invalid) if invalid.field == "push"), "{refused}");
}

/// Model: callbacks, concurrency-limits
async fn a_slow_receiver_holds_up_its_own_reports_only(t: &Fixture) {
    let end = async |url: &str| {
        let mut job = new_job("email.send");
        job.metadata.callback_url = Some(url.into());
        let id = t.submit(job).await.id;
        t.cancel(id).await;
    };
    for _ in 0..30 {
        end("https://Slow.example:8443/a?b").await;
    }
    end(URL).await;
    let carrier = t.worker_for(&[callback::QUEUE], &[]).await;
    let claimed = t.claim(carrier, 100).await;
    let to = |receiver: &str| {
        claimed.iter().filter(|job| job.spec.concurrency_key.as_deref() == Some(receiver)).count()
    };
    assert_eq!((to("slow.example:8443"), to("example.com")), (8, 1));
    end("https://slow.example:8443/c").await;
    assert!(t.claim(carrier, 100).await.is_empty(), "one that is new waits as well");
    t.complete(carrier, &claimed[0]).await;
    assert_eq!(t.claim(carrier, 100).await.len(), 1, "the next takes its place");
}

/// Model: callbacks
async fn a_replaced_secret_signs_for_another_day(t: &Fixture) {
    let blue = || Some(tenant("blue"));
    let first = t.store.webhook_secrets(&t.me, blue()).await.unwrap().remove(0);
    let both = t.store.rotate_webhook_secret(&t.me, blue()).await.unwrap();
    assert_eq!((both.len(), &both[1]), (2, &first));
    assert_eq!(t.store.webhook_secrets(&t.me, blue()).await.unwrap(), both);
    let records = t.records(RecordQuery::default()).await;
    assert!(records.iter().any(|record| record.event.as_str() == "key.ops.secret_rotated"));
    let recorded = format!("{records:?}");
    assert!(!recorded.contains(both[0].reveal()) && !recorded.contains(first.reveal()));
    t.advance(Duration::from_secs(24 * 3600));
    assert_eq!(t.store.webhook_secrets(&t.me, blue()).await.unwrap(), both[..1]);
    let fresh = t.store.rotate_webhook_secret(&t.me, None).await.unwrap();
    assert_eq!(fresh.len(), 1, "there was none before");
    let denied = t.store.rotate_webhook_secret(&caller("eve", Role::Submitter, "blue"), None).await;
    assert!(matches!(denied, Err(ActionError::Forbidden(_))));
}
