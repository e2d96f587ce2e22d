//! Lists: filters, orders, and cursors that stay right while jobs come and go.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use windlass::error::ActionError;
use windlass::job::{GroupStrategy, JobId, JobRecord, JobState, JobType, NewJob, Payload, Priority};
use windlass::limits;
use windlass::store::{
    Cursor, Filter, ListRequest, NewGroup, Order, Outcome, Pause, PauseTarget, Redrive, Report, SubmitOptions,
};

use crate::fixture::{Fixture, caller, lease_ref, new_job, queue, secs, tenant};

tests!(
    reads_list, reads::list:
    each_filter_finds_its_jobs_and_several_narrow_each_other,
    jobs_by_state_are_found_in_every_state,
    each_order_is_as_it_says,
    nothing_is_missed_or_repeated_while_jobs_come_and_go,
    a_page_holds_between_one_and_five_hundred_jobs,
    a_search_among_many_continues_where_it_stopped,
    a_page_of_large_jobs_ends_early_and_the_next_continues,
    what_was_redriven_is_listed_and_counted_apart,
    what_was_redriven_is_listed_page_by_page,
    running_jobs_are_listed_however_many_have_ended_beside_them,
    running_jobs_are_counted_by_worker,
    the_order_of_claims_is_kept_over_thousands_of_lanes,
    ready_jobs_that_a_pause_holds_are_counted_once,
);

async fn ids(t: &Fixture, filter: Filter, order: Order) -> Vec<JobId> {
    let request = ListRequest { filter, order, cursor: None, limit: limits::PAGE_JOBS_MAX };
    t.store.list(&t.me, request).await.unwrap().jobs.into_iter().map(|found| found.job.id).collect()
}

/// Model: tenant-isolation, writable-fields
async fn each_filter_finds_its_jobs_and_several_narrow_each_other(t: &Fixture) {
    let ann = caller("ann", windlass::store::caller::Role::Submitter, "blue");
    let mut tagged = new_job("tagged");
    tagged.metadata.tags.insert("team".into(), "red".into());
    tagged.metadata.tags.insert("size".into(), "big".into());
    tagged.metadata.correlation_id = Some("order-7".into());
    let mut jobs = vec![t.submit(tagged).await.id];
    jobs.push(
        t.store.submit(&ann, vec![new_job("owned")], SubmitOptions::default()).await.unwrap()[0].job.id,
    );
    t.advance(secs(10));
    jobs.push(t.submit(NewJob { queue: queue("own"), ..new_job("typed") }).await.id);
    let worker = t.worker_for(&["own"], &[]).await;
    let parent = t.claim_one(worker).await;
    let children = vec![NewJob { concurrency_key: Some("one".into()), ..new_job("child") }];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: children };
    let child = t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap().children.remove(0);
    jobs.push(child.id);
    jobs.push(t.submit(NewJob { queue: queue("own"), ..new_job("run") }).await.id);
    t.claim_one(worker).await;
    let none = Filter::default;
    let tag = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
    let cases = [
        (none(), vec![0, 1, 2, 3, 4]),
        (Filter { tenant: Some(tenant("blue")), ..none() }, vec![1]),
        (Filter { states: vec![JobState::Waiting, JobState::Running], ..none() }, vec![2, 4]),
        (Filter { job_type: Some(JobType::new("typed").unwrap()), ..none() }, vec![2]),
        (Filter { queue: Some(queue("own")), ..none() }, vec![2, 4]),
        (Filter { tag: tag("team", "red"), ..none() }, vec![0]),
        (Filter { tag: tag("team", "big"), ..none() }, vec![]),
        (Filter { correlation_id: Some("order-7".into()), ..none() }, vec![0]),
        (Filter { owner: Some("ann".into()), ..none() }, vec![1]),
        (Filter { parent: Some(parent.job.id), ..none() }, vec![3]),
        (Filter { created_after: Some(t.now()), ..none() }, vec![2, 3, 4]),
        (Filter { created_before: Some(t.now()), ..none() }, vec![0, 1]),
        (Filter { workers: vec![worker], ..none() }, vec![4]),
        (Filter { concurrency: child.concurrency, ..none() }, vec![3]),
        (Filter { is_blocked: Some(true), ..none() }, vec![]),
        (Filter { queue: Some(queue("own")), states: vec![JobState::Running], ..none() }, vec![4]),
        (Filter { tag: tag("size", "big"), correlation_id: Some("order-8".into()), ..none() }, vec![]),
        (Filter { tenant: Some(tenant("default")), owner: Some("ann".into()), ..none() }, vec![]),
    ];
    let begins = |id: JobId, length: usize| JobId::beginning_with(&id.to_string()[..length]);
    let by_id = [
        (Filter { ids: begins(jobs[1], 36), ..none() }, vec![1]),
        // Two were submitted ten seconds before the others; 13 characters are the millisecond, one is years.
        (Filter { ids: begins(jobs[0], 13), ..none() }, vec![0, 1]),
        (Filter { ids: begins(jobs[0], 13), states: vec![JobState::Waiting], ..none() }, vec![]),
        (Filter { ids: begins(jobs[4], 1), owner: Some("ann".into()), ..none() }, vec![1]),
        (Filter { ids: begins(jobs[4], 1), ..none() }, vec![0, 1, 2, 3, 4]),
    ];
    for (filter, expected) in cases.into_iter().chain(by_id) {
        let expected: Vec<JobId> = expected.into_iter().map(|at: usize| jobs[at]).collect();
        assert_eq!(ids(t, filter.clone(), Order::Oldest).await, expected, "{filter:?}");
        let reversed: Vec<JobId> = expected.into_iter().rev().collect();
        assert_eq!(ids(t, filter.clone(), Order::Newest).await, reversed, "{filter:?}");
    }
}

