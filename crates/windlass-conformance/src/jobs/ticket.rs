//! Signed tickets: a job that was changed in the database does not run.

use std::sync::Arc;
use std::time::Duration;

use windlass::audit::{AuditEvent, AuditLevel};
use windlass::clock::Timestamp;
use windlass::job::{Debounce, Failure, JobId, JobRecord, JobState, Lane, NewJob, Payload, RareFields, Spec};
use windlass::settings::QueueSettings;
use windlass::store::engine::RecordQuery;
use windlass::store::{ActionRequest, Patch, Redrive, StoreOptions, Suspend, TicketOptions};
use windlass::testing::tamper;
use windlass::ticket::{Subject, Ticket, TicketKey};

use crate::fixture::{Fixture, job_type, new_job, queue, secs, tenant};

tests!(
    jobs_ticket, jobs::ticket:
    a_job_that_was_not_touched_runs,
    a_changed_ticket_is_refused,
    a_changed_job_is_refused,
    a_refusal_is_final_audited_and_in_the_way_of_no_job,
    an_expired_ticket_is_refused,
    a_resume_issues_a_new_ticket,
    a_redrive_issues_a_new_ticket,
    a_change_of_labels_issues_a_new_ticket,
    a_debounced_submission_does_not_make_good_what_was_tampered_with,
    what_was_tampered_with_is_not_made_good,
    a_ticket_of_another_key_is_refused_unless_it_is_trusted,
    without_tickets_nothing_is_asked_for,
);

fn key(number: u128) -> TicketKey {
    TicketKey::new([7, number])
}

fn signing(tickets: TicketOptions) -> StoreOptions {
    StoreOptions { tickets: Some(tickets), ..StoreOptions::default() }
}

/// A store with tickets, on the same engine.
fn ticketed(t: &Fixture) -> Fixture {
    t.another(signing(TicketOptions::new(key(1))))
}

async fn code_of(t: &Fixture, id: JobId) -> Option<String> {
    let job = t.get(id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::Failed, 0), "it never ran");
    job.details.error.as_ref().and_then(|error| error.code.clone())
}

/// Submits a job, changes it, and gives the code with which it is refused.
async fn refusal(t: &Fixture, change: fn(&mut JobRecord, &mut Spec)) -> Option<String> {
    let id = t.submit(new_job("email.send")).await.id;
    tamper(&t.store, id, change).await;
    let worker = t.worker().await;
    assert!(t.claim(worker, 10).await.is_empty(), "it reaches no handler");
    code_of(t, id).await
}

fn ticket_of(job: &mut JobRecord) -> &mut Ticket {
    job.details_mut().ticket.as_mut().expect("it has a ticket")
}

/// Changes one bit of the first letter.
fn flip(text: &mut String) {
    let first = text.remove(0);
    text.insert(0, char::from(u8::try_from(first).unwrap() ^ 1));
}

/// Model: tickets
async fn a_job_that_was_not_touched_runs(t: &Fixture) {
    let t = ticketed(t);
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let ticket = claimed.ticket().expect("it is offered to the worker").clone();
    let subject = Subject { id: claimed.job.id, lane: &claimed.job.lane, spec: &claimed.spec };
    assert_eq!(ticket.verify(&[key(1).public()], subject, t.now()), Ok(()));
    assert_eq!(ticket.expires, claimed.job.expires_at);
    t.fail(worker, &claimed, Failure::temporary("again")).await;
    t.advance(secs(5));
    let again = t.claim_one(worker).await;
    assert_eq!((again.ticket(), again.job.attempt), (Some(&ticket), 2), "it is good for every attempt");
    t.verify().await;
}

