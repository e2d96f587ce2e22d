//! Fairness and aging: who is next when many wait.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::job::{JobId, JobRecord, NewJob, WorkerId};
use windlass::limits::BATCH_JOBS_MAX;
use windlass::settings::{FairBy, QueueSettings, TenantSettings};
use windlass::store::StoreOptions;
use windlass::store::engine::ClaimOrder;

use crate::claims::concurrency::submit_many;
use crate::fixture::{Fixture, new_job, priority, queue, secs, tenant};

tests!(
    claims_fairness, claims::fairness:
    tenants_take_turns_in_a_fair_queue,
    one_tenants_many_jobs_delay_anothers_first_by_one_turn,
    a_weight_gives_a_tenant_longer_turns,
    turns_are_taken_within_one_priority,
    turns_continue_from_claim_to_claim,
    a_tenant_at_its_limit_leaves_its_turn_to_the_others,
    a_fair_queue_keeps_its_place_among_others,
    without_fairness_the_first_submitted_is_first,
    a_waiting_job_rises_by_one_point_per_interval,
    aging_stops_at_the_top,
    aging_keeps_the_order_within_a_priority,
    only_the_queue_that_says_so_ages,
    aging_compares_every_priority_of_every_lane,
    aging_and_turns_go_together,
    claims_of_a_few_give_the_order_of_one_claim_of_all,
    where_too_many_age_none_is_lost_and_lanes_keep_their_order,
    where_too_many_age_the_oldest_is_claimed_in_its_lanes_turn,
);

fn fair() -> QueueSettings {
    QueueSettings { fair_by: Some(FairBy::Tenant), ..QueueSettings::default() }
}

fn of(name: &str) -> NewJob {
    NewJob { tenant: Some(tenant(name)), ..new_job("send") }
}

/// Whose jobs start, in order.
async fn order(t: &Fixture, worker: WorkerId, limit: usize) -> String {
    let claimed = t.claim(worker, limit).await;
    claimed.iter().map(|claimed| claimed.job.lane.tenant.as_str()).collect()
}

/// Model: fairness
async fn tenants_take_turns_in_a_fair_queue(t: &Fixture) {
    t.set_queue("default", fair()).await;
    let worker = t.worker().await;
    for (name, count) in [("a", 6), ("b", 2), ("c", 3)] {
        submit_many(t, of(name), count).await;
    }
    assert_eq!(order(t, worker, 100).await, "abcabcacaaa");
}

/// Model: fairness
async fn one_tenants_many_jobs_delay_anothers_first_by_one_turn(t: &Fixture) {
    t.set_queue("default", fair()).await;
    let worker = t.worker().await;
    for _ in 0..2 {
        submit_many(t, of("a"), BATCH_JOBS_MAX).await;
    }
    assert_eq!(order(t, worker, 7).await, "aaaaaaa");
    let late = t.submit(of("b")).await.id;
    assert_eq!(t.claim(worker, 1).await[0].job.id, late);
    t.advance(secs(60));
    let late = t.submit(of("b")).await.id;
    let next = t.claim_ids(worker, 2).await;
    assert!(next.contains(&late), "it waits for one turn at most");
}

/// Model: fairness
async fn a_weight_gives_a_tenant_longer_turns(t: &Fixture) {
    t.set_queue("default", fair()).await;
    t.set_tenant("b", TenantSettings { weight: Some(3), ..TenantSettings::default() }).await;
    let worker = t.worker().await;
    for name in ["a", "b", "c"] {
        submit_many(t, of(name), 6).await;
    }
    let mut all = String::new();
    for _ in 0..3 {
        all += &order(t, worker, 5).await;
    }
    assert_eq!(all, "abbbcabbbcacaca");
}

/// Model: fairness
async fn turns_are_taken_within_one_priority(t: &Fixture) {
    t.set_queue("default", fair()).await;
    let worker = t.worker().await;
    submit_many(t, of("a"), 3).await;
    submit_many(t, of("b"), 3).await;
    submit_many(t, NewJob { priority: Some(priority(90)), ..of("b") }, 3).await;
    assert_eq!(order(t, worker, 9).await, "bbbababab");
}

/// Model: fairness
async fn turns_continue_from_claim_to_claim(t: &Fixture) {
    t.set_queue("default", fair()).await;
    let worker = t.worker().await;
    for name in ["a", "b", "c"] {
        submit_many(t, of(name), 4).await;
    }
    let mut all = String::new();
    for _ in 0..12 {
        all += &order(t, worker, 1).await;
    }
    assert_eq!(all, "abcabcabcabc");
}

/// Model: concurrency-limits, fairness
async fn a_tenant_at_its_limit_leaves_its_turn_to_the_others(t: &Fixture) {
    t.set_queue("default", fair()).await;
    t.set_tenant("a", TenantSettings { max_running: Some(2), ..TenantSettings::default() }).await;
    let worker = t.worker().await;
    for name in ["a", "b"] {
        submit_many(t, of(name), 5).await;
    }
    assert_eq!(order(t, worker, 9).await, "ababbbb");
}