/// Model: explained-waiting
async fn jobs_by_state_are_found_in_every_state(t: &Fixture) {
    for state in JobState::ALL {
        let id = t.placed_as(state, new_job("mine")).await.id;
        let job_type = Some(JobType::new("mine").unwrap());
        let filter = Filter { states: vec![state], job_type, ..Filter::default() };
        for order in [Order::Oldest, Order::Newest, Order::Claim] {
            assert_eq!(ids(t, filter.clone(), order).await, [id], "{state} {order:?}");
        }
    }
}

/// Model: claim-order
async fn each_order_is_as_it_says(t: &Fixture) {
    let mut jobs = Vec::new();
    for priority in [Priority::LOW, Priority::HIGH, Priority::NORMAL, Priority::HIGH] {
        jobs.push(t.submit(NewJob { priority: Some(priority), ..new_job("report") }).await.id);
        t.advance(secs(1));
    }
    let in_order = |places: [usize; 4]| places.map(|at| jobs[at]).to_vec();
    assert_eq!(ids(t, Filter::default(), Order::Oldest).await, in_order([0, 1, 2, 3]));
    assert_eq!(ids(t, Filter::default(), Order::Newest).await, in_order([3, 2, 1, 0]));
    assert_eq!(ids(t, Filter::default(), Order::Claim).await, in_order([1, 3, 2, 0]));
    let worker = t.steady_worker().await;
    let claimed: Vec<JobId> = t.claim(worker, 4).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, in_order([1, 3, 2, 0]), "the list said what would be claimed");
}

/// Model: explained-waiting
async fn nothing_is_missed_or_repeated_while_jobs_come_and_go(t: &Fixture) {
    for order in [Order::Newest, Order::Oldest, Order::Claim] {
        let own = queue(&format!("{order:?}"));
        let job = |n: u8| NewJob {
            queue: own.clone(),
            priority: Some(Priority::new(i64::from(n % 7) * 10).unwrap()),
            ..new_job("report")
        };
        let there: Vec<JobId> = t
            .submit_all((0..40).map(job).collect())
            .await
            .into_iter()
            .map(|receipt| receipt.job.id)
            .collect();
        let (leaving, staying) = there.split_at(10);
        for id in leaving {
            t.cancel(*id).await;
        }
        let filter = Filter { queue: Some(own.clone()), ..Filter::default() };
        let mut request = ListRequest { filter, order, cursor: None, limit: 3 };
        let (mut seen, mut gone) = (Vec::new(), leaving.iter());
        loop {
            let page = t.store.list(&t.me, request.clone()).await.unwrap();
            seen.extend(page.jobs.iter().map(|found| found.job.id));
            let Some(next) = page.next else { break };
            // The text of a cursor is as good as the cursor.
            request.cursor = Some(next.to_string().parse::<Cursor>().unwrap());
            t.submit(job(3)).await;
            if let Some(id) = gone.next() {
                t.store.delete(&t.me, *id).await.unwrap();
            }
        }
        let distinct: BTreeSet<JobId> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "{order:?}: nothing twice");
        assert!(staying.iter().all(|id| distinct.contains(id)), "{order:?}: nothing missed");
    }
    assert!("not a cursor".parse::<Cursor>().is_err());
    assert!("".parse::<Cursor>().is_err());
}

