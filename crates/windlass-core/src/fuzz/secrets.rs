//! API keys, tokens of jobs, tickets, heads of the audit trail: a text that was changed is not taken for the original.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use sha2::Digest as _;
use windlass_fuzz::Family;

use super::{refused, same};
use crate::audit::{Seal, SealPoint};
use crate::clock::Timestamp;
use crate::job::{JobId, JobMetadata, JobType, Lane, Payload, QueueName, Spec, Tenant};
use crate::key::{JobToken, KeyId, KeySecret};
use crate::ticket::{Subject, Ticket, TicketKey, TicketPublicKey};

fn secret() -> KeySecret {
    KeySecret::new(0x0123_4567_89ab_cdef, [1 << 99, 2])
}

#[test]
fn a_secret_has_one_spelling_and_a_changed_one_is_noticed() {
    let secret = secret();
    Family::new("key").seeds([secret.reveal(), "wl_", ""]).words(["wl_", "WL_", "a", "F"]).text(|text| {
        match KeySecret::parse(text) {
            Some(read) if text == secret.reveal() => same("id", read.id(), secret.id()),
            // 32 bits of checksum: a change in one place is never overlooked, but two secrets may be spliced.
            Some(read) => same("spelling", read.reveal(), text),
            None if text == secret.reveal() => Err("is refused".to_owned()),
            None => Ok(()),
        }?;
        match text.parse::<KeyId>() {
            Ok(id) => same("id", id.as_str(), text),
            Err(problem) => refused(&problem),
        }
    });
}

#[test]
fn a_token_has_one_spelling_and_a_changed_one_is_not_valid() {
    let (secret, now) = (secret(), Timestamp::from_millis(1_800_000_000_000));
    let token = JobToken::new(secret.id(), &secret.hash(), JobId::new(now, 5), now).reveal();
    // Other spellings of the same job and the same moment.
    let parts: Vec<&str> = token.split('_').collect();
    let [_, key, job, end, signature] = parts[..] else { panic!("{token}") };
    let spelled = |job: &str, end: &str| format!("wlj_{key}_{job}_{end}_{signature}");
    let seeds = [
        spelled(&job.replace('-', ""), end),
        spelled(&job.to_uppercase(), end),
        spelled(job, &format!("+{end}")),
        spelled(job, &format!("0{end}")),
        spelled(job, &end.to_uppercase()),
        token.clone(),
    ];
    Family::new("job-token").seeds(seeds).words(["+", "-", "_", "0", "A", "wlj_", "urn:uuid:", "{"]).text(
        |text| {
            let Some(read) = JobToken::parse(text) else {
                return if text == token { Err("is refused".to_owned()) } else { Ok(()) };
            };
            same("spelling", read.reveal().as_str(), text)?;
            same("valid", read.is_signed_with(&secret.hash()), text == token)
        },
    );
}

fn lane() -> Lane {
    Lane::new(Tenant::default(), QueueName::default(), JobType::new("email.send").unwrap())
}

fn spec(texts: [String; 4]) -> Spec {
    let [key, value, owner, correlation] = texts;
    let metadata = JobMetadata {
        tags: [(key, value)].into(),
        correlation_id: Some(correlation),
        callback_url: Some("https://example.com/".to_owned()),
    };
    Spec { payload: Payload::json("{}"), owner, metadata, ..Spec::unknown() }
}

fn ticket(spec: &Spec) -> Ticket {
    let now = Timestamp::from_millis(1_800_000_000_000);
    let subject = Subject { id: JobId::new(now, 7), lane: &lane(), spec };
    Ticket::issue(&TicketKey::new([1, 2]), subject, 99, now, now.plus(std::time::Duration::from_secs(60)))
}