/// Model: tickets. Every field.
async fn a_changed_ticket_is_refused(t: &Fixture) {
    let t = ticketed(t);
    let changes: [fn(&mut JobRecord, &mut Spec); 12] = [
        |job, _| flip(&mut ticket_of(job).queue),
        |job, _| flip(&mut ticket_of(job).key_id),
        |job, _| flip(&mut ticket_of(job).actor),
        |job, _| flip(&mut ticket_of(job).id),
        |job, _| flip(&mut ticket_of(job).nonce),
        |job, _| flip(&mut ticket_of(job).payload_sha256),
        |job, _| flip(&mut ticket_of(job).tenant),
        |job, _| flip(&mut ticket_of(job).job_type),
        |job, _| flip(&mut ticket_of(job).signature),
        |job, _| ticket_of(job).expires = Timestamp::MAX,
        |job, _| ticket_of(job).issued = Timestamp::MIN,
        |job, _| job.details_mut().ticket = None,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert_eq!(refusal(&t, change).await.as_deref(), Some("ticket_invalid"), "change {at}");
    }
    t.verify().await;
}

/// Model: tickets. Everything that the ticket speaks of.
async fn a_changed_job_is_refused(t: &Fixture) {
    let t = ticketed(t);
    let moved: [fn(&mut JobRecord, &mut Spec); 13] = [
        |job, _| job.lane = Arc::new(Lane { queue: queue("other"), ..Lane::clone(&job.lane) }),
        |_, spec| spec.payload.content_type = "text/plain".into(),
        |_, spec| spec.idempotency_key = Some("other".into()),
        |job, spec| (job.has.unique_key, spec.unique_key) = (true, Some("other".into())),
        |_, spec| spec.concurrency_key = Some("other".into()),
        |_, spec| spec.metadata.callback_url = Some("https://example.com/mallory".into()),
        |_, spec| spec.metadata.correlation_id = Some("other".into()),
        |_, spec| spec.metadata.tags = [("plan".to_owned(), "pro".to_owned())].into(),
        |_, spec| spec.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        |job, _| flip(&mut ticket_of(job).context),
        |job, _| job.lane = Arc::new(Lane { job_type: job_type("email.spam"), ..Lane::clone(&job.lane) }),
        |job, _| job.lane = Arc::new(Lane { tenant: tenant("acme"), ..Lane::clone(&job.lane) }),
        |_, spec| spec.owner = "mallory".into(),
    ];
    for change in moved {
        assert_eq!(refusal(&t, change).await.as_deref(), Some("ticket_invalid"));
    }
    let forged = |_: &mut JobRecord, spec: &mut Spec| spec.payload = Payload::json(r#"{"to":"x@y.z"}"#);
    assert_eq!(refusal(&t, forged).await.as_deref(), Some("payload_mismatch"));
    // A ticket of one job does not fit another, though both are genuine.
    let first = t.submit(new_job("email.send")).await;
    let second = t.submit(new_job("email.send")).await.id;
    let borrowed = first.details.ticket.clone();
    tamper(&t.store, second, move |job, _| job.details_mut().ticket.clone_from(&borrowed)).await;
    let worker = t.worker().await;
    assert_eq!(t.claim_ids(worker, 10).await, [first.id]);
    assert_eq!(code_of(&t, second).await.as_deref(), Some("ticket_invalid"));
    t.verify().await;
}

/// Model: audit-trail, tickets
async fn a_refusal_is_final_audited_and_in_the_way_of_no_job(t: &Fixture) {
    let t = ticketed(t);
    t.set_queue("default", QueueSettings { audit: Some(AuditLevel::Operators), ..QueueSettings::default() })
        .await;
    let bad = t.submit(new_job("email.send")).await.id;
    tamper(&t.store, bad, |job, _| job.details_mut().ticket = None).await;
    let dependent = t.submit(crate::fixture::after(&[bad])).await.id;
    let good = t.submit(new_job("email.send")).await.id;
    let worker = t.worker().await;
    assert_eq!(t.claim_ids(worker, 1).await, [good]);
    assert_eq!(t.state(dependent).await, JobState::Failed, "it ends as any other failure");
    let query = RecordQuery { event: Some(AuditEvent::Refused), ..RecordQuery::default() };
    let records = t.records(query).await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].job, Some(bad));
    assert!(records[0].context.contains("ticket_invalid") && records[0].context.contains("no ticket"));
}