/// Model: claim-order, fairness
async fn a_fair_queue_keeps_its_place_among_others(t: &Fixture) {
    t.set_queue("default", fair()).await;
    let worker = t.worker().await;
    submit_many(t, of("a"), 2).await;
    t.advance(secs(1));
    let other = t.submit(NewJob { queue: queue("mail"), ..new_job("send") }).await.id;
    t.advance(secs(1));
    submit_many(t, of("b"), 2).await;
    let claimed = t.claim(worker, 9).await;
    let place = claimed.iter().position(|claimed| claimed.job.id == other);
    assert_eq!(place, Some(3), "the queue's oldest jobs are older than the other's, in any turn");
}

/// Model: claim-order
async fn without_fairness_the_first_submitted_is_first(t: &Fixture) {
    let worker = t.worker().await;
    for name in ["a", "b"] {
        submit_many(t, of(name), 3).await;
    }
    assert_eq!(order(t, worker, 9).await, "aaabbb");
}

fn aging(seconds: u64) -> QueueSettings {
    QueueSettings { aging: Some(secs(seconds)), ..QueueSettings::default() }
}

fn at(value: i64) -> NewJob {
    NewJob { priority: Some(priority(value)), ..new_job("send") }
}

/// Model: aging
async fn a_waiting_job_rises_by_one_point_per_interval(t: &Fixture) {
    t.set_queue("default", aging(60)).await;
    let worker = t.worker().await;
    let old = t.submit(at(50)).await.id;
    t.advance(secs(60 * 5 - 1));
    let higher = t.submit(at(55)).await.id;
    assert_eq!(t.claim_ids(worker, 1).await, [higher]);
    let higher = t.submit(at(55)).await.id;
    t.advance(secs(1));
    assert_eq!(t.claim_ids(worker, 2).await, [old, higher], "level after five intervals, and older");
}

/// Model: aging
async fn aging_stops_at_the_top(t: &Fixture) {
    t.set_queue("default", aging(1)).await;
    let worker = t.worker().await;
    let first = t.submit(at(100)).await.id;
    t.advance(secs(1));
    let bulk = t.submit(at(0)).await.id;
    t.advance(secs(3_600));
    let late = t.submit(at(100)).await.id;
    assert_eq!(t.claim_ids(worker, 9).await, [first, bulk, late]);
}

/// Model: claim-order, aging
async fn aging_keeps_the_order_within_a_priority(t: &Fixture) {
    t.set_queue("default", aging(10)).await;
    let worker = t.worker().await;
    let mut all: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    for _ in 0..30 {
        for value in [10, 50, 51, 90] {
            all.entry(value).or_default().push(t.submit(at(value)).await.id);
        }
        t.advance(secs(3));
    }
    let mut started = Vec::new();
    while let [id] = t.claim_ids(worker, 1).await[..] {
        started.push(id);
        t.advance(Duration::from_millis(700));
    }
    assert_eq!(started.len(), 120);
    for (value, ids) in all {
        let of_value: Vec<_> = started.iter().filter(|id| ids.contains(id)).copied().collect();
        assert_eq!(of_value, ids, "priority {value}");
    }
}

/// Model: aging
async fn only_the_queue_that_says_so_ages(t: &Fixture) {
    t.set_queue("slow", aging(1)).await;
    let worker = t.worker().await;
    let plain = t.submit(at(40)).await.id;
    let ages = t.submit(NewJob { queue: queue("slow"), ..at(0) }).await.id;
    t.advance(secs(39));
    assert_eq!(t.claim_ids(worker, 1).await, [plain]);
    let plain = t.submit(at(40)).await.id;
    t.advance(secs(3));
    assert_eq!(t.claim_ids(worker, 2).await, [ages, plain]);
}

const LANES: i64 = 12;
const PRIORITIES: i64 = 6;
/// Jobs behind the first of each lane that a claim compares if all are compared.
const LOWER: usize = 12 * 5;

/// A store in which a claim compares so many jobs behind the first of each lane.
async fn compares(t: &Fixture, aging_heads_per_claim: usize) -> Fixture {
    let t = t.another(StoreOptions { aging_heads_per_claim, ..StoreOptions::default() });
    t.set_queue("default", aging(10)).await;
    t
}

fn of_lane(lane: i64, value: i64) -> NewJob {
    NewJob { tenant: Some(tenant(&format!("t{lane:02}"))), ..at(value) }
}

/// Three jobs of each priority and lane, of very different ages.
async fn mixed(t: &Fixture) -> Vec<JobRecord> {
    let mut jobs = Vec::new();
    for n in 0..3 * LANES * PRIORITIES {
        // Each pair comes once in every round, in an order that goes criss-cross.
        let pair = n * 29 % (LANES * PRIORITIES);
        jobs.push(t.submit(of_lane(pair % LANES, 10 * (pair / LANES))).await);
        t.advance(secs(1));
    }
    t.advance(secs(60));
    jobs
}

