//! Records and columns of jobs: any job is read as it was written, and changed bytes are noticed or read without harm.

use std::time::Duration;

use proptest::prelude::*;
use windlass_fuzz::Family;

use super::*;
use crate::job::{ErrorRecord, JobMetadata, JobType, Payload, QueueName, Spec, Tenant, Wait};
use crate::store::engines::sql::columns::{SpecColumns, SpecParts};

fn lane() -> Arc<Lane> {
    Arc::new(Lane::new(
        Tenant::new("acme").unwrap(),
        QueueName::new("mail").unwrap(),
        JobType::new("send").unwrap(),
    ))
}

fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>(), 0..2_000_000_000_000_i64].prop_map(Timestamp::from_millis)
}

fn details() -> impl Strategy<Value = RareFields> {
    let error = (any::<String>(), moment(), any::<u32>()).prop_map(|(message, at, attempt)| ErrorRecord {
        category: crate::job::Category::Timeout,
        code: None,
        message,
        at,
        attempt,
        retry_after: Some(Duration::from_millis(5)),
        retryable: true,
        cause: Vec::new(),
    });
    (
        any::<bool>(),
        prop::option::of(error),
        prop::option::of(moment()),
        any::<u64>(),
        any::<Option<String>>(),
    )
        .prop_map(|(is_held, error, at, log_lines, suspended_by)| RareFields {
            is_held,
            error,
            wait: at.map(|until| Wait::Timer { until }),
            log_lines,
            suspended_by,
            ..RareFields::default()
        })
}

fn flags() -> impl Strategy<Value = JobFlags> {
    any::<[bool; 8]>().prop_map(|bits| {
        let [dependents, unique_key, checkpoints, children, result, callback, claim_ahead, lost_ahead] = bits;
        JobFlags { dependents, unique_key, checkpoints, children, result, callback, claim_ahead, lost_ahead }
    })
}

fn leases() -> impl Strategy<Value = Option<Lease>> {
    let lease = (any::<[u8; 16]>(), moment(), moment()).prop_map(|(worker, expires_at, deadline_at)| Lease {
        worker: WorkerId::from_bytes(worker),
        expires_at,
        deadline_at,
    });
    prop::option::of(lease)
}

fn parents() -> impl Strategy<Value = Option<Parent>> {
    let parts = (any::<i64>(), any::<[u8; 16]>(), any::<u64>(), any::<u32>());
    let parent = parts.prop_map(|(seq, id, group, index)| {
        let (seq, id) = (Seq(seq), JobId::from_bytes(id));
        Parent { seq, id, group, index }
    });
    prop::option::of(parent)
}

fn records() -> impl Strategy<Value = JobRecord> {
    let numbers = (any::<[u32; 5]>(), any::<u64>(), any::<i64>(), any::<i64>(), any::<[u8; 16]>());
    let states = (0..JobState::ALL.len(), 0..=100_i64, 0..=100_i64, any::<[bool; 2]>());
    let times = (prop::array::uniform4(moment()), prop::array::uniform6(prop::option::of(moment())));
    let (key, bytes) = (prop::option::of(any::<i64>()), prop::option::of(any::<[u8; 16]>()));
    let rest = (flags(), leases(), parents(), key, bytes, details());
    (numbers, states, times, rest).prop_map(|(numbers, states, times, rest)| {
        let ([attempt, failures, crashes, after_unmet, depth], fence, cost_cents, seq, id) = numbers;
        let (state, priority, inherited, [any_unmet, is_blocked]) = states;
        let ([created_at, updated_at, run_at, expires_at], optional) = times;
        let [retry_at, eligible_at, scheduled_at, first_started_at, started_at, completed_at] = optional;
        let (has, lease, parent, key, bytes, details) = rest;
        JobRecord {
            seq: Seq(seq),
            id: JobId::from_bytes(id),
            lane: lane(),
            policy: Arc::default(),
            state: JobState::ALL[state],
            priority: Priority::new(priority).unwrap(),
            inherited: Priority::new(inherited).unwrap(),
            attempt,
            failures,
            crashes,
            fence: Fence(fence),
            created_at,
            updated_at,
            run_at,
            retry_at,
            eligible_at,
            scheduled_at,
            first_started_at,
            started_at,
            completed_at,
            expires_at,
            lease,
            completed_by: bytes.map(WorkerId::from_bytes),
            after_unmet,
            any_unmet,
            depth,
            concurrency: key.map(ConcurrencyKey),
            is_blocked,
            parent,
            trace: bytes.map(TraceId::from_bytes),
            cost_cents,
            has,
            details: Arc::new(details),
        }
    })
}

