//! Tests of tickets: what is signed, and that nothing of it can be changed.

use super::*;

const NOW: i64 = 1_800_000_000_000;

fn key() -> TicketKey {
    TicketKey::new([1, 2])
}

fn subject(payload: &[u8]) -> (JobId, JobType, Tenant, Vec<u8>) {
    let id = JobId::new(Timestamp::from_millis(NOW), 7);
    (id, JobType::new("email.send").unwrap(), Tenant::default(), payload.to_vec())
}

fn issued(payload: &[u8]) -> Ticket {
    let (id, job_type, tenant, payload) = subject(payload);
    let subject =
        Subject { id, job_type: &job_type, tenant: &tenant, actor: "so \"quoted\"", payload: &payload };
    let now = Timestamp::from_millis(NOW);
    Ticket::issue(&key(), subject, 99, now, now.plus(std::time::Duration::from_secs(60)))
}

fn verdict(ticket: &Ticket, payload: &[u8], later: u64) -> Result<(), TicketFault> {
    let (id, job_type, tenant, payload) = subject(payload);
    let subject =
        Subject { id, job_type: &job_type, tenant: &tenant, actor: "so \"quoted\"", payload: &payload };
    let now = Timestamp::from_millis(NOW).plus(std::time::Duration::from_secs(later));
    ticket.verify(&[key().public()], subject, now)
}

/// M94: so that any language can verify it.
#[test]
fn what_is_signed_is_the_ticket_without_its_signature_and_without_spaces() {
    let ticket = issued(b"{}");
    let expected = concat!(
        r#"{"actor":"so \"quoted\"","expires":"2027-01-15T08:01:00.000Z","#,
        r#""id":"01a3185c-5000-4000-8000-000000000007","issued":"2027-01-15T08:00:00.000Z","#,
        r#""nonce":"00000000000000000000000000000063","#,
        r#""payload_sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
        r#""tenant":"default","type":"email.send"}"#,
    );
    let signed = String::from_utf8(ticket.signed()).unwrap();
    assert_eq!(signed, expected);
    let mut shown = serde_json::to_value(&ticket).unwrap();
    let signature = shown.as_object_mut().unwrap().remove("signature").unwrap();
    assert_eq!(signature.as_str().unwrap().len(), 128);
    assert_eq!(shown, serde_json::from_str::<serde_json::Value>(&signed).unwrap());
    let back: Ticket = serde_json::from_slice(&serde_json::to_vec(&ticket).unwrap()).unwrap();
    assert_eq!(back, ticket);
}

/// M94
#[test]
fn a_ticket_is_good_for_its_job_until_it_expires() {
    let ticket = issued(b"{}");
    assert_eq!(verdict(&ticket, b"{}", 59), Ok(()));
    assert_eq!(verdict(&ticket, b"{}", 60), Err(TicketFault::Expired));
    assert_eq!(verdict(&ticket, b"{ }", 0), Err(TicketFault::PayloadMismatch));
}

/// M94: every bit of every field.
#[test]
fn a_ticket_with_any_bit_flipped_is_invalid() {
    let ticket = issued(b"{}");
    let texts: [fn(&mut Ticket) -> &mut String; 7] = [
        |ticket| &mut ticket.actor,
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
            let fault = verdict(&changed, b"{}", 0).expect_err("it was changed");
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
            assert_eq!(verdict(&changed, b"{}", 0), Err(TicketFault::BadSignature));
        }
    }
}

/// M94
#[test]
fn a_ticket_is_good_for_no_other_job() {
    let ticket = issued(b"{}");
    let (id, job_type, tenant, payload) = subject(b"{}");
    let own = Subject { id, job_type: &job_type, tenant: &tenant, actor: "so \"quoted\"", payload: &payload };
    let (other_type, other_tenant) = (JobType::new("email.sent").unwrap(), Tenant::new("acme").unwrap());
    let others = [
        Subject { id: JobId::new(Timestamp::MIN, 8), ..own },
        Subject { job_type: &other_type, ..own },
        Subject { tenant: &other_tenant, ..own },
        Subject { actor: "mallory", ..own },
    ];
    for other in others {
        let fault = ticket.verify(&[key().public()], other, Timestamp::MIN).unwrap_err();
        assert!(matches!(fault, TicketFault::OtherJob(_)), "{fault}");
        assert_eq!(fault.code(), "ticket_invalid");
    }
    let another_key = TicketKey::new([1, 3]).public();
    let unknown = ticket.verify(std::slice::from_ref(&another_key), own, Timestamp::MIN);
    assert_eq!(unknown, Err(TicketFault::BadSignature));
    let either = ticket.verify(&[another_key, key().public()], own, Timestamp::MIN);
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
