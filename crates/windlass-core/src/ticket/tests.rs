//! Tests of tickets: what is signed, and that nothing of it can be changed.

use super::*;
use crate::job::{JobMetadata, JobType, Payload, QueueName, Tenant, WorkerVersion};

const NOW: i64 = 1_800_000_000_000;

fn key() -> TicketKey {
    TicketKey::new([1, 2])
}

/// A job, and what was submitted for it.
struct Submitted {
    id: JobId,
    lane: Lane,
    spec: Spec,
}

impl Submitted {
    fn new(payload: &[u8]) -> Submitted {
        let lane = Lane::new(Tenant::default(), QueueName::default(), JobType::new("email.send").unwrap());
        let metadata = JobMetadata {
            tags: [("plan".to_owned(), "pro".to_owned())].into(),
            correlation_id: Some("order-7".into()),
            callback_url: Some("https://example.com/hook".into()),
        };
        let spec = Spec {
            payload: Payload::json(payload),
            idempotency_key: Some("i".into()),
            unique_key: Some("u".into()),
            concurrency_key: Some("c".into()),
            owner: "so \"quoted\"".into(),
            traceparent: Some("00-1-2-01".into()),
            tracestate: None,
            baggage: None,
            metadata,
            ..Spec::unknown()
        };
        Submitted { id: JobId::new(Timestamp::from_millis(NOW), 7), lane, spec }
    }

    fn subject(&self) -> Subject<'_> {
        Subject { id: self.id, lane: &self.lane, spec: &self.spec }
    }
}

fn issued(payload: &[u8]) -> Ticket {
    let now = Timestamp::from_millis(NOW);
    let expires = now.plus(std::time::Duration::from_secs(60));
    Ticket::issue(&key(), Submitted::new(payload).subject(), 99, now, expires)
}

fn verify(ticket: &Ticket, payload: &[u8], later: u64) -> Result<(), TicketFault> {
    let now = Timestamp::from_millis(NOW).plus(std::time::Duration::from_secs(later));
    ticket.verify(&[key().public()], Submitted::new(payload).subject(), now)
}