/// Model: explained-waiting
async fn a_page_holds_between_one_and_five_hundred_jobs(t: &Fixture) {
    let many = limits::PAGE_JOBS_MAX + 1;
    t.submit_all((0..many).map(|_| new_job("report")).collect()).await;
    let page = async |limit, cursor| {
        let request = ListRequest { limit, cursor, ..ListRequest::default() };
        t.store.list(&t.me, request).await.unwrap()
    };
    let first = page(usize::MAX, None).await;
    assert_eq!(first.jobs.len(), limits::PAGE_JOBS_MAX);
    let rest = page(limits::PAGE_JOBS_MAX, first.next).await;
    assert_eq!((rest.jobs.len(), rest.next), (1, None));
    assert_eq!(page(0, None).await.jobs.len(), 1);
    let whole = page(many, None).await;
    assert!(whole.next.is_some(), "one more job than a page holds");
}

/// However many other jobs were submitted later.
async fn a_small_queue_is_found_at_once(t: &Fixture, small: &[JobId]) {
    let scheduled = vec![JobState::Scheduled];
    let filter = Filter {
        owner: Some("bob".into()),
        queue: Some(queue("small")),
        states: scheduled,
        ..Filter::default()
    };
    for order in [Order::Oldest, Order::Newest, Order::Claim] {
        let request = ListRequest { filter: filter.clone(), order, limit: 10, cursor: None };
        let page = t.store.list(&t.me, request).await.unwrap();
        let mut found: Vec<JobId> = page.jobs.iter().map(|found| found.job.id).collect();
        if order == Order::Newest {
            found.reverse();
        }
        assert_eq!((found, page.next), (small.to_vec(), None), "{order:?}");
    }
}

/// Model: explained-waiting. However few of many jobs fit, a page looks at no more than a bounded number of them.
async fn a_search_among_many_continues_where_it_stopped(t: &Fixture) {
    let ann = caller("ann", windlass::store::caller::Role::Submitter, "default");
    let own = async |count| {
        let jobs = vec![new_job("report"); count];
        let receipts = t.store.submit(&ann, jobs, SubmitOptions::default()).await.unwrap();
        receipts.into_iter().map(|receipt| receipt.job.id).collect::<Vec<JobId>>()
    };
    let oldest = own(2).await;
    let bob = caller("bob", windlass::store::caller::Role::Submitter, "default");
    let small = NewJob { queue: queue("small"), ..new_job("report") };
    let small = t.store.submit(&bob, vec![small; 2], SubmitOptions::default()).await.unwrap();
    let small: Vec<JobId> = small.into_iter().map(|receipt| receipt.job.id).collect();
    // Owners are looked up job by job, of which a page does a quarter as many.
    for _ in 0..=limits::LIST_SCAN_MAX / 4 / 10_000 {
        t.submit_all(vec![new_job("report"); 10_000]).await;
    }
    let newest = own(3).await;
    let all = [oldest, newest].concat();
    for order in [Order::Newest, Order::Oldest, Order::Claim] {
        let states = if order == Order::Claim { vec![JobState::Scheduled] } else { Vec::new() };
        let filter = Filter { owner: Some("ann".into()), states, ..Filter::default() };
        let mut request = ListRequest { filter, order, cursor: None, limit: 10 };
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let page = t.store.list(&t.me, request.clone()).await.unwrap();
            found.extend(page.jobs.iter().map(|found| found.job.id));
            pages += 1;
            request.cursor = page.next;
            if request.cursor.is_none() {
                break;
            }
        }
        if order == Order::Newest {
            found.reverse();
        }
        assert_eq!(found, all, "{order:?}");
        let is_bounded = t.has_bounded_searches;
        assert!(if is_bounded { (2..20).contains(&pages) } else { pages == 1 }, "{order:?}: {pages} pages");
    }
    a_small_queue_is_found_at_once(t, &small).await;
    // So many begin alike that they are walked over, not sorted.
    let ids = JobId::beginning_with(&all[4].to_string()[..13]);
    let request =
        ListRequest { filter: Filter { ids, ..Filter::default() }, limit: 3, ..ListRequest::default() };
    let page = t.store.list(&t.me, request).await.unwrap();
    let newest: Vec<JobId> = page.jobs.iter().map(|found| found.job.id).collect();
    assert_eq!(newest, [all[4], all[3], all[2]]);
    let owned = Filter { owner: Some("ann".into()), ..Filter::default() };
    let counted = t.store.count_up_to(&t.me, &owned, 100).await.unwrap();
    let is_bounded = t.has_bounded_searches;
    let all_or_some = if is_bounded { (3, false) } else { (5, true) };
    assert_eq!((counted.jobs, counted.is_all), all_or_some, "a count ends where a page does");
    // Counters know that there is nothing to look for, and when all has been found.
    let nothing = Filter { states: vec![JobState::Waiting], owner: Some("ann".into()), ..Filter::default() };
    let page = t.store.list(&t.me, ListRequest { filter: nothing, ..ListRequest::default() }).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (0, None));
    let last = t.submit(new_job("last")).await.id;
    let by_type = Filter { job_type: Some(JobType::new("last").unwrap()), ..Filter::default() };
    let page = t.store.list(&t.me, ListRequest { filter: by_type, ..ListRequest::default() }).await.unwrap();
    assert_eq!((page.jobs[0].job.id, page.next), (last, None));
}

