//! Tests of the audit trail as data: names, levels, the chain.

use proptest::prelude::*;

use super::*;

fn record(seq: u64) -> Record {
    Record {
        seq,
        event: AuditEvent::Completed,
        alias: None,
        at: Timestamp::from_millis(1_700_000_000_000),
        actor_type: "worker".into(),
        actor_id: "w1".into(),
        tenant: Tenant::default(),
        job: Some(JobId::new(Timestamp::MIN, 7)),
        queue: None,
        job_type: None,
        trace_id: None,
        context: "{}".into(),
    }
}

fn seal(records: &[Record]) -> Seal {
    records.iter().fold(Seal::origin(), |seal, record| seal.extend(record))
}

/// Model: audit-trail. A closed list of dotted names, each of which reads back.
#[test]
fn each_event_has_one_dotted_name() {
    let mut names: Vec<&str> = AuditEvent::ALL.iter().map(|event| event.as_str()).collect();
    for event in AuditEvent::ALL {
        assert_eq!(event.as_str().parse(), Ok(*event));
        let parts: Vec<&str> = event.as_str().split('.').collect();
        assert!(parts.len() == 3 && matches!(parts[1], "lifecycle" | "ops"), "{event}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), AuditEvent::ALL.len());
    assert!("job.lifecycle.vanished".parse::<AuditEvent>().is_err());
}

/// Model: audit-trail. The names that the model lists.
#[test]
fn the_events_of_the_model_exist() {
    let lifecycle = "submitted claimed completed failed retried exhausted expired cancelled suspended resumed \
                     redriven reaped";
    let names = lifecycle.split(' ').map(|word| format!("job.lifecycle.{word}"));
    let others = ["job.ops.priority_updated", "queue.ops.paused", "queue.ops.resumed", "worker.ops.paused"];
    let more =
        ["worker.ops.resumed", "gate.ops.closed", "gate.ops.opened", "key.ops.created", "key.ops.revoked"];
    let schedules = ["created", "updated", "deleted", "paused", "resumed", "triggered", "missed", "restored"]
        .map(|word| format!("schedule.ops.{word}"));
    let more = more.map(String::from).into_iter().chain(schedules);
    for name in names.chain(others.map(String::from)).chain(more) {
        assert!(name.parse::<AuditEvent>().is_ok(), "{name}");
    }
}

/// A record that is about no queue and no type has the hash that it had before these were kept.
#[test]
fn old_records_keep_their_hash() {
    let old = seal(&[record(1)]);
    let about = |queue: Option<&str>, job_type: Option<&str>| {
        let queue = queue.map(|name| QueueName::new(name).unwrap());
        let job_type = job_type.map(|name| JobType::new(name).unwrap());
        seal(&[Record { queue, job_type, ..record(1) }])
    };
    assert_eq!(about(None, None), old);
    assert_eq!(old.hash, "feb615f77ccc06c3c9a8549511708987ef1a36f4a8413c570c15f9b7dae3fa6e");
    let all = [about(Some("a"), None), about(None, Some("a")), about(Some("a"), Some("a")), old];
    for (place, one) in all.iter().enumerate() {
        assert!(all[place + 1..].iter().all(|other| other != one), "{place}");
    }
}

/// Model: audit-trail. Operator actions are always kept, final states at `outcomes`, everything at `all`.
#[test]
fn a_level_keeps_what_it_is_for() {
    let finals = [AuditEvent::Completed, AuditEvent::Failed, AuditEvent::Exhausted, AuditEvent::Expired];
    let operator =
        [AuditEvent::Cancelled, AuditEvent::Suspended, AuditEvent::PriorityUpdated, AuditEvent::GateClosed];
    let routine = [AuditEvent::Submitted, AuditEvent::Claimed, AuditEvent::Retried, AuditEvent::Reaped];
    for (level, keeps_routine, keeps_finals) in [
        (AuditLevel::All, true, true),
        (AuditLevel::Outcomes, false, true),
        (AuditLevel::Operators, false, false),
    ] {
        assert!(operator.iter().all(|event| level.keeps(*event)), "{level:?}");
        assert!(finals.iter().all(|event| level.keeps(*event) == keeps_finals), "{level:?}");
        assert!(routine.iter().all(|event| level.keeps(*event) == keeps_routine), "{level:?}");
    }
    assert_eq!(AuditLevel::default(), AuditLevel::Outcomes);
    assert!(AuditEvent::ALL.iter().all(|event| AuditLevel::All.keeps(*event)));
}

/// Model: audit-trail. A type may rename its success.
#[test]
fn an_alias_is_shown_instead_of_the_event() {
    assert_eq!(record(1).name(), "job.lifecycle.completed");
    assert_eq!(Record { alias: Some("EMAIL_SENT".into()), ..record(1) }.name(), "EMAIL_SENT");
}

/// Model: audit-trail. Failures are errors, what recovers by itself is a warning.
#[test]
fn an_event_has_a_severity() {
    assert_eq!(AuditEvent::Failed.severity().as_str(), "error");
    assert_eq!(AuditEvent::Retried.severity().as_str(), "warning");
    assert_eq!(AuditEvent::Completed.severity().as_str(), "info");
}

/// Model: audit-chain. It does not matter where the points of the chain were set.
#[test]
fn a_chain_can_be_continued_from_any_point() {
    let records: Vec<Record> = (1..=5).map(record).collect();
    let halfway = seal(&records[..2]);
    assert_eq!(halfway.through, 2);
    let whole = records[2..].iter().fold(halfway, |seal, record| seal.extend(record));
    assert_eq!(whole, seal(&records));
    assert_eq!((whole.through, whole.hash.len()), (5, 64));
    assert!(whole.hash.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()));
}

/// Model: audit-chain. The chain is the same on every machine and in every version.
#[test]
fn the_hash_of_a_record_is_fixed() {
    let expected = "feb615f77ccc06c3c9a8549511708987ef1a36f4a8413c570c15f9b7dae3fa6e";
    assert_eq!(seal(&[record(1)]).hash, expected);
}

/// Model: audit-chain. An edit of any field shows, also one that only moves text from one field to the next.
#[test]
fn an_edit_of_any_field_breaks_the_chain() {
    let edits: [fn(&mut Record); 14] = [
        |record| record.seq += 1,
        |record| record.event = AuditEvent::Failed,
        |record| record.alias = Some("SENT".into()),
        |record| record.alias = Some(String::new()),
        |record| record.at = record.at.plus(std::time::Duration::from_millis(1)),
        |record| record.actor_type = "user".into(),
        |record| record.actor_id = "w2".into(),
        |record| (record.actor_type, record.actor_id) = ("workerw".into(), "1".into()),
        |record| record.tenant = Tenant::new("other").unwrap(),
        |record| record.job = None,
        |record| record.job = Some(JobId::new(Timestamp::MIN, 8)),
        |record| record.trace_id = Some("t".into()),
        |record| record.trace_id = Some(String::new()),
        |record| record.context.push(' '),
    ];
    let records: Vec<Record> = (1..=3).map(record).collect();
    for (number, edit) in edits.into_iter().enumerate() {
        let mut edited = records.clone();
        edit(&mut edited[1]);
        assert_ne!(seal(&edited).hash, seal(&records).hash, "edit {number}");
    }
}

proptest! {
    /// Model: audit-chain. A gap or another order shows.
    #[test]
    fn a_gap_or_another_order_breaks_the_chain(
        count in 2..10_usize, first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>(),
    ) {
        let records: Vec<Record> = (1..=u64::try_from(count).unwrap()).map(record).collect();
        let (first, second) = (first.index(count), second.index(count));
        let mut missing = records.clone();
        missing.remove(first);
        prop_assert_ne!(seal(&missing).hash, seal(&records).hash);
        let mut swapped = records.clone();
        swapped.swap(first, second);
        prop_assert_eq!(seal(&swapped).hash == seal(&records).hash, first == second);
    }
}

#[test]
fn the_list_of_events_is_closed() {
    // Model: audit-trail
    let expected = [
        "job.lifecycle.submitted",
        "job.lifecycle.claimed",
        "job.lifecycle.completed",
        "job.lifecycle.failed",
        "job.lifecycle.retried",
        "job.lifecycle.exhausted",
        "job.lifecycle.expired",
        "job.lifecycle.cancelled",
        "job.lifecycle.suspended",
        "job.lifecycle.suspend_requested",
        "job.lifecycle.resumed",
        "job.lifecycle.redriven",
        "job.lifecycle.reaped",
        "job.ops.priority_updated",
        "queue.ops.paused",
        "queue.ops.resumed",
        "worker.ops.paused",
        "worker.ops.resumed",
        "gate.ops.closed",
        "gate.ops.opened",
    ];
    for name in expected {
        assert_eq!(name.parse::<AuditEvent>().unwrap().as_str(), name);
    }
    let mut names: Vec<&str> = AuditEvent::ALL.iter().map(|event| event.as_str()).collect();
    let is_dotted = |name: &&str| name.split('.').count() == 3 && !name.contains(char::is_uppercase);
    assert!(names.iter().all(is_dotted), "{names:?}");
    assert!(AuditEvent::ALL.iter().all(|event| event.as_str().parse() == Ok(*event)));
    let lifecycle = names.iter().filter(|name| name.starts_with("job.lifecycle.")).count();
    assert_eq!(lifecycle, 13, "the lifecycle has no other event");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), AuditEvent::ALL.len());
    assert!("job.lifecycle.forgotten".parse::<AuditEvent>().is_err());
    assert_eq!(AuditEvent::Exhausted.severity(), Severity::Error);
}
