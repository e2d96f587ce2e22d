//! Aging beyond the number of positions that one claim reads: what a connection remembers between claims makes it exact.

use std::ops::Range;
use std::time::Duration;

use windlass::job::{Failure, JobId, JobState, NewJob};
use windlass::settings::QueueSettings;
use windlass::store::engine::ClaimOrder;
use windlass::store::{ActionRequest, Filter, ListRequest, StoreOptions};

use crate::fixture::{Fixture, new_job, on_every_engine, priority, secs, tenant};

on_every_engine!(lanes_that_were_compared_once_are_exact_ever_after);

const EVERY: Duration = Duration::from_secs(10);
const LANES: i64 = 12;
const PRIORITIES: i64 = 6;
/// Positions that one claim reads: those of one lane and a part of another.
const READ_PER_CLAIM: usize = 8;

fn of_lane(lane: i64, value: i64) -> NewJob {
    let (tenant, priority) = (tenant(&format!("t{lane:02}")), priority(value));
    NewJob { tenant: Some(tenant), priority: Some(priority), ..new_job("send") }
}

/// Jobs of lanes and priorities in an order that goes criss-cross, of very different ages.
async fn submit_mixed(t: &Fixture, numbers: Range<i64>) {
    for n in numbers {
        let pair = n * 29 % (LANES * PRIORITIES);
        t.submit(of_lane(pair % LANES, 10 * (pair / LANES))).await;
        t.advance(secs(1));
    }
}

/// The jobs that can be claimed, in the order of the model, each compared with each.
async fn claimable(t: &Fixture) -> Vec<JobId> {
    let filter = Filter { states: vec![JobState::Scheduled], ..Filter::default() };
    let request = ListRequest { filter, limit: 500, ..ListRequest::default() };
    let page = t.store.list(&t.me, request).await.unwrap();
    assert!(page.next.is_none());
    let mut jobs: Vec<_> = page.jobs.into_iter().map(|found| found.job).collect();
    jobs.sort_by_key(|job| ClaimOrder::new(job).aged(EVERY, t.now()));
    jobs.into_iter().map(|job| job.id).collect()
}

/// Model: claim-order, aging. After as many claims as it takes to compare all lanes, each claim gives the most urgent of all jobs, beside
/// jobs that are added, moved, taken out, put back and retried meanwhile.
async fn lanes_that_were_compared_once_are_exact_ever_after(t: &Fixture) {
    let options = StoreOptions { aging_heads_per_claim: READ_PER_CLAIM, ..StoreOptions::default() };
    let t = t.another(options);
    t.set_queue("default", QueueSettings { aging: Some(EVERY), ..QueueSettings::default() }).await;
    let worker = t.steady_worker().await;
    submit_mixed(&t, 0..2 * LANES * PRIORITIES).await;
    for _ in 0..LANES {
        t.claim_one(worker).await;
    }
    let mut suspended: Option<JobId> = None;
    for round in 0..12_i64 {
        submit_mixed(&t, 11 * round..11 * round + 9).await;
        let jobs = claimable(&t).await;
        t.cancel(jobs[0]).await;
        t.act(jobs[jobs.len() / 2], ActionRequest::Priority(priority(100 - round))).await;
        t.act(jobs[1], ActionRequest::Priority(priority(round))).await;
        if let Some(back) = suspended.replace(jobs[2]) {
            t.resume(back).await;
        }
        t.suspend(jobs[2]).await;
        for wanted in [1, 9, 2] {
            t.tick().await;
            let expected = claimable(&t).await;
            let claimed = t.claim(worker, wanted).await;
            let given: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.id).collect();
            assert_eq!(given, expected[..wanted], "round {round}, claim of {wanted}");
            t.fail(worker, &claimed[0], Failure::temporary("busy")).await;
            t.advance(secs(7));
        }
    }
    t.verify().await;
    t.store.close();
}