/// Model: tickets. So that any language can verify it.
#[test]
fn what_is_signed_is_the_ticket_without_its_signature_and_without_spaces() {
    let ticket = issued(b"{}");
    let expected = concat!(
        r#"{"actor":"so \"quoted\"","callback_url":"https://example.com/hook","concurrency_key":"c","#,
        r#""content_type":"application/json","context":"windlass.job-ticket.v1","correlation_id":"order-7","#,
        r#""expires":"2027-01-15T08:01:00.000Z","id":"01a3185c-5000-4000-8000-000000000007","#,
        r#""idempotency_key":"i","issued":"2027-01-15T08:00:00.000Z","key_id":"KEY_ID","#,
        r#""nonce":"00000000000000000000000000000063","#,
        r#""payload_sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
        r#""queue":"default","tags_sha256":"TAGS","tenant":"default","traceparent":"00-1-2-01","#,
        r#""type":"email.send","unique_key":"u"}"#,
    );
    let expected = expected.replace("KEY_ID", &key().public().id());
    let expected = expected.replace("TAGS", &sha256(br#"{"plan":"pro"}"#));
    let signed = String::from_utf8(ticket.signed()).unwrap();
    assert_eq!(signed, expected);
    let mut shown = serde_json::to_value(&ticket).unwrap();
    let signature = shown.as_object_mut().unwrap().remove("signature").unwrap();
    assert_eq!(signature.as_str().unwrap().len(), 128);
    assert_eq!(shown, serde_json::from_str::<serde_json::Value>(&signed).unwrap());
    let back: Ticket = serde_json::from_slice(&serde_json::to_vec(&ticket).unwrap()).unwrap();
    assert_eq!(back, ticket);
}

/// Model: tickets
#[test]
fn a_ticket_is_good_for_its_job_until_it_expires() {
    let ticket = issued(b"{}");
    assert_eq!(verify(&ticket, b"{}", 59), Ok(()));
    assert_eq!(verify(&ticket, b"{}", 60), Err(TicketFault::Expired));
    assert_eq!(verify(&ticket, b"{ }", 0), Err(TicketFault::PayloadMismatch));
}

/// Model: tickets, worker-versions
#[test]
fn a_ticket_names_the_version_that_the_job_requires() {
    let now = Timestamp::from_millis(NOW);
    let requiring = |version: Option<&str>| {
        let version = version.map(|text| WorkerVersion::new(text).unwrap());
        let job = Submitted::new(b"{}");
        Submitted { lane: job.lane.clone().requiring(version), ..job }
    };
    let expires = now.plus(std::time::Duration::from_secs(60));
    for (own, others) in [(Some("v1"), [None, Some("v2")]), (None, [Some("v1"), Some("v2")])] {
        let ticket = Ticket::issue(&key(), requiring(own).subject(), 99, now, expires);
        let verify = |version| ticket.verify(&[key().public()], requiring(version).subject(), now);
        assert_eq!(verify(own), Ok(()));
        for other in others {
            assert_eq!(verify(other), Err(TicketFault::OtherJob("worker version")));
        }
    }
}

/// Model: tickets. Every bit of every field.
#[test]
fn a_ticket_with_any_bit_flipped_is_invalid() {
    let ticket = issued(b"{}");
    let texts: [fn(&mut Ticket) -> &mut String; 18] = [
        |ticket| &mut ticket.actor,
        |ticket| ticket.callback_url.as_mut().unwrap(),
        |ticket| ticket.concurrency_key.as_mut().unwrap(),
        |ticket| &mut ticket.content_type,
        |ticket| &mut ticket.context,
        |ticket| ticket.correlation_id.as_mut().unwrap(),
        |ticket| ticket.idempotency_key.as_mut().unwrap(),
        |ticket| &mut ticket.key_id,
        |ticket| &mut ticket.queue,
        |ticket| ticket.tags_sha256.as_mut().unwrap(),
        |ticket| ticket.traceparent.as_mut().unwrap(),
        |ticket| ticket.unique_key.as_mut().unwrap(),
        |ticket| &mut ticket.id,
        |ticket| &mut ticket.nonce,
        |ticket| &mut ticket.payload_sha256,
        |ticket| &mut ticket.tenant,
        |ticket| &mut ticket.job_type,
        |ticket| &mut ticket.signature,
    ];
    for field in texts {
        let mut changed = ticket.clone();
        let length = field(&mut changed).len();
        for bit in 0..length * 7 {
            let mut changed = ticket.clone();
            let text = field(&mut changed);
            // The highest bit is left alone: a text would not be one any more.
            let mut bytes = std::mem::take(text).into_bytes();
            bytes[bit / 7] ^= 1 << (bit % 7);
            *text = String::from_utf8(bytes).unwrap();
            let fault = verify(&changed, b"{}", 0).expect_err("it was changed");
            assert_eq!((fault, fault.code()), (TicketFault::BadSignature, "ticket_invalid"), "{changed:?}");
        }
    }
    for bit in 0..40 {
        let moments: [fn(&mut Ticket) -> &mut Timestamp; 2] =
            [|ticket| &mut ticket.expires, |ticket| &mut ticket.issued];
        for field in moments {
            let mut changed = ticket.clone();
            let at = field(&mut changed);
            *at = Timestamp::from_millis(at.as_millis() ^ (1 << bit));
            assert_eq!(verify(&changed, b"{}", 0), Err(TicketFault::BadSignature));
        }
    }
}

/// Model: tickets
/// Changes what a ticket was issued for.
type Change = fn(&mut Submitted);

#[test]
fn a_ticket_is_good_for_no_other_job() {
    let ticket = issued(b"{}");
    let own = Submitted::new(b"{}");
    // What may be absent is also changed to something else: a ticket says more than whether it is there.
    let changes: [(&str, Change); 20] = [
        ("job", |job| job.id = JobId::new(Timestamp::MIN, 8)),
        ("type", |job| job.lane.job_type = JobType::new("email.sent").unwrap()),
        ("tenant", |job| job.lane.tenant = Tenant::new("acme").unwrap()),
        ("queue", |job| job.lane.queue = QueueName::new("other").unwrap()),
        ("actor", |job| job.spec.owner = "mallory".into()),
        ("content type", |job| job.spec.payload.content_type = "text/plain".into()),
        ("callback URL", |job| job.spec.metadata.callback_url = None),
        ("idempotency key", |job| job.spec.idempotency_key = None),
        ("unique key", |job| job.spec.unique_key = Some("v".into())),
        ("concurrency key", |job| job.spec.concurrency_key = None),
        ("correlation id", |job| job.spec.metadata.correlation_id = Some("order-8".into())),
        ("trace", |job| job.spec.traceparent = None),
        ("set of tags", |job| drop(job.spec.metadata.tags.insert("plan".into(), "free".into()))),
        ("callback URL", |job| job.spec.metadata.callback_url = Some("https://example.com/mallory".into())),
        ("idempotency key", |job| job.spec.idempotency_key = Some("j".into())),
        ("unique key", |job| job.spec.unique_key = None),
        ("concurrency key", |job| job.spec.concurrency_key = Some("d".into())),
        ("correlation id", |job| job.spec.metadata.correlation_id = None),
        ("trace", |job| job.spec.traceparent = Some("00-1-3-01".into())),
        ("set of tags", |job| job.spec.metadata.tags.clear()),
    ];
    for (what, change) in changes {
        let mut other = Submitted::new(b"{}");
        change(&mut other);
        let fault = ticket.verify(&[key().public()], other.subject(), Timestamp::MIN).unwrap_err();
        assert_eq!((fault, fault.code()), (TicketFault::OtherJob(what), "ticket_invalid"));
    }
    let another_key = TicketKey::new([1, 3]).public();
    let unknown = ticket.verify(std::slice::from_ref(&another_key), own.subject(), Timestamp::MIN);
    assert_eq!(unknown, Err(TicketFault::BadSignature));
    let either = ticket.verify(&[another_key, key().public()], own.subject(), Timestamp::MIN);
    assert_eq!(either, Ok(()), "a key that was replaced may still be trusted");
}

#[test]
fn keys_read_back_and_are_not_shown_by_accident() {
    let key = key();
    assert_eq!(key.reveal().parse(), Ok(key.clone()));
    assert_eq!(key.public().to_string().parse(), Ok(key.public()));
    assert_eq!(format!("{key:?}"), format!("TicketKey({})", key.public()));
    for text in
        ["", "wtsk_", "wtsk_00", &key.reveal()[1..], &key.reveal().to_uppercase(), &key.public().to_string()]
    {
        assert!(text.parse::<TicketKey>().is_err(), "{text}");
    }
    assert!(key.reveal().parse::<TicketPublicKey>().is_err());
}