/// Model: tenant-isolation. A look at large jobs does not take all memory, and misses none of them.
async fn a_page_of_large_jobs_ends_early_and_the_next_continues(t: &Fixture) {
    let large =
        NewJob { payload: Payload::json(format!("\"{}\"", "x".repeat(1_000_000))), ..new_job("large") };
    let count = limits::PAGE_PAYLOADS_MAX / 1_000_000 + 20;
    for _ in 0..count / 10 {
        t.submit_all(vec![large.clone(); 10]).await;
    }
    let mut request = ListRequest { limit: limits::PAGE_JOBS_MAX, ..ListRequest::default() };
    let (mut found, mut pages) = (BTreeSet::new(), 0);
    loop {
        let page = t.store.list(&t.me, request.clone()).await.unwrap();
        let bytes: usize = page.jobs.iter().map(|found| found.spec.payload.bytes.len()).sum();
        assert!(bytes < 2 * limits::PAGE_PAYLOADS_MAX, "{bytes} bytes on one page");
        found.extend(page.jobs.iter().map(|found| found.job.id));
        pages += 1;
        request.cursor = page.next;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), pages), (count / 10 * 10, 2));
}

/// Model: final-states, tenant-isolation
async fn what_was_redriven_is_listed_and_counted_apart(t: &Fixture) {
    let mut dead = Vec::new();
    for _ in 0..3 {
        dead.push(t.placed(JobState::DeadLetter).await.id);
    }
    let once = Redrive { only_once: true, ..Redrive::default() };
    let successor = t.store.redrive(&t.me, dead[1], once.clone()).await.unwrap().id;
    let refused = t.store.redrive(&t.me, dead[1], once).await;
    assert_eq!(refused, Err(ActionError::AlreadyRedriven { id: dead[1], successor }));
    let letters =
        |is_redriven| Filter { states: vec![JobState::DeadLetter], is_redriven, ..Filter::default() };
    assert_eq!(ids(t, letters(None), Order::Oldest).await, dead);
    assert_eq!(ids(t, letters(Some(true)), Order::Oldest).await, [dead[1]]);
    assert_eq!(ids(t, letters(Some(false)), Order::Oldest).await, [dead[0], dead[2]]);
    for (filter, max, expected) in [
        (None, 1, (3, true)),
        (Some(false), 2, (2, true)),
        (Some(false), 1, (1, false)),
        (Some(true), 9, (1, true)),
    ] {
        let counted = t.store.count_up_to(&t.me, &letters(filter), max).await.unwrap();
        assert_eq!((counted.jobs, counted.is_all), expected, "{filter:?} up to {max}");
    }
}