fn head(job: &JobRecord) -> Head {
    Head { seq: job.seq, id: job.id, lane: 3, policy: 5 }
}

fn read(record: &[u8], head: &Head) -> Option<JobRecord> {
    unpack(record, head, Shared { lane: lane(), policy: Arc::default(), no_details: Arc::default() })
}

#[test]
fn any_job_is_read_as_it_was_written() {
    Family::new("job-record").cases(1_000).values(&records(), |job| {
        let (head, mut bytes) = (head(&job), Vec::new());
        pack(&job, &head, &mut bytes);
        if !is_whole(&bytes, &head) {
            return Err("does not match its checksum".to_owned());
        }
        match read(&bytes, &head) {
            Some(again) if again == job => Ok(()),
            other => Err(format!("{job:?} is read as {other:?}")),
        }
    });
}

/// Damage is noticed by the checksum; where it is not, decoding does not panic, and what it finds can be written.
#[test]
fn changed_records_are_noticed_or_read_without_harm() {
    let job = JobRecord {
        lease: Some(Lease {
            worker: WorkerId::from_bytes([1; 16]),
            expires_at: Timestamp::MAX,
            deadline_at: Timestamp::MIN,
        }),
        retry_at: Some(Timestamp::from_millis(5)),
        trace: Some(TraceId::new(9)),
        concurrency: Some(ConcurrencyKey(-5)),
        parent: Some(Parent { seq: Seq(9), id: JobId::from_bytes([2; 16]), group: 1 << 40, index: 7 }),
        details: Arc::new(RareFields { is_held: true, log_lines: 5, ..RareFields::default() }),
        ..JobRecord::new(
            Seq(1),
            JobId::from_bytes([7; 16]),
            lane(),
            Arc::default(),
            Timestamp::from_millis(1_800_000_000_000),
        )
    };
    let (head, mut bytes) = (head(&job), Vec::new());
    pack(&job, &head, &mut bytes);
    let (body, _) = bytes.split_last_chunk::<CRC_BYTES>().unwrap();
    Family::new("job-record")
        .seeds([body])
        .words([&[0x80; 9][..], &[0xff; 10], &[1, 0xff, 0xff, 0xff, 0x7f]])
        .cases(6_000)
        .bytes(|changed| {
            let mut damaged = bytes.clone();
            damaged.splice(..body.len(), changed.iter().copied());
            if is_whole(&damaged, &head) != (changed == body) {
                return Err("the checksum does not tell".to_owned());
            }
            let record = [changed, &head.crc(changed).to_le_bytes()].concat();
            let Some(job) = read(&record, &head) else { return Ok(()) };
            let mut again = Vec::new();
            pack(&job, &head, &mut again);
            if read(&again, &head).as_ref() == Some(&job) {
                Ok(())
            } else {
                Err(format!("{job:?} is not read again"))
            }
        });
}

/// A submission that passes its checks is read from its columns as it was written to them.
#[test]
fn any_submission_is_read_from_its_columns() {
    let text = || prop_oneof![any::<String>(), "[a-z\n:]{0,5}"];
    let header = || prop::option::of(prop_oneof!["[ -~é]{1,9}", Just("00-1-2-01".to_owned())]);
    let ids = || prop::collection::vec(any::<[u8; 16]>().prop_map(JobId::from_bytes), 0..3);
    let values = (
        [header(), header(), header()],
        prop::array::uniform5(prop::option::of(text())),
        prop::collection::btree_map(text(), text(), 0..3),
        (ids(), ids(), prop::collection::vec(any::<u8>(), 0..20), text(), text()),
    );
    Family::new("job-columns").cases(1_000).values(&values, |(headers, texts, tags, rest)| {
        let [traceparent, tracestate, baggage] = headers;
        let [idempotency_key, unique_key, concurrency_key, correlation_id, callback_url] = texts;
        let (after, after_any, payload, owner, content_type) = rest;
        let spec = Spec {
            payload: Payload::bytes(payload, &content_type),
            idempotency_key,
            unique_key,
            concurrency_key,
            metadata: JobMetadata { tags, correlation_id, callback_url },
            owner,
            traceparent,
            tracestate,
            baggage,
            after,
            after_any,
        };
        let parts = SpecParts::new(&spec);
        let columns = SpecColumns::new(&spec, &parts);
        let check = columns.crc(Seq(7));
        let again = columns.into_spec(Seq(7), check).map_err(|problem| problem.to_string())?;
        if again == spec { Ok(()) } else { Err(format!("{spec:?} is read as {again:?}")) }
    });
}