/// Model: tickets
async fn an_expired_ticket_is_refused(t: &Fixture) {
    let short = TicketOptions { lifetime: Some(secs(60)), ..TicketOptions::new(key(1)) };
    let t = t.another(signing(short));
    let id = t.submit(new_job("email.send")).await.id;
    t.advance(secs(60));
    let worker = t.worker().await;
    assert!(t.claim(worker, 10).await.is_empty());
    assert_eq!(code_of(&t, id).await.as_deref(), Some("ticket_expired"));
    // A job whose lifetime was lengthened.
    let job = NewJob { lifetime: Some(secs(30)), ..new_job("email.send") };
    let id = t.submit(job).await.id;
    tamper(&t.store, id, |job, _| job.expires_at = Timestamp::MAX).await;
    t.advance(secs(30));
    assert!(t.claim(worker, 10).await.is_empty());
    assert_eq!(code_of(&t, id).await.as_deref(), Some("ticket_expired"));
    t.verify().await;
}

/// Model: resume, tickets. The lifetime stood still, and the ticket with it, however the job is resumed.
async fn a_resume_issues_a_new_ticket(t: &Fixture) {
    let t = ticketed(t);
    let job = NewJob { lifetime: Some(secs(60)), ..new_job("email.send") };
    let (by_hand, by_itself) = (t.submit(job.clone()).await, t.submit(job).await);
    t.suspend(by_hand.id).await;
    let expiring = Suspend { expires: Some(secs(120)), ..Suspend::default() };
    t.act(by_itself.id, ActionRequest::Suspend(expiring)).await;
    t.advance(secs(120));
    t.resume(by_hand.id).await;
    t.tick().await;
    t.advance(Duration::from_millis(59_999));
    let worker = t.worker().await;
    let claimed = t.claim(worker, 10).await;
    assert_eq!(claimed.len(), 2);
    for (claimed, before) in claimed.iter().zip([&by_hand, &by_itself]) {
        let ticket = claimed.ticket().unwrap();
        assert_ne!(Some(ticket), before.details.ticket.as_deref());
        assert_eq!(ticket.expires, claimed.job.expires_at);
    }
    t.verify().await;
}

/// Model: tickets. What an operator changes is signed again, unless it had been tampered with before.
async fn a_change_of_labels_issues_a_new_ticket(t: &Fixture) {
    let t = ticketed(t);
    let set_metadata = || {
        let callback_url = Some(Some("https://example.com/new".to_owned()));
        ActionRequest::Patch(Patch { callback_url, ..Patch::default() })
    };
    let (good, bad) = (t.submit(new_job("email.send")).await.id, t.submit(new_job("email.send")).await.id);
    tamper(&t.store, bad, |_, spec| spec.owner = "mallory".into()).await;
    t.act(good, set_metadata()).await;
    t.act(bad, set_metadata()).await;
    let worker = t.worker().await;
    assert_eq!(t.claim_ids(worker, 10).await, [good]);
    assert_eq!(code_of(&t, bad).await.as_deref(), Some("ticket_invalid"));
    t.verify().await;
}

/// Model: tickets
async fn a_debounced_submission_does_not_make_good_what_was_tampered_with(t: &Fixture) {
    let t = ticketed(t);
    let save = |key: &str| {
        let debounce = Some(Debounce { key: key.into(), delay: secs(5) });
        NewJob { debounce, ..new_job("email.send") }
    };
    let (good, bad) = (t.submit(save("one")).await.id, t.submit(save("two")).await.id);
    tamper(&t.store, bad, |_, spec| spec.metadata.callback_url = Some("https://example.com/x".into())).await;
    for key in ["one", "two"] {
        assert!(t.submit_all(vec![save(key)]).await[0].is_debounced);
    }
    t.advance(secs(5));
    let worker = t.worker().await;
    assert_eq!(t.claim_ids(worker, 10).await, [good]);
    assert_eq!(code_of(&t, bad).await.as_deref(), Some("ticket_invalid"));
    t.verify().await;
}

