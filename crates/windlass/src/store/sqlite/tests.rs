//! What the rows promise: everything comes back as it was written, in the order and selection that the naive predicate
//! would give, and a row that was tampered with is not served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

use super::super::migrate::{SCHEMA, migrate};
use super::*;
use crate::audit::AuditEvent;
use crate::error::OpenError;
use crate::job::{
    Category, ConcurrencyKey, Details, ErrorCause, ErrorRecord, Fence, Has, JobType, Lane, Lease, Need,
    Parent, Payload, Policy, Priority, Progress, QueueName, State, SuspendMode, Suspension, Tenant, TraceId,
    Wait, WorkerId, acts_at,
};
use crate::store::engine::{FacetKind, KeyKind, Place};
use crate::store::filter::{Filter, Order};
use crate::ticket::{Subject, Ticket, TicketKey};

fn open(path: &Path) -> Tables {
    let mut connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    migrate(&mut connection).unwrap();
    Tables::new(connection).unwrap()
}

fn fresh() -> Tables {
    open(Path::new(":memory:"))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn lane(tenant: &str, queue: &str, job_type: &str) -> Arc<Lane> {
    Arc::new(Lane {
        tenant: Tenant::new(tenant).unwrap(),
        queue: QueueName::new(queue).unwrap(),
        job_type: JobType::new(job_type).unwrap(),
    })
}

fn id(number: i64) -> JobId {
    JobId::from_bytes((0x1234_5678_0000_0000_u128 + u128::from(number.unsigned_abs())).to_be_bytes())
}

fn priority(value: i64) -> Priority {
    Priority::new(value).unwrap()
}

/// A job with nothing in it that is optional.
fn plain_job(seq: i64) -> Job {
    Job {
        seq: Seq(seq),
        id: id(seq),
        lane: lane("default", "mail", "send"),
        policy: Arc::default(),
        state: State::Scheduled,
        priority: priority(50),
        inherited: priority(0),
        attempt: 0,
        failures: 0,
        crashes: 0,
        fence: Fence(0),
        created_at: at(1_000_000 + seq),
        updated_at: at(1_000_000 + seq),
        run_at: at(1_000_000 + seq),
        retry_at: None,
        eligible_at: Some(at(1_000_000 + seq)),
        scheduled_at: None,
        first_started_at: None,
        started_at: None,
        completed_at: None,
        expires_at: at(9_000_000),
        lease: None,
        completed_by: None,
        after_unmet: 0,
        any_unmet: false,
        depth: 1,
        concurrency: None,
        is_blocked: false,
        parent: None,
        trace: None,
        cost_cents: 0,
        has: Has::default(),
        details: Arc::default(),
    }
}

fn plain_spec() -> Spec {
    Spec {
        payload: Payload::json("{}"),
        idempotency_key: None,
        unique_key: None,
        concurrency_key: None,
        labels: Labels::default(),
        owner: "me".into(),
        traceparent: None,
        after: Vec::new(),
        after_any: Vec::new(),
    }
}

fn has_where(bit: impl Fn(u32) -> bool) -> Has {
    Has {
        dependents: bit(0),
        unique_key: bit(1),
        checkpoints: bit(2),
        children: bit(3),
        result: bit(4),
        callback: bit(5),
        claim_ahead: bit(6),
    }
}

/// A job in which every field differs from every other, and from what it is by default.
fn ticket() -> Ticket {
    let subject = Subject {
        id: id(46),
        job_type: &JobType::new("send").unwrap(),
        tenant: &Tenant::default(),
        actor: "a\"b",
        payload: b"{}",
    };
    Ticket::issue(&TicketKey::new([47, 48]), subject, 49, at(50), at(51))
}

fn full_details() -> Details {
    let suspension = |n: i64| Suspension {
        by: format!("by{n}"),
        reason: Some(format!("reason{n}")),
        mode: SuspendMode::Graceful,
        at: at(n + 100),
        expires_at: Some(at(n)),
        by_pause: n % 2 == 0,
    };
    Details {
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
        groups: 45,
    }
}

fn full_job() -> Job {
    let mut policy = Policy { crashes_max: 9, ..Policy::default() };
    policy.retry.jitter = 0.123_456_789;
    policy.timeouts.lease = Duration::new(7, 123_456_789);
    policy.timeouts.start = Some(Duration::from_secs(77));
    Job {
        policy: Arc::new(policy),
        state: State::Running,
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

fn full_spec() -> Spec {
    Spec {
        payload: Payload::bytes([0, 255, 1, 0], "application/octet-stream"),
        idempotency_key: Some("idem".into()),
        unique_key: Some("uniq".into()),
        concurrency_key: Some("conc".into()),
        labels: labels("corr", &[("a", "1"), ("b", "two \"2\"")]),
        owner: "owner".into(),
        traceparent: Some("00-trace".into()),
        after: vec![id(1), id(2)],
        after_any: vec![id(3)],
    }
}

fn labels(correlation_id: &str, tags: &[(&str, &str)]) -> Labels {
    Labels {
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        correlation_id: Some(correlation_id.into()),
        callback_url: Some(format!("http://{correlation_id}")),
    }
}

fn key(kind: KeyKind, text: &str) -> Key {
    Key { kind, tenant: Tenant::default(), job_type: JobType::new("send").unwrap(), text: text.into() }
}

fn insert(tables: &mut Tables, job: &Job, spec: &Spec, keys: Vec<(Key, Timestamp)>) {
    let held = |(key, expires_at)| (key, KeyHolder { seq: job.seq, expires_at, memory: None });
    let keys = keys.into_iter().map(held).collect();
    tables.insert(&[NewRow { job: job.clone(), spec: spec.clone(), keys }]).unwrap();
    tables.count(&[CountChange { lane: job.lane.clone(), state: job.state, by: 1 }]).unwrap();
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
        // The second time nothing is remembered, so lanes and policies are read back too.
        tables.rollback();
    }
    for has in 0..6 {
        let has = has_where(|place| place == has);
        let changed = Job { has, any_unmet: false, ..job.clone() };
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
    let jobs: Vec<Job> = tables.load(&[Seq(1), Seq(2)]).unwrap().into_iter().flatten().collect();
    assert!(Arc::ptr_eq(&jobs[0].lane, &jobs[1].lane) && Arc::ptr_eq(&jobs[0].policy, &jobs[1].policy));
}

fn random_job(rng: &mut StdRng, seq: i64, lanes: &[Arc<Lane>]) -> Job {
    let moment = |rng: &mut StdRng| at(rng.random_range(1_000..1_200));
    let state = *State::ALL.choose(rng).unwrap();
    let concurrency = rng.random_bool(0.5).then(|| ConcurrencyKey(rng.random_range(-2..3)));
    let details = Details {
        wait: rng.random_bool(0.5).then(|| Wait::Timer { until: moment(rng) }),
        suspension: rng.random_bool(0.7).then(|| Suspension {
            by: "x".into(),
            reason: None,
            mode: SuspendMode::default(),
            at: moment(rng),
            expires_at: rng.random_bool(0.5).then(|| moment(rng)),
            by_pause: rng.random_bool(0.5),
        }),
        ..Details::default()
    };
    let lease = Lease {
        worker: WorkerId::new(rng.random_range(0..3)),
        expires_at: moment(rng),
        deadline_at: moment(rng),
    };
    Job {
        lane: lanes.choose(rng).unwrap().clone(),
        state,
        priority: priority(*[0, 10, 50, 51, 100].choose(rng).unwrap()),
        inherited: priority(*[0, 50, 90].choose(rng).unwrap()),
        created_at: moment(rng),
        run_at: moment(rng),
        retry_at: rng.random_bool(0.3).then(|| moment(rng)),
        eligible_at: rng.random_bool(0.8).then(|| moment(rng)),
        expires_at: moment(rng),
        lease: (state == State::Running).then_some(lease),
        concurrency,
        is_blocked: rng.random_bool(0.4) && concurrency.is_some(),
        parent: rng.random_bool(0.3).then(|| Parent {
            seq: Seq(1),
            id: id(rng.random_range(1..4)),
            group: 1,
            index: 0,
        }),
        details: Arc::new(details),
        ..plain_job(seq)
    }
}

fn random_spec(rng: &mut StdRng) -> Spec {
    let tags: &[(&str, &str)] = [&[][..], &[("a", "1")], &[("a", "2"), ("b", "1")]].choose(rng).unwrap();
    let mut spec = Spec { labels: labels(["c1", "c2"].choose(rng).unwrap(), tags), ..plain_spec() };
    spec.owner = (*["me", "you"].choose(rng).unwrap()).into();
    if rng.random_bool(0.5) {
        spec.labels.correlation_id = None;
    }
    spec
}

struct Populated {
    tables: Tables,
    jobs: Vec<(Job, Spec)>,
    lanes: Vec<Arc<Lane>>,
    rng: StdRng,
}

/// Jobs of every kind, some of them changed after they were added, some gone.
fn populated(seed: u64) -> Populated {
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut lanes = Vec::new();
    for tenant in ["t1", "t2"] {
        for queue in ["q1", "q2"] {
            lanes.extend(["a", "b"].map(|job_type| lane(tenant, queue, job_type)));
        }
    }
    let mut tables = fresh();
    tables.begin_write().unwrap();
    let mut jobs = Vec::new();
    for seq in 1..=2_000 {
        let mut job = random_job(&mut rng, seq, &lanes);
        let mut spec = random_spec(&mut rng);
        insert(&mut tables, &job, &spec, Vec::new());
        if rng.random_bool(0.5) {
            let change = |by, state| CountChange { lane: job.lane.clone(), state, by };
            let moved = random_job(&mut rng, seq, std::slice::from_ref(&job.lane));
            // What never changes in a job does not change here either.
            let moved = Job {
                created_at: job.created_at,
                concurrency: job.concurrency,
                is_blocked: moved.is_blocked && job.concurrency.is_some(),
                parent: job.parent,
                ..moved
            };
            tables.count(&[change(-1, job.state), change(1, moved.state)]).unwrap();
            tables.update(std::slice::from_ref(&moved)).unwrap();
            job = moved;
        }
        if rng.random_bool(0.2) {
            spec.labels = random_spec(&mut rng).labels;
            tables.relabel(&[(job.seq, spec.labels.clone())]).unwrap();
        }
        if rng.random_bool(0.1) {
            tables.remove(&[job.seq], at(0)).unwrap();
            tables.count(&[CountChange { lane: job.lane, state: job.state, by: -1 }]).unwrap();
        } else {
            jobs.push((job, spec));
        }
    }
    tables.commit().unwrap();
    Populated { tables, jobs, lanes, rng }
}

#[test]
fn ready_and_due_give_what_a_naive_search_would() {
    let Populated { mut tables, jobs, lanes, .. } = populated(1);
    for lane in &lanes {
        let mut naive: Vec<&Job> = jobs.iter().map(|(job, _)| job).collect();
        naive.retain(|job| job.lane == *lane && job.state == State::Scheduled && !job.is_blocked);
        naive.sort_by_key(|job| Place::of(job));
        assert!(naive.len() > 7);
        let mut found: Vec<Job> = Vec::new();
        loop {
            let cursor = LaneCursor { lane: lane.clone(), after: found.last().map(Place::of) };
            let page = tables.ready(&[cursor], 7).unwrap().remove(0);
            found.extend(page.clone());
            if page.len() < 7 {
                break;
            }
        }
        assert!(found.iter().eq(naive));
    }
    assert!(
        tables.ready(&[LaneCursor { lane: lane("no", "such", "lane"), after: None }], 7).unwrap()[0]
            .is_empty()
    );

    let mut naive: Vec<&Job> = jobs.iter().map(|(job, _)| job).filter(|job| acts_at(job).is_some()).collect();
    naive.sort_by_key(|job| (acts_at(job), job.seq));
    assert_eq!(tables.next_due().unwrap(), acts_at(naive[0]));
    for (now, max) in [(999, 50), (1_010, 50), (1_050, usize::MAX), (1_100, 300), (9_000, usize::MAX)] {
        let due = tables.due(at(now), max).unwrap();
        let expected = naive.iter().copied().filter(|job| acts_at(job) <= Some(at(now))).take(max);
        assert!(due.iter().eq(expected), "due at {now}");
    }
    assert_eq!(fresh().next_due().unwrap(), None);
}

#[test]
fn the_first_set_aside_of_each_lane_are_what_a_naive_search_would_find() {
    let Populated { mut tables, jobs, .. } = populated(5);
    for key in (-2..3).map(ConcurrencyKey) {
        let mut naive: BTreeMap<Arc<Lane>, Job> = BTreeMap::new();
        for (job, _) in &jobs {
            let is_aside = job.state == State::Scheduled && job.is_blocked && job.concurrency == Some(key);
            let known = naive.get(&job.lane);
            if is_aside && known.is_none_or(|known| Place::of(job) < Place::of(known)) {
                naive.insert(job.lane.clone(), job.clone());
            }
        }
        let found = tables.set_aside(key).unwrap().into_iter().map(|job| (job.lane.clone(), job));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), naive);
    }
}

fn random_filter(rng: &mut StdRng) -> Filter {
    let mut filter = Filter::default();
    let mut wants = |share: f64| rng.random_bool(share);
    let parts: Vec<bool> =
        [0.3, 0.6, 0.2, 0.2, 0.15, 0.15, 0.15, 0.15, 0.2, 0.2, 0.1, 0.2, 0.3].map(&mut wants).to_vec();
    let name = |rng: &mut StdRng, names: [&'static str; 2]| *names.choose(rng).unwrap();
    filter.tenant = parts[0].then(|| Tenant::new(name(rng, ["t1", "t2"])).unwrap());
    if parts[1] {
        let count = rng.random_range(1..4);
        filter.states = State::ALL.sample(rng, count).copied().collect();
    }
    filter.job_type = parts[2].then(|| JobType::new(name(rng, ["a", "b"])).unwrap());
    filter.queue = parts[3].then(|| QueueName::new(name(rng, ["q1", "none"])).unwrap());
    filter.tag = parts[4].then(|| ("a".into(), name(rng, ["1", "2"]).into()));
    filter.correlation_id = parts[5].then(|| name(rng, ["c1", "c2"]).into());
    filter.owner = parts[6].then(|| name(rng, ["me", "you"]).into());
    filter.parent = parts[7].then(|| id(rng.random_range(1..5)));
    filter.created_after = parts[8].then(|| at(rng.random_range(1_000..1_200)));
    filter.created_before = parts[9].then(|| at(rng.random_range(1_000..1_200)));
    filter.workers = parts[10].then(|| WorkerId::new(rng.random_range(0..4))).into_iter().collect();
    filter.concurrency = parts[11].then(|| ConcurrencyKey(rng.random_range(-2..3)));
    filter.is_blocked = parts[12].then(|| rng.random_bool(0.5));
    if rng.random_bool(0.2) {
        filter.states = vec![State::Scheduled];
    }
    if rng.random_bool(0.2) {
        // All of an id that is there, a part of it, or nearly none.
        let text = id(rng.random_range(1..5)).to_string();
        let length = *[1, 8, 23, 36].choose(rng).unwrap();
        filter.ids = JobId::beginning_with(&text[..length]);
    }
    filter
}

#[test]
fn scans_give_what_the_predicate_would() {
    let Populated { mut tables, jobs, mut rng, .. } = populated(2);
    let mut seen = 0;
    for round in 0..3_000 {
        let order = *[Order::Newest, Order::Oldest, Order::Claim].choose(&mut rng).unwrap();
        let after = rng.random_bool(0.5).then(|| Place::of(&jobs.choose(&mut rng).unwrap().0));
        let limit = *[0, 1, 10, 100, 5_000].choose(&mut rng).unwrap();
        let scan = Scan { filter: random_filter(&mut rng), order, after, limit };
        let fitting = jobs.iter().filter(|(job, spec)| scan.filter.fits(job, spec) && scan.is_after(job));
        let mut naive: Vec<&Job> = fitting.map(|(job, _)| job).collect();
        match order {
            Order::Newest => naive.sort_by_key(|job| std::cmp::Reverse(job.seq)),
            Order::Oldest => naive.sort_by_key(|job| job.seq),
            Order::Claim => naive.sort_by_key(|job| Place::of(job)),
        }
        naive.truncate(limit);
        seen += naive.len();
        let found = tables.scan(&scan).unwrap();
        assert!(found.iter().eq(naive.iter().copied()), "round {round}: {scan:?}");
        // In many short looks, each of which goes on where the last one stopped.
        let (mut looked, mut after, reach) = (Vec::new(), scan.after, 20 + round % 400);
        while looked.len() < scan.limit && round % 4 == 0 {
            let limit = scan.limit - looked.len();
            let found = tables.search(&Scan { after, limit, ..scan.clone() }, reach).unwrap();
            looked.extend(found.jobs);
            after = found.stopped;
            if after.is_none() {
                break;
            }
        }
        let is_same = looked.iter().eq(naive.iter().copied());
        assert!(is_same || round % 4 != 0, "round {round}, {reach} at a time: {scan:?}");
    }
    assert!(seen > 10_000);
}

#[test]
fn keys_are_held_replaced_released_and_go_with_their_job() {
    let mut tables = fresh();
    let (idem, unique) = (key(KeyKind::Idempotency, "idem"), key(KeyKind::Unique, "uniq"));
    let other = key(KeyKind::Unique, "idem");
    insert(&mut tables, &full_job(), &full_spec(), vec![(idem.clone(), at(5)), (unique.clone(), at(6))]);
    let holder = |seq, millis| Some(KeyHolder { seq: Seq(seq), expires_at: at(millis), memory: None });
    let all = [idem.clone(), other, unique.clone()];
    assert_eq!(tables.keyed(&all).unwrap(), [holder(77, 5), None, holder(77, 6)]);
    insert(&mut tables, &plain_job(78), &plain_spec(), vec![(idem.clone(), at(7))]);
    tables.remove(&[Seq(77)], at(0)).unwrap();
    assert_eq!(tables.keyed(&all).unwrap(), [holder(78, 7), None, None]);
    tables.release_keys(&[idem, unique]).unwrap();
    assert_eq!(tables.keyed(&all).unwrap(), [None, None, None]);
}

#[test]
fn removal_leaves_nothing_but_the_audit_trail() {
    let mut tables = fresh();
    insert(&mut tables, &full_job(), &full_spec(), vec![(key(KeyKind::Unique, "uniq"), at(5))]);
    tables.link(&[edge(77, 1, Need::After), edge(2, 77, Need::AfterAny)]).unwrap();
    tables.write_facets(&[FacetWrite::Put(facet(FacetKind::Result, "", 0, "x"))]).unwrap();
    tables.append(&mut [record(Some(id(77)))]).unwrap();
    tables.remove(&[Seq(77), Seq(500)], at(0)).unwrap();
    for table in ["jobs", "hot", "tags", "keys", "edges", "facets"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = tables.connection().query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    assert_eq!(tables.records(&RecordQuery { limit: 9, ..RecordQuery::default() }).unwrap().len(), 1);
}

fn edge(dependency: i64, dependent: i64, need: Need) -> Edge {
    Edge { dependency: Seq(dependency), dependent: Seq(dependent), need }
}

#[test]
fn edges_are_found_from_both_sides_in_order() {
    let mut tables = fresh();
    let all = [
        edge(1, 2, Need::After),
        edge(1, 2, Need::AfterAny),
        edge(1, 3, Need::After),
        edge(2, 3, Need::AfterAny),
        edge(4, 2, Need::After),
    ];
    tables.link(&[all[4], all[2], all[1], all[0], all[3], all[0]]).unwrap();
    assert_eq!(tables.edges(&[Seq(2), Seq(1)], Side::Dependency).unwrap(), all[..4]);
    assert_eq!(tables.edges(&[Seq(2), Seq(2)], Side::Dependent).unwrap(), [all[0], all[1], all[4]]);
}

fn facet(kind: FacetKind, name: &str, number: u64, body: &str) -> Facet {
    Facet { seq: Seq(77), kind, name: name.into(), number, body: Arc::from(body.as_bytes()) }
}

#[test]
fn facets_are_put_replaced_dropped_and_read_in_order() {
    let mut tables = fresh();
    let log = |name: &str, number: u64, body: &str| facet(FacetKind::Log, name, number, body);
    let all = [log("a", 2, "one"), log("a", 10, "two"), log("b", 1, ""), log("b", 3, "four")];
    let put = |facet: &Facet| FacetWrite::Put(facet.clone());
    let drop = FacetWrite::Drop { seq: Seq(77), kind: FacetKind::Log, name: "c".into(), number: 0 };
    let mut writes = vec![put(&log("a", 10, "old")), put(&log("c", 0, "gone")), drop];
    writes.extend(all.iter().rev().map(put));
    writes.push(put(&facet(FacetKind::Attempt, "a", 2, "other")));
    tables.write_facets(&writes).unwrap();
    let query = FacetQuery { seq: Seq(77), kind: FacetKind::Log, name: None, above: None, limit: 99 };
    assert_eq!(tables.facets(query).unwrap(), all);
    assert_eq!(tables.facets(FacetQuery { limit: 3, ..query }).unwrap(), all[..3]);
    assert_eq!(tables.facets(FacetQuery { name: Some("b"), ..query }).unwrap(), all[2..]);
    assert_eq!(
        tables.facets(FacetQuery { above: Some(2), ..query }).unwrap(),
        [all[1].clone(), all[3].clone()]
    );
    tables.connection().execute("UPDATE facets SET body = x'00' WHERE number = 10", []).unwrap();
    assert!(matches!(tables.facets(query), Err(StoreError::Damaged(_))));
}

#[test]
fn documents_move_the_configuration_only_if_they_are_part_of_it() {
    let mut tables = fresh();
    let document = |key: &str| Document { key: key.into(), body: key.as_bytes().to_vec() };
    tables.begin_write().unwrap();
    for kind in DocumentKind::ALL {
        tables.put_document(kind, "b", Some(b"old")).unwrap();
        for key in ["c", "b", "a"] {
            tables.put_document(kind, key, Some(key.as_bytes())).unwrap();
        }
        tables.put_document(kind, "c", None).unwrap();
        assert_eq!(tables.documents(kind).unwrap(), [document("a"), document("b")]);
        assert_eq!(tables.documents_from(kind, "b").unwrap(), [document("b")]);
        assert_eq!(tables.documents_before(kind, "b", 9).unwrap(), [document("a")]);
        assert_eq!(tables.documents_before(kind, "z", 1).unwrap(), [document("a")]);
        assert_eq!(tables.document(kind, "b").unwrap(), Some(document("b")));
        assert_eq!(tables.document(kind, "c").unwrap(), None);
    }
    let kinds = DocumentKind::ALL.into_iter().filter(|kind| kind.is_configuration()).count() as u64;
    assert_eq!(tables.configuration_version().unwrap(), kinds * 5);
    tables.commit().unwrap();
    tables.begin_read().unwrap();
    assert_eq!(tables.configuration_version().unwrap(), kinds * 5);
    tables.end_read();
}

fn record(job: Option<JobId>) -> Record {
    Record {
        seq: 0,
        event: AuditEvent::Completed,
        alias: Some("mail.sent".into()),
        at: at(5),
        actor_type: "worker".into(),
        actor_id: "w1".into(),
        tenant: Tenant::default(),
        job,
        queue: job.map(|_| crate::job::QueueName::default()),
        job_type: None,
        trace_id: Some("t".into()),
        context: "{}".into(),
    }
}

#[test]
fn audit_numbers_have_no_gap_after_a_rollback() {
    let mut tables = fresh();
    let mut records = [record(Some(id(1))), record(None)];
    tables.begin_write().unwrap();
    tables.append(&mut records).unwrap();
    tables.commit().unwrap();
    tables.begin_write().unwrap();
    tables.append(&mut [record(None)]).unwrap();
    tables.rollback();
    tables.begin_write().unwrap();
    let mut last =
        [Record { event: AuditEvent::Failed, at: at(9), actor_id: "w2".into(), ..record(Some(id(1))) }];
    tables.append(&mut last).unwrap();
    tables.commit().unwrap();
    let all = [records[0].clone(), records[1].clone(), last[0].clone()];
    assert_eq!(all.each_ref().map(|record| record.seq), [1, 2, 3]);
    let base = RecordQuery { limit: 10, ..RecordQuery::default() };
    assert_eq!(tables.records(&base).unwrap(), all);
    let mut numbers = |query: RecordQuery| -> Vec<u64> {
        tables.records(&query).unwrap().iter().map(|record| record.seq).collect()
    };
    assert_eq!(numbers(RecordQuery { after: 1, limit: 1, ..base.clone() }), [2]);
    assert_eq!(numbers(RecordQuery { job: Some(id(1)), ..base.clone() }), [1, 3]);
    assert_eq!(numbers(RecordQuery { job: Some(id(1)), after: 1, ..base.clone() }), [3]);
    assert_eq!(numbers(RecordQuery { event: Some(AuditEvent::Failed), ..base.clone() }), [3]);
    assert_eq!(numbers(RecordQuery { actor: Some("w1".into()), ..base.clone() }), [1, 2]);
    assert_eq!(numbers(RecordQuery { since: Some(at(6)), ..base.clone() }), [3]);
    assert_eq!(numbers(RecordQuery { until: Some(at(9)), ..base.clone() }), [1, 2]);
    assert!(numbers(RecordQuery { tenant: Some(Tenant::new("x").unwrap()), ..base }).is_empty());
}

#[test]
fn codes_of_audit_events_never_change() {
    let names: Vec<&str> = AuditEvent::ALL.iter().map(|event| event.as_str()).collect();
    assert_eq!(
        (names[0], names[11], names[20]),
        ("job.lifecycle.submitted", "job.lifecycle.reaped", "job.ops.woken")
    );
    assert_eq!(names[29], "gate.ops.opened");
    assert!(AuditEvent::ALL.iter().enumerate().all(|(place, event)| *event as usize == place));
}

#[test]
fn counts_and_places_follow_rollbacks_and_other_connections() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (mut one, mut two) = (open(&path), open(&path));
    let add = |tables: &mut Tables, job: &Job| {
        let first = tables.allocate(3).unwrap();
        insert(tables, job, &plain_spec(), Vec::new());
        first
    };
    let totals = |tables: &mut Tables| tables.counts().unwrap().sum(State::Scheduled, |_| true);
    one.begin_write().unwrap();
    assert_eq!(totals(&mut one), 0);
    assert_eq!(add(&mut one, &plain_job(1)), Seq(1));
    assert_eq!(totals(&mut one), 1);
    one.rollback();
    one.begin_write().unwrap();
    assert_eq!(totals(&mut one), 0);
    assert_eq!(add(&mut one, &plain_job(1)), Seq(1));
    assert_eq!(one.commit().unwrap(), 1);
    two.begin_write().unwrap();
    assert_eq!(totals(&mut two), 1);
    let job = Job { lane: lane("default", "other", "send"), ..plain_job(2) };
    assert_eq!(add(&mut two, &job), Seq(4));
    assert_eq!(two.commit().unwrap(), 2);
    one.begin_read().unwrap();
    assert_eq!(totals(&mut one), 2);
    assert_eq!(one.load(&[Seq(2)]).unwrap(), [Some(job.clone())]);
    one.end_read();
    two.begin_write().unwrap();
    let by = |state, by| CountChange { lane: job.lane.clone(), state, by };
    two.count(&[by(State::Scheduled, -1), by(State::Completed, 1)]).unwrap();
    two.commit().unwrap();
    one.begin_read().unwrap();
    two.begin_read().unwrap();
    assert_eq!(one.counts().unwrap(), two.counts().unwrap());
    assert_eq!(totals(&mut one), 1);
}

#[test]
fn a_newer_file_is_refused_and_an_older_one_is_brought_up_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let opened: BTreeSet<Vec<u8>> = std::thread::scope(|scope| {
        let open = || {
            let mut connection = Connection::open(&path).unwrap();
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            migrate(&mut connection).unwrap();
            connection.query_row("SELECT store_id FROM meta", [], |row| row.get(0)).unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(opened.len(), 1);
    let mut connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    let refused = OpenError::NewerSchema { found: SCHEMA + 1, known: SCHEMA };
    assert_eq!(migrate(&mut connection), Err(refused));
}

#[test]
fn a_row_that_was_tampered_with_is_not_served() {
    let attacks: BTreeMap<&str, &str> = [
        ("UPDATE hot SET record = CAST(substr(record, 1, 20) || x'55' || substr(record, 22) AS BLOB)", "hot"),
        ("UPDATE hot SET record = x''", "hot"),
        ("UPDATE hot SET record = 'text'", "hot"),
        ("UPDATE hot SET policy = policy + 1", "hot"),
        ("UPDATE hot SET id = zeroblob(16)", "hot"),
        ("UPDATE jobs SET payload = x'00'", "jobs"),
        ("UPDATE jobs SET owner = owner || 'x'", "jobs"),
        ("UPDATE jobs SET unique_key = NULL", "jobs"),
    ]
    .into();
    for (attack, table) in attacks {
        let mut tables = fresh();
        insert(&mut tables, &full_job(), &full_spec(), Vec::new());
        tables.connection().execute(attack, []).unwrap();
        let error = match table {
            "hot" => tables.load(&[Seq(77)]).map(drop),
            _ => tables.specs(&[Seq(77)]).map(drop),
        };
        let expected = format!("row 77 of {table} does not match its checksum");
        assert_eq!(error, Err(StoreError::Damaged(expected)), "{attack}");
    }
}