/// Model: final-states, tenant-isolation
async fn what_was_redriven_is_listed_page_by_page(t: &Fixture) {
    let mut all: Vec<(JobId, JobState, bool)> = Vec::new();
    for n in 0..30 {
        let state = JobState::FINAL[n % JobState::FINAL.len()];
        let (id, is_redriven) = (t.placed(state).await.id, n % 3 == 0);
        for _ in 0..if is_redriven { n % 2 + 1 } else { 0 } {
            let successor = t.store.redrive(&t.me, id, Redrive::default()).await.unwrap().id;
            t.cancel(successor).await;
            all.push((successor, JobState::Cancelled, false));
        }
        all.insert(n, (id, state, is_redriven));
    }
    let submitted =
        ids(t, Filter { states: JobState::FINAL.into(), ..Filter::default() }, Order::Oldest).await;
    all.sort_by_key(|(id, ..)| submitted.iter().position(|found| found == id));
    let mut cases: Vec<Vec<JobState>> = JobState::FINAL.into_iter().map(|state| vec![state]).collect();
    cases.extend([JobState::FINAL.into(), Vec::new()]);
    for (states, is_redriven) in cases
        .into_iter()
        .flat_map(|states| [Some(true), Some(false), None].map(|is_redriven| (states.clone(), is_redriven)))
    {
        let fits = |(_, state, redriven): &&(JobId, JobState, bool)| {
            (states.is_empty() || states.contains(state)) && is_redriven.is_none_or(|is| is == *redriven)
        };
        let mut expected: Vec<JobId> = all.iter().filter(fits).map(|(id, ..)| *id).collect();
        let filter = Filter { states: states.clone(), is_redriven, ..Filter::default() };
        for order in [Order::Oldest, Order::Newest] {
            let mut request =
                ListRequest { filter: filter.clone(), order, limit: 4, ..ListRequest::default() };
            let mut found = Vec::new();
            loop {
                let page = t.store.list(&t.me, request.clone()).await.unwrap();
                found.extend(page.jobs.iter().map(|snapshot| snapshot.job.id));
                request.cursor = page.next;
                if request.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{states:?} {is_redriven:?} {order:?}");
            expected.reverse();
        }
        let counted = t.store.count_up_to(&t.me, &filter, 100).await.unwrap();
        assert_eq!(
            (counted.jobs, counted.is_all),
            (expected.len() as u64, true),
            "{states:?} {is_redriven:?}"
        );
    }
    let running = Filter { states: vec![JobState::Running], is_redriven: Some(true), ..Filter::default() };
    assert_eq!(ids(t, running, Order::Oldest).await, []);
}

/// Model: leases-and-heartbeats
async fn running_jobs_are_listed_however_many_have_ended_beside_them(t: &Fixture) {
    let worker = t.worker().await;
    // More than a page looks at where each must be looked up.
    let mut claimed = Vec::new();
    for _ in 0..3 {
        t.submit_all(vec![new_job("report"); 7_000]).await;
        for _ in 0..14 {
            claimed.extend(t.claim(worker, 500).await);
        }
    }
    let mut running: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.id).collect();
    for _ in 0..2 {
        for order in [Order::Newest, Order::Oldest] {
            let filter = Filter { states: vec![JobState::Running], ..Filter::default() };
            let mut request = ListRequest { filter, order, cursor: None, limit: 500 };
            let mut found = Vec::new();
            loop {
                let page = t.store.list(&t.me, request.clone()).await.unwrap();
                found.extend(page.jobs.iter().map(|found| found.job.id));
                request.cursor = page.next;
                if request.cursor.is_none() {
                    break;
                }
            }
            if order == Order::Newest {
                found.reverse();
            }
            assert_eq!(found, running, "{order:?}");
        }
        // All but one in a hundred end, in many steps.
        let (stay, end): (Vec<_>, Vec<_>) =
            claimed.iter().enumerate().partition(|(place, _)| place.is_multiple_of(100));
        for some in end.chunks(450) {
            let completed = Outcome::Completed { result: None };
            let report = |job: &JobRecord| Report::new(job.id, job.fence, completed.clone());
            let reports = some.iter().map(|(_, claimed)| report(&claimed.job)).collect();
            t.store.finish(&t.me, worker, reports).await.unwrap();
        }
        running = stay.iter().map(|(_, claimed)| claimed.job.id).collect();
    }
    let by_worker = ids(t, Filter { workers: vec![worker], ..Filter::default() }, Order::Oldest).await;
    assert_eq!(by_worker, running);
    // Those whose lease then ends are all found by it.
    t.advance(secs(3600));
    t.tick().await;
    assert!(
        ids(t, Filter { states: vec![JobState::Running], ..Filter::default() }, Order::Oldest)
            .await
            .is_empty()
    );
}