/// Model: final-states, tickets
async fn a_redrive_issues_a_new_ticket(t: &Fixture) {
    let short = TicketOptions { lifetime: Some(secs(60)), ..TicketOptions::new(key(1)) };
    let t = t.another(signing(short));
    let id = t.submit(new_job("email.send")).await.id;
    t.advance(secs(60));
    let worker = t.worker().await;
    assert!(t.claim(worker, 10).await.is_empty());
    let again = t.store.redrive(&t.me, id, Redrive::default()).await.unwrap();
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.job.id, again.id);
    assert_eq!(claimed.ticket().unwrap().id, again.id.to_string());
    t.verify().await;
}

/// Model: tickets. Neither by a resume nor by a redrive.
async fn what_was_tampered_with_is_not_made_good(t: &Fixture) {
    let t = ticketed(t);
    let forge = |_: &mut JobRecord, spec: &mut Spec| spec.payload = Payload::json(r#"{"to":"x@y.z"}"#);
    let id = t.submit(new_job("email.send")).await.id;
    t.suspend(id).await;
    tamper(&t.store, id, forge).await;
    t.resume(id).await;
    let worker = t.worker().await;
    assert!(t.claim(worker, 10).await.is_empty());
    assert_eq!(code_of(&t, id).await.as_deref(), Some("payload_mismatch"));
    let again = t.store.redrive(&t.me, id, Redrive::default()).await.unwrap().id;
    assert!(t.claim(worker, 10).await.is_empty());
    assert_eq!(code_of(&t, again).await.as_deref(), Some("ticket_invalid"));
    // A job that never had a ticket is vouched for by the caller that redrives it.
    let before = t.submit(new_job("email.send")).await.id;
    tamper(&t.store, before, |job, _| job.details = Arc::new(RareFields::default())).await;
    assert!(t.claim(worker, 10).await.is_empty());
    let again = t.store.redrive(&t.me, before, Redrive::default()).await.unwrap().id;
    assert_eq!(t.claim_ids(worker, 10).await, [again]);
}

/// Model: tickets. A key is replaced by trusting the one before for a while.
async fn a_ticket_of_another_key_is_refused_unless_it_is_trusted(t: &Fixture) {
    for (options, runs) in [
        (TicketOptions::new(key(2)), false),
        (TicketOptions { trusted: vec![key(1).public()], ..TicketOptions::new(key(2)) }, true),
    ] {
        let t = t.another(signing(options));
        let id = t.submit(new_job("email.send")).await.id;
        tamper(&t.store, id, |job, spec| {
            let lane = job.lane.clone();
            let subject = Subject { id: job.id, lane: &lane, spec };
            *ticket_of(job) = Ticket::issue(&key(1), subject, 5, job.created_at, job.expires_at);
        })
        .await;
        let worker = t.worker().await;
        assert_eq!(t.claim_ids(worker, 10).await.len(), usize::from(runs));
        if !runs {
            assert_eq!(code_of(&t, id).await.as_deref(), Some("ticket_invalid"));
        }
    }
}

/// Model: tickets. Off by default.
async fn without_tickets_nothing_is_asked_for(t: &Fixture) {
    let id = t.submit(new_job("email.send")).await.id;
    assert_eq!(t.get(id).await.job.details.ticket, None);
    tamper(&t.store, id, |_, spec| spec.payload = Payload::json("1")).await;
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    assert_eq!((claimed.job.id, claimed.ticket()), (id, None));
}
