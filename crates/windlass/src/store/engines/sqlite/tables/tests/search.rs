//! Searches return the same as the reference predicate over all jobs, for random jobs.

use super::*;

fn random_job(rng: &mut StdRng, seq: i64, lanes: &[Arc<Lane>]) -> JobRecord {
    let moment = |rng: &mut StdRng| at(rng.random_range(1_000..1_200));
    let state = *JobState::ALL.choose(rng).unwrap();
    let concurrency = rng.random_bool(0.5).then(|| ConcurrencyKey(rng.random_range(-2..3)));
    let details = RareFields {
        wait: rng.random_bool(0.5).then(|| Wait::Timer { until: moment(rng) }),
        suspension: rng.random_bool(0.7).then(|| Suspension {
            by: "x".into(),
            reason: None,
            mode: SuspendMode::default(),
            at: moment(rng),
            expires_at: rng.random_bool(0.5).then(|| moment(rng)),
            by_pause: rng.random_bool(0.5),
        }),
        superseded_by: (state.is_final() && rng.random_bool(0.3)).then(|| id(1)),
        ..RareFields::default()
    };
    let lease = Lease {
        worker: WorkerId::new(rng.random_range(0..3)),
        expires_at: moment(rng),
        deadline_at: moment(rng),
    };
    JobRecord {
        lane: lanes.choose(rng).unwrap().clone(),
        state,
        priority: priority(*[0, 10, 50, 51, 100].choose(rng).unwrap()),
        inherited: priority(*[0, 50, 90].choose(rng).unwrap()),
        created_at: moment(rng),
        run_at: moment(rng),
        retry_at: rng.random_bool(0.3).then(|| moment(rng)),
        eligible_at: rng.random_bool(0.8).then(|| moment(rng)),
        expires_at: moment(rng),
        lease: (state == JobState::Running).then_some(lease),
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
    let mut spec = Spec { metadata: metadata(["c1", "c2"].choose(rng).unwrap(), tags), ..plain_spec() };
    spec.owner = (*["me", "you"].choose(rng).unwrap()).into();
    if rng.random_bool(0.5) {
        spec.metadata.correlation_id = None;
    }
    spec
}

struct Populated {
    tables: Tables,
    jobs: Vec<(JobRecord, Spec)>,
    lanes: Vec<Arc<Lane>>,
    rng: StdRng,
}

/// Jobs of every kind, some of them changed after they were added, some removed.
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
            // Immutable parts of a job do not change here either.
            let moved = JobRecord {
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
            spec.metadata = random_spec(&mut rng).metadata;
            tables.set_metadata(&[(job.seq, spec.metadata.clone())]).unwrap();
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
        let mut naive: Vec<&JobRecord> = jobs.iter().map(|(job, _)| job).collect();
        naive.retain(|job| job.lane == *lane && job.state == JobState::Scheduled && !job.is_blocked);
        naive.sort_by_key(|job| ClaimOrder::new(job));
        assert!(naive.len() > 7);
        let mut found: Vec<JobRecord> = Vec::new();
        loop {
            let cursor = LaneCursor { lane: lane.clone(), after: found.last().map(ClaimOrder::new) };
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

    let mut naive: Vec<&JobRecord> =
        jobs.iter().map(|(job, _)| job).filter(|job| acts_at(job).is_some()).collect();
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
        let mut naive: BTreeMap<Arc<Lane>, JobRecord> = BTreeMap::new();
        for (job, _) in &jobs {
            let is_aside = job.state == JobState::Scheduled && job.is_blocked && job.concurrency == Some(key);
            let known = naive.get(&job.lane);
            if is_aside && known.is_none_or(|known| ClaimOrder::new(job) < ClaimOrder::new(known)) {
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
        filter.states = JobState::ALL.sample(rng, count).copied().collect();
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
    filter.is_redriven = rng.random_bool(0.2).then(|| rng.random_bool(0.5));
    if rng.random_bool(0.2) {
        filter.states = vec![JobState::Scheduled];
    }
    if rng.random_bool(0.2) {
        // A whole existing id, a part of it, or almost nothing.
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
        let after = rng.random_bool(0.5).then(|| ClaimOrder::new(&jobs.choose(&mut rng).unwrap().0));
        let limit = *[0, 1, 10, 100, 5_000].choose(&mut rng).unwrap();
        let scan = Scan { filter: random_filter(&mut rng), order, after, limit };
        let fitting = jobs.iter().filter(|(job, spec)| scan.filter.matches(job, spec) && scan.is_after(job));
        let mut naive: Vec<&JobRecord> = fitting.map(|(job, _)| job).collect();
        match order {
            Order::Newest => naive.sort_by_key(|job| std::cmp::Reverse(job.seq)),
            Order::Oldest => naive.sort_by_key(|job| job.seq),
            Order::Claim => naive.sort_by_key(|job| ClaimOrder::new(job)),
        }
        naive.truncate(limit);
        seen += naive.len();
        let found = tables.scan(&scan).unwrap();
        assert!(found.iter().eq(naive.iter().copied()), "round {round}: {scan:?}");
        // In many short scans, each of which continues where the last one stopped.
        let (mut collected, mut after, reach) = (Vec::new(), scan.after, 20 + round % 400);
        while collected.len() < scan.limit && round % 4 == 0 {
            let limit = scan.limit - collected.len();
            let found = tables.search(&Scan { after, limit, ..scan.clone() }, reach).unwrap();
            collected.extend(found.jobs);
            after = found.stopped;
            if after.is_none() {
                break;
            }
        }
        let is_same = collected.iter().eq(naive.iter().copied());
        assert!(is_same || round % 4 != 0, "round {round}, {reach} at a time: {scan:?}");
    }
    assert!(seen > 10_000);
}

#[test]
fn what_was_redriven_is_found_among_any_number_that_was_not_and_the_reverse() {
    const JOBS: i64 = 500;
    for is_redriven in [true, false] {
        let mut tables = fresh();
        tables.begin_write().unwrap();
        // The first and one in the middle differ from the others.
        let wanted = [1, JOBS / 2];
        for seq in 1..=JOBS {
            let superseded_by = (wanted.contains(&seq) == is_redriven).then(|| id(1));
            let details = Arc::new(RareFields { superseded_by, ..RareFields::default() });
            let job = JobRecord { state: JobState::DeadLetter, details, ..plain_job(seq) };
            insert(&mut tables, &job, &plain_spec(), Vec::new());
        }
        tables.commit().unwrap();
        for states in [vec![JobState::DeadLetter], vec![JobState::Completed, JobState::DeadLetter]] {
            let filter = Filter { states, is_redriven: Some(is_redriven), ..Filter::default() };
            let scan = Scan { filter, order: Order::Newest, after: None, limit: 10 };
            let found = tables.search(&scan, 8).unwrap();
            let seqs: Vec<i64> = found.jobs.iter().map(|job| job.seq.0).collect();
            assert_eq!((seqs, found.stopped), (vec![JOBS / 2, 1], None), "{is_redriven}");
        }
    }
}