/// Model: leases-and-heartbeats, tenant-isolation
async fn running_jobs_are_counted_by_worker(t: &Fixture) {
    let (first, second) = (t.worker().await, t.worker().await);
    let mut foreign = new_job("report");
    foreign.tenant = Some(tenant("blue"));
    t.submit_all(vec![foreign, new_job("report"), new_job("report"), new_job("report")]).await;
    t.claim(first, 1).await;
    t.claim(second, 2).await;
    for (max, expected, is_all) in [(3, vec![1, 2], true), (9, vec![1, 2], true), (2, vec![2], false)] {
        let busy = t.store.busy(&t.me, max).await.unwrap();
        let found = [first, second].into_iter().filter_map(|worker| busy.workers.get(&worker).copied());
        assert_eq!((found.collect::<Vec<u64>>(), busy.is_all), (expected, is_all), "up to {max}");
    }
    let blue = caller("ann", windlass::store::caller::Role::Viewer, "blue");
    let own = t.store.busy(&blue, 9).await.unwrap();
    assert_eq!(own.workers.into_values().sum::<u64>(), 1, "a tenant counts its own");
}

/// Model: queue-pause
async fn ready_jobs_that_a_pause_holds_are_counted_once(t: &Fixture) {
    let mut foreign = new_job("mail");
    foreign.tenant = Some(tenant("blue"));
    t.submit_all(vec![new_job("report"), new_job("report"), new_job("mail"), foreign]).await;
    let paused = async || t.store.totals(&t.me).await.unwrap().paused;
    assert_eq!(paused().await, 0);
    let kind = |name: &str| PauseTarget::Type(JobType::new(name).unwrap());
    t.store.pause(&t.me, kind("report"), Pause::default()).await.unwrap();
    assert_eq!(paused().await, 2);
    t.store.pause(&t.me, PauseTarget::Tenant(tenant("default")), Pause::default()).await.unwrap();
    assert_eq!(paused().await, 3, "two of them are held twice");
    let lasting = Pause::default().expires_in(secs(60));
    t.store.pause(&t.me, PauseTarget::Gate, lasting).await.unwrap();
    assert_eq!(paused().await, 4);
    let blue = caller("ann", windlass::store::caller::Role::Viewer, "blue");
    assert_eq!(t.store.totals(&blue).await.unwrap().paused, 1, "a tenant counts its own");
    t.advance(secs(61));
    assert_eq!(paused().await, 3, "the gate opened by itself");
}

/// Page by page, with more lanes than are looked up one by one.
async fn the_order_of_claims_is_kept_over_thousands_of_lanes(t: &Fixture) {
    let job = |number: usize| {
        let priority = Priority::new(i64::try_from(number * 37 % 101).unwrap()).unwrap();
        NewJob { queue: queue(&format!("q{}", number % 1_200)), priority: Some(priority), ..new_job("a") }
    };
    t.submit_all((0..1_500).map(job).collect()).await;
    let filter = Filter { states: vec![JobState::Scheduled], ..Filter::default() };
    let mut request = ListRequest { filter, order: Order::Claim, cursor: None, limit: 200 };
    let mut found = Vec::new();
    loop {
        let page = t.store.list(&t.me, request.clone()).await.unwrap();
        found.extend(page.jobs.iter().map(|found| (Reverse(found.job.priority), found.job.seq)));
        request.cursor = page.next;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 1_500);
    assert!(found.is_sorted(), "the most urgent first, then the oldest");
}
