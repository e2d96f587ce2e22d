//! Those who take part in a race. Each does a bounded number of things, as fast as the store lets it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use windlass::error::ActionError;
use windlass::job::{Failure, JobId, Priority, SuspendMode, WorkerId};
use windlass::store::{
    ActionRequest, ClaimRequest, ClaimedJob, HeartbeatItem, Outcome, Park, Pause, PauseMode, PauseTarget,
    Report, Store, SubmitOptions, Suspend,
};

use super::super::rng::Dice;
use super::Arena;
use crate::fixture::{new_job, queue};

const SUBMISSIONS: usize = 30;
const CLAIMS: usize = 40;
const MEDDLINGS: usize = 50;
const PAUSES: usize = 12;
const JUMPS: usize = 60;

/// Starts all players.
pub(super) fn start(arena: &Arc<Arena>, seed: u64) -> Vec<JoinHandle<()>> {
    let mut players = Vec::new();
    let mut dice = (0..).map(|place| Dice::new(seed * 1_000 + place));
    let mut next = || dice.next().expect("there is always a next one");
    for place in 0..4 {
        players.push(tokio::spawn(submit(arena.clone(), place, next())));
    }
    for place in 0..5 {
        players.push(tokio::spawn(work(arena.clone(), place, next())));
    }
    for place in 0..3 {
        players.push(tokio::spawn(meddle(arena.clone(), place, next())));
    }
    players.push(tokio::spawn(pause(arena.clone(), next())));
    players.push(tokio::spawn(pass_time(arena.clone(), next())));
    players
}

async fn submit(arena: Arc<Arena>, place: usize, mut dice: Dice) {
    let (store, me) = (arena.node(place), &arena.fixture.me);
    for round in 0..SUBMISSIONS {
        let mut job = new_job("email.send");
        job.queue = queue(dice.pick(&["default", "mail", "mail", "slow"]));
        job.concurrency_key = dice.maybe(50, &["c1", "c2"]).map(str::to_owned);
        job.priority = dice.maybe(30, &[Priority::HIGH, Priority::LOW]);
        job.hold = dice.chance(5);
        // All submitters go through the keys at the same pace, so that they meet.
        let key = dice.chance(60).then(|| format!("key {}", round / 3));
        job.idempotency_key.clone_from(&key);
        let receipts = store.submit(me, vec![job], SubmitOptions::default()).await.expect("it is allowed");
        let receipt = &receipts[0];
        if let Some(key) = key {
            let mut replies = arena.replies.lock().expect("no thread panicked");
            let (jobs, new) = replies.keys.entry(key).or_default();
            jobs.insert(receipt.job.id);
            *new += usize::from(!receipt.is_duplicate);
        }
        if !receipt.is_duplicate {
            arena.jobs.lock().expect("no thread panicked").push(receipt.job.id);
        }
        yield_now().await;
    }
}

async fn work(arena: Arc<Arena>, place: usize, mut dice: Dice) {
    let (store, me) = (arena.node(place), &arena.fixture.me);
    let worker = arena.worker(place.is_multiple_of(2)).await;
    for _ in 0..CLAIMS {
        let request = ClaimRequest::new(worker, 1 + dice.below(4));
        let claimed = store.claim(me, &request, Duration::ZERO).await.expect("the worker is known").jobs;
        arena.note_claims(&claimed);
        for one in claimed {
            match dice.below(10) {
                // Lost: its lease ends by itself.
                0 => continue,
                1 => {
                    let beats = vec![HeartbeatItem::new(one.job.id, one.job.fence)];
                    store.heartbeat(me, worker, beats).await.expect("the worker is known");
                }
                2 => yield_now().await,
                _ => {}
            }
            report(&arena, store, &mut dice, worker, &one).await;
        }
        yield_now().await;
    }
}

/// Reports an end, sometimes twice at once: only one of the two may count.
async fn report(arena: &Arena, store: &Store, dice: &mut Dice, worker: WorkerId, one: &ClaimedJob) {
    let me = &arena.fixture.me;
    let (job, fence) = (one.job.id, one.job.fence);
    let outcome = |dice: &mut Dice| match dice.below(8) {
        0..=4 => Outcome::Completed { result: Some(b"1".to_vec()) },
        5 => Outcome::Failed(Failure::temporary("not yet")),
        6 => Outcome::Released,
        _ => Outcome::Parked(Park::For(Duration::from_secs(1))),
    };
    let first = store.finish(me, worker, vec![Report::new(job, fence, outcome(dice))]);
    let second = store.finish(me, worker, vec![Report::new(job, fence, outcome(dice))]);
    let answers = if dice.chance(25) {
        let (first, second) = tokio::join!(first, second);
        vec![first, second]
    } else {
        vec![first.await]
    };
    for answer in answers {
        arena.note_finish(job, fence, &answer.expect("the worker is known")[0]);
    }
}

/// Suspends, resumes, cancels and changes priorities, often twice at once.
async fn meddle(arena: Arc<Arena>, place: usize, mut dice: Dice) {
    let store = arena.node(place);
    for _ in 0..MEDDLINGS {
        let job = {
            let jobs = arena.jobs.lock().expect("no thread panicked");
            dice.recent(&jobs, 15)
        };
        let Some(job) = job else {
            yield_now().await;
            continue;
        };
        match dice.below(8) {
            0 => act(&arena, store, job, ActionRequest::Cancel { reason: None }).await,
            1 => {
                act(
                    &arena,
                    store,
                    job,
                    ActionRequest::Priority(dice.pick(&[Priority::CRITICAL, Priority::BULK])),
                )
                .await;
            }
            2..=4 => {
                let mode =
                    dice.pick(&[SuspendMode::IdleOnly, SuspendMode::Graceful, SuspendMode::Aggressive]);
                act(&arena, store, job, ActionRequest::Suspend(Suspend { mode, ..Suspend::default() })).await;
            }
            _ => {
                let resume = || act(&arena, store, job, ActionRequest::Resume { reason: None });
                tokio::join!(resume(), resume());
            }
        }
        yield_now().await;
    }
}

async fn act(arena: &Arena, store: &Store, job: JobId, act: ActionRequest) {
    match store.act(&arena.fixture.me, job, act).await {
        // What comes too late is refused by name.
        Ok(_) | Err(ActionError::Refused(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Pauses a queue or the gate for a moment; while it lasts nothing of it starts.
async fn pause(arena: Arc<Arena>, mut dice: Dice) {
    let (store, me) = (&arena.fixture.store, &arena.fixture.me);
    for _ in 0..PAUSES {
        let target = match dice.below(3) {
            0 => PauseTarget::Gate,
            1 => PauseTarget::Queue(queue("default")),
            _ => PauseTarget::Queue(queue("mail")),
        };
        let mode = dice.pick(&[PauseMode::Graceful, PauseMode::Aggressive]);
        store.pause(me, target.clone(), Pause { mode, ..Pause::default() }).await.expect("an admin may");
        for _ in 0..dice.below(40) {
            yield_now().await;
        }
        store.resume(me, target, None).await.expect("an admin may");
        for _ in 0..dice.below(80) {
            yield_now().await;
        }
    }
}

async fn pass_time(arena: Arc<Arena>, mut dice: Dice) {
    for _ in 0..JUMPS {
        arena.fixture.advance(dice.time(&[1, 100, 1_000, 12_000]));
        arena.fixture.store.tick().await.expect("the store answers");
        yield_now().await;
    }
}