/// Claims all that there is, a few at a time.
async fn claim_all(t: &Fixture) -> Vec<JobRecord> {
    let (worker, mut claimed) = (t.worker().await, Vec::new());
    for limit in [1, 2, 7, 1, 40, 3].into_iter().cycle() {
        let some = t.claim(worker, limit).await;
        if some.is_empty() {
            break;
        }
        claimed.extend(some.into_iter().map(|claimed| claimed.job));
    }
    claimed
}

fn ids(jobs: &[JobRecord]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Model: aging. Exact as long as all that there is to compare is within the bound.
async fn aging_compares_every_priority_of_every_lane(t: &Fixture) {
    for bound in [LOWER, LOWER + 1, StoreOptions::default().aging_heads_per_claim] {
        let t = compares(t, bound).await;
        let mut jobs = mixed(&t).await;
        jobs.sort_by_key(|job| ClaimOrder::new(job).aged(secs(10), t.now()));
        assert_eq!(ids(&claim_all(&t).await), ids(&jobs), "{bound}");
        t.verify().await;
    }
}

/// Model: aging, fairness. Tenants take turns within the priority that jobs have risen to.
async fn aging_and_turns_go_together(t: &Fixture) {
    t.set_queue("default", QueueSettings { fair_by: Some(FairBy::Tenant), ..aging(10) }).await;
    let worker = t.worker().await;
    for (name, value) in [("a", 10), ("a", 10), ("b", 20), ("b", 20), ("c", 5)] {
        t.submit(NewJob { tenant: Some(tenant(name)), ..at(value) }).await;
    }
    t.advance(secs(1_000));
    t.submit(NewJob { tenant: Some(tenant("c")), ..at(100) }).await;
    assert_eq!(order(t, worker, 1).await, "a");
    assert_eq!(order(t, worker, 9).await, "bcabc");
}

/// Model: claim-order, fairness, aging. What a claim finds does not depend on what earlier ones have seen and taken.
async fn claims_of_a_few_give_the_order_of_one_claim_of_all(t: &Fixture) {
    let fair_by = [Some(FairBy::Tenant), None];
    let mut orders = Vec::new();
    for sizes in [&[1_000][..], &[1], &[1, 3, 2, 17, 1]] {
        let t = t.another(StoreOptions::default());
        for (name, (fair_by, seconds)) in
            [("one", (fair_by[0], 7)), ("two", (fair_by[0], 20)), ("three", (fair_by[1], 11))]
        {
            t.set_queue(name, QueueSettings { fair_by, ..aging(seconds) }).await;
        }
        for n in 0..160_i64 {
            let name = ["one", "two", "three", "plain"][usize::try_from(n * n % 7 % 4).unwrap()];
            t.submit(NewJob { queue: queue(name), ..of_lane(n * 13 % 5, n * 37 % 11 * 10) }).await;
            t.advance(Duration::from_millis(700));
        }
        let (worker, mut claimed) = (t.worker().await, Vec::new());
        for limit in sizes.iter().cycle() {
            let some = t.claim(worker, *limit).await;
            if some.is_empty() {
                break;
            }
            claimed.extend(some.into_iter().map(|claimed| claimed.job.seq));
        }
        assert_eq!(claimed.len(), 160);
        orders.push(claimed);
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0], orders[2]);
}

/// Model: claim-order, aging. Every job is claimed once, and within a lane and a priority the order is kept.
async fn where_too_many_age_none_is_lost_and_lanes_keep_their_order(t: &Fixture) {
    for bound in [1, 7, LOWER - 1] {
        let t = compares(t, bound).await;
        let jobs = mixed(&t).await;
        let claimed = claim_all(&t).await;
        assert_eq!(claimed.len(), jobs.len(), "{bound}");
        for first in &jobs {
            let same = |job: &&JobRecord| job.lane == first.lane && job.priority == first.priority;
            let in_order = jobs.iter().filter(same).map(|job| job.id);
            assert!(claimed.iter().filter(same).map(|job| job.id).eq(in_order), "{bound}");
        }
        t.verify().await;
    }
}

/// Model: aging. A job that has risen above all others is claimed when the turn of its lane comes, at the latest after as many claims
/// as it takes to compare all lanes.
async fn where_too_many_age_the_oldest_is_claimed_in_its_lanes_turn(t: &Fixture) {
    for lane in [0, 5, 11] {
        // One lane in full and the beginning of another.
        let t = compares(t, 8).await;
        let oldest = t.submit(of_lane(lane, 0)).await.id;
        t.advance(secs(2_000));
        for n in 0..2 * LANES * PRIORITIES {
            t.submit(of_lane(n % LANES, 10 * (n / LANES % PRIORITIES) + 40)).await;
        }
        let worker = t.worker().await;
        let mut claims = 1;
        while t.claim_ids(worker, 1).await != [oldest] {
            claims += 1;
        }
        assert!(claims <= LANES, "{claims} claims");
    }
}
