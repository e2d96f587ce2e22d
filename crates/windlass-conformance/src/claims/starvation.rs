//! Random work under limits: nothing is exceeded on the way, and in the end no job was forgotten.

use windlass::entropy::Entropy;
use windlass::job::{JobId, JobState, NewJob, WorkerId};
use windlass::store::{ActionRequest, ClaimedJob, Filter, ListRequest, Snapshot, Suspend};

use crate::claims::concurrency::{at_most, key, stop, submit_many};
use crate::fixture::{Fixture, priority, queue};

tests!(claims_starvation, claims::starvation: no_job_starves_and_no_limit_is_exceeded);

/// Model: concurrency-limits
async fn no_job_starves_and_no_limit_is_exceeded(t: &Fixture) {
    for seed in 0..6 {
        println!("seed {seed}");
        random_work(t, &Entropy::seeded(seed)).await;
    }
}

/// Random work on three keys and three queues, then everything that is left is worked off.
async fn random_work(t: &Fixture, random: &Entropy) {
    let pick = |n: usize| usize::try_from(random.bits() % n as u128).unwrap();
    let worker = t.worker().await;
    let names = ["a", "b", "c"];
    let limit = pick(3) as u64 + 1;
    t.set_queue("a", at_most(limit)).await;
    let mut running: Vec<ClaimedJob> = Vec::new();
    for _ in 0..80 {
        match pick(6) {
            0 | 1 => {
                let job = NewJob { queue: queue(names[pick(3)]), ..key(names[pick(3)]) };
                submit_many(t, NewJob { priority: Some(priority([0, 1, 2][pick(3)])), ..job }, pick(3) + 1)
                    .await;
            }
            2 | 3 => {
                running.extend(t.claim(worker, pick(4) + 1).await);
                within_limits(t, limit).await;
            }
            4 if !running.is_empty() => {
                let claimed = running.swap_remove(pick(running.len()));
                let ways = ["complete", "retry", "fail", "park", "cancel", "suspend"];
                stop(t, ways[pick(ways.len())], worker, &claimed).await;
            }
            _ => {
                let open: Vec<JobId> =
                    in_state(t, JobState::Scheduled).await.iter().map(|found| found.job.id).collect();
                if !open.is_empty() {
                    let id = open[pick(open.len())];
                    let acts = [
                        ActionRequest::Suspend(Suspend::default()),
                        ActionRequest::Priority(priority([0, 1, 2, 3, 4][pick(5)])),
                    ];
                    t.act(id, acts[pick(2)].clone()).await;
                }
            }
        }
    }
    work_off(t, worker, running, limit).await;
}

async fn in_state(t: &Fixture, state: JobState) -> Vec<Snapshot> {
    let filter = Filter { states: vec![state], ..Filter::default() };
    let request = ListRequest { filter, limit: 500, ..ListRequest::default() };
    t.store.list(&t.me, request).await.unwrap().jobs
}

async fn within_limits(t: &Fixture, limit: u64) {
    let running = in_state(t, JobState::Running).await;
    let in_queue = running.iter().filter(|found| found.job.lane.queue == queue("a")).count();
    assert!(in_queue as u64 <= limit, "{in_queue} run in a queue of {limit}");
    for name in ["a", "b", "c"] {
        let with_key = running.iter().filter(|found| found.spec.concurrency_key.as_deref() == Some(name));
        assert!(with_key.count() <= 1, "two jobs run with key {name}");
    }
}

async fn work_off(t: &Fixture, worker: WorkerId, mut running: Vec<ClaimedJob>, limit: u64) {
    loop {
        for claimed in running.drain(..) {
            t.complete(worker, &claimed).await;
        }
        running = t.claim(worker, 100).await;
        within_limits(t, limit).await;
        if running.is_empty() {
            break;
        }
    }
    for found in t.everything().await.jobs {
        assert_ne!(found.job.state, JobState::Scheduled, "{} starves: {:?}", found.job.id, found.why);
        if !found.job.state.is_final() {
            t.cancel(found.job.id).await;
        }
    }
}
