//! Every field of a job comes back as it was written.

use super::*;

fn has_where(bit: impl Fn(u32) -> bool) -> JobFlags {
    JobFlags {
        dependents: bit(0),
        unique_key: bit(1),
        checkpoints: bit(2),
        children: bit(3),
        result: bit(4),
        callback: bit(5),
        claim_ahead: bit(6),
        lost_ahead: bit(7),
    }
}

/// A job in which every field differs from every other, and from its default.
fn ticket() -> Ticket {
    let lane = Lane::new(Tenant::default(), QueueName::default(), JobType::new("send").unwrap());
    let spec = Spec { owner: "a\"b".into(), ..Spec::unknown() };
    let subject = Subject { id: id(46), lane: &lane, spec: &spec };
    Ticket::issue(&TicketKey::new([47, 48]), subject, 49, at(50), at(51))
}

fn full_details() -> RareFields {
    let suspension = |n: i64| Suspension {
        by: format!("by{n}"),
        reason: Some(format!("reason{n}")),
        mode: SuspendMode::Graceful,
        at: at(n + 100),
        expires_at: Some(at(n)),
        by_pause: n % 2 == 0,
    };
    RareFields {
        is_held: true,
        wait: Some(Wait::Signal { name: "go".into(), step: "one".into(), until: Some(at(31)) }),
        suspension: Some(suspension(32)),
        suspend_requested: Some(suspension(33)),
        error: Some(ErrorRecord {
            category: Category::Timeout,
            code: Some("E1".into()),
            message: "too \"slow\" \u{1F40C}".into(),
            at: at(34),
            attempt: 35,
            retry_after: Some(Duration::from_millis(36)),
            retryable: true,
            cause: vec![ErrorCause::new("disk").with_code("E2")],
        }),
        ticket: Some(Box::new(ticket())),
        progress: Some(Progress { percent: 12.345, message: Some("half".into()) }),
        retry_of: Some(id(37)),
        superseded_by: Some(id(38)),
        suspended_at: Some(at(39)),
        suspended_by: Some("boss".into()),
        resumed_at: Some(at(40)),
        priority_updated_at: Some(at(41)),
        log_lines: 42,
        signals: 43,
        checkpoints: 44,
        checkpoint_bytes: 57,
        owner_key: Some("00000000000000a8".parse().unwrap()),
        groups: 45,
        stream: Some(StreamTotals {
            last: 58,
            dropped: 59,
            bytes: 60,
            attempt: 61,
            of_attempt: 62,
            is_interrupted: true,
        }),
    }
}

pub(super) fn full_job() -> JobRecord {
    let mut policy = Policy { crashes_max: 9, ..Policy::default() };
    policy.retry.jitter = 0.123_456_789;
    policy.timeouts.lease = Duration::new(7, 123_456_789);
    policy.timeouts.start = Some(Duration::from_secs(77));
    JobRecord {
        policy: Arc::new(policy),
        state: JobState::Running,
        priority: priority(71),
        inherited: priority(72),
        attempt: 3,
        failures: 4,
        crashes: u32::MAX,
        fence: Fence(u64::MAX),
        created_at: at(5_000_000),
        updated_at: at(5_000_007),
        run_at: at(8),
        retry_at: Some(at(9)),
        eligible_at: Some(at(10)),
        scheduled_at: Some(at(11)),
        first_started_at: Some(at(12)),
        started_at: Some(at(13)),
        completed_at: Some(Timestamp::MAX),
        expires_at: at(15),
        lease: Some(Lease { worker: WorkerId::new(16), expires_at: at(17), deadline_at: at(18) }),
        completed_by: Some(WorkerId::new(19)),
        after_unmet: 19,
        any_unmet: true,
        depth: 20,
        concurrency: Some(ConcurrencyKey(i64::MIN)),
        is_blocked: true,
        parent: Some(Parent { seq: Seq(22), id: id(23), group: u64::MAX, index: 25 }),
        trace: Some(TraceId::new(24)),
        cost_cents: -26,
        has: has_where(|_| true),
        details: Arc::new(full_details()),
        ..plain_job(77)
    }
}

pub(super) fn full_spec() -> Spec {
    Spec {
        payload: Payload::bytes([0, 255, 1, 0], "application/octet-stream"),
        idempotency_key: Some("idem".into()),
        unique_key: Some("uniq".into()),
        concurrency_key: Some("conc".into()),
        metadata: metadata("corr", &[("a", "1"), ("b", "two \"2\"")]),
        owner: "owner".into(),
        traceparent: Some("00-trace".into()),
        tracestate: Some("vendor=1".into()),
        baggage: Some("user=7".into()),
        after: vec![id(1), id(2)],
        after_any: vec![id(3)],
    }
}

#[test]
fn every_field_comes_back_as_it_was_written() {
    let mut tables = fresh();
    let (job, spec) = (full_job(), full_spec());
    insert(&mut tables, &job, &spec, Vec::new());
    insert(&mut tables, &plain_job(78), &plain_spec(), Vec::new());
    for _ in 0..2 {
        assert_eq!(
            tables.load(&[Seq(77), Seq(5), Seq(78)]).unwrap(),
            [Some(job.clone()), None, Some(plain_job(78))]
        );
        assert_eq!(tables.find(&[id(5), id(77)]).unwrap(), [None, Some(job.clone())]);
        assert_eq!(tables.specs(&[Seq(78), Seq(77)]).unwrap(), [Some(plain_spec()), Some(spec.clone())]);
        // The second time nothing is cached, so lanes and policies are read back too.
        tables.rollback();
    }
    for has in 0..6 {
        let has = has_where(|place| place == has);
        let changed = JobRecord { has, any_unmet: false, ..job.clone() };
        tables.update(std::slice::from_ref(&changed)).unwrap();
        assert_eq!(tables.load(&[Seq(77)]).unwrap(), [Some(changed)]);
    }
    assert!(matches!(tables.update(&[plain_job(99)]), Err(StoreError::Damaged(_))));
}

#[test]
fn jobs_of_one_lane_share_it() {
    let mut tables = fresh();
    insert(&mut tables, &plain_job(1), &plain_spec(), Vec::new());
    insert(&mut tables, &plain_job(2), &plain_spec(), Vec::new());
    let jobs: Vec<JobRecord> = tables.load(&[Seq(1), Seq(2)]).unwrap().into_iter().flatten().collect();
    assert!(Arc::ptr_eq(&jobs[0].lane, &jobs[1].lane) && Arc::ptr_eq(&jobs[0].policy, &jobs[1].policy));
}