/// Model: tickets. Any change of what is signed makes a ticket invalid.
#[test]
fn a_changed_ticket_is_another_ticket() {
    let spec = spec(["plan", "pro", "person", "order-7"].map(str::to_owned));
    let (original, now) = (ticket(&spec), Timestamp::from_millis(1_800_000_000_000));
    let text = serde_json::to_string(&original).unwrap();
    let words =
        ["\"type\":\"x\",", "\"actor\":\"root\"", "\\u0000", "2030-01-31T12:00:00Z", "null", "\"nonce\":"];
    Family::new("ticket").seeds([&text]).words(words).cases(1_000).bytes(|bytes| {
        let read: Ticket = match serde_json::from_slice(bytes) {
            Ok(read) => read,
            Err(problem) => return refused(&problem),
        };
        let lane = lane();
        let subject = Subject { id: JobId::new(now, 7), lane: &lane, spec: &spec };
        let verified = read.verify(&[TicketKey::new([1, 2]).public()], subject, now);
        same("valid", verified.is_ok(), read == original)?;
        let written = serde_json::to_vec(&read).unwrap();
        same("read again", serde_json::from_slice(&written).ok(), Some(read))
    });
}

#[test]
fn keys_and_heads_are_read_as_they_are_written() {
    let (key, hash) = (TicketKey::new([1, 2]), "ab".repeat(32));
    let seal = Seal { through: 7, hash };
    let point = serde_json::to_string(&SealPoint::new(seal.clone(), Some(&key))).unwrap();
    let seeds = [key.reveal(), key.public().to_string(), seal.to_string(), point];
    Family::new("ticket-key").seeds(seeds).words(["wtsk_", "wtpk_", "+", "AB", ":", " "]).text(|text| {
        if let Ok(read) = text.parse::<TicketKey>() {
            same("secret", read.reveal().as_str(), text.trim())?;
        }
        match text.parse::<TicketPublicKey>() {
            Ok(read) => same("public", read.to_string().as_str(), text.trim())?,
            Err(problem) => refused(&problem)?,
        }
        match text.parse::<Seal>() {
            Ok(read) => same("head", read.to_string(), text.trim().to_ascii_lowercase())?,
            Err(problem) => refused(&problem)?,
        }
        let Ok(read) = serde_json::from_str::<SealPoint>(text) else { return Ok(()) };
        let _never_panics = read.signature_fault(&[]);
        let written = serde_json::to_string(&read).unwrap();
        same("point", serde_json::from_str(&written).ok(), Some(read))
    });
}

const PYTHON: &str = r#"
import hashlib, json, sys
for line in sys.stdin:
    ticket = json.loads(line)
    tags = ticket.pop("tags")
    ticket.pop("signature")
    ticket["tags_sha256"] = hashlib.sha256(canonical := json.dumps(tags, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
    signed = json.dumps(ticket, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    print(hashlib.sha256(signed).hexdigest())
"#;

/// Model: tickets. The signed text is what any program gets that sorts the keys and leaves out spaces.
#[test]
fn python_writes_the_same_signed_text() {
    let lines = std::cell::RefCell::new(Vec::new());
    let text = || prop_oneof![any::<String>(), "[ -~]{0,12}", Just("\u{7f}\u{2028}\"\\/\u{1}é😀".to_owned())];
    Family::new("ticket").cases(300).values(&[text(), text(), text(), text()], |texts| {
        let spec = spec(texts);
        let ticket = ticket(&spec);
        let mut json = serde_json::to_value(&ticket).unwrap();
        json["tags"] = serde_json::to_value(&spec.metadata.tags).unwrap();
        let hash = crate::ticket::hexadecimal(&sha2::Sha256::digest(ticket.signed()));
        lines.borrow_mut().push((json.to_string(), hash));
        Ok(())
    });
    let lines = lines.into_inner();
    let input = lines.iter().fold(String::new(), |all, (json, _)| all + json + "\n");
    let mut child = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut to = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answers: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), lines.len());
    for ((json, hash), answer) in lines.iter().zip(&answers) {
        assert_eq!(hash, answer, "{json}");
    }
}
