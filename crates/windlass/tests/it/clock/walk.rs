//! Random walks of clocks: the wall clock jumps, creeps and is set right again, the store stands still or is started again, at
//! random moments, while a worker beats on. Whatever happens, no job expires and no lease is lost. `WINDLASS_WALK_SEEDS` and
//! `WINDLASS_WALK_STEPS` make it longer.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use windlass::clock::Timestamp;
use windlass::job::{JobState, WorkerId};
use windlass::store::{ClaimedJob, Directive};

use super::{DAY_MS, MINUTE_MS, Node, on_engines};
use crate::fixture::{On, new_job};

on_engines!([Memory, Sqlite, Postgres] no_job_expires_and_no_lease_is_lost_whatever_the_clocks_do);

pub(super) fn wanted(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

struct Walk {
    node: Node,
    dice: StdRng,
    worker: WorkerId,
    held: Vec<ClaimedJob>,
    submitted: u64,
    /// By how much the wall clock is off.
    off: i64,
    reply: String,
}

impl Walk {
    async fn new(on: On, seed: u64) -> Walk {
        let node = Node::new(on);
        let worker = node.worker().await;
        let dice = StdRng::seed_from_u64(seed);
        Walk { node, dice, worker, held: Vec::new(), submitted: 0, off: 0, reply: format!("seed {seed}") }
    }

    async fn work(&mut self) {
        let mut job = new_job("email.send");
        job.execution_timeout = Some(Duration::from_secs(6 * 24 * 3600));
        let count = self.dice.random_range(1..4);
        self.node.submit(vec![job; count]).await;
        self.submitted += count as u64;
        self.held.extend(self.node.claim(self.worker, 1).await);
    }

    fn tell(&mut self, what: &str) {
        self.reply.push_str(what);
    }

    fn step_wall(&mut self, by: i64) {
        self.node.step(by);
        self.off += by;
        self.tell(&format!(", wall {by:+} ms"));
    }

    fn set_right(&mut self) {
        self.step_wall(-self.off);
    }

    async fn step(mut self, can_restart: bool) -> Walk {
        match self.dice.random_range(0..10) {
            0 => {
                let by = self.dice.random_range(MINUTE_MS + 1..10 * DAY_MS);
                let by = if self.dice.random_bool(0.5) { by } else { -by };
                self.step_wall(by);
            }
            1 => {
                let by = self.dice.random_range(-MINUTE_MS..MINUTE_MS);
                self.step_wall(by);
            }
            2 => self.set_right(),
            3 => {
                let gap = Duration::from_millis(self.dice.random_range(0..900_000));
                self.tell(&format!(", still for {gap:?}"));
                self.node.clocks.pass(gap);
                // Such a gap without a single commit is a gap of the store only if it is longer than a heartbeat.
            }
            4 if can_restart => {
                self.set_right();
                let gap = Duration::from_millis(self.dice.random_range(0..900_000));
                self.tell(&format!(", away for {gap:?}"));
                self.node = self.node.restart_after(gap);
            }
            5 => self.work().await,
            6 => assert_eq!(self.node.store.prune().await.unwrap(), 0, "{}", self.reply),
            _ => {
                let passed = Duration::from_millis(self.dice.random_range(1..9_000));
                self.tell(&format!(", {passed:?}"));
                self.node.clocks.pass(passed);
            }
        }
        self.node.tick().await;
        self
    }

    /// The worker beats, and everything is as it should be.
    async fn check(&self, before: Timestamp) -> Timestamp {
        let directives = self.node.beat(self.worker, &self.held).await;
        assert!(
            directives.iter().all(|reply| *reply == Directive::Continue),
            "{}: {directives:?}",
            self.reply
        );
        let states = self.node.states().await;
        let count = |state| states.iter().find(|(known, _)| *known == state).map_or(0, |(_, count)| *count);
        let (running, waiting) = (count(JobState::Running), count(JobState::Scheduled));
        assert_eq!((running, running + waiting), (self.held.len() as u64, self.submitted), "{}", self.reply);
        let now = self.node.store.clock().now;
        assert!(now >= before, "{}: time went back", self.reply);
        now
    }
}

/// Model: store-time, leases-and-heartbeats, lifetime
async fn no_job_expires_and_no_lease_is_lost_whatever_the_clocks_do(on: On) {
    for seed in 0..wanted("WINDLASS_WALK_SEEDS", 6) {
        let mut walk = Walk::new(on, seed).await;
        walk.work().await;
        let mut now = Timestamp::MIN;
        for _ in 0..wanted("WINDLASS_WALK_STEPS", 60).min(500) {
            walk = walk.step(on != On::Memory).await;
            let last = if on == On::Memory { now } else { Timestamp::MIN };
            now = walk.check(last).await.max(now);
        }
        for held in &walk.held {
            assert_eq!(walk.node.job(held.job.id).await.crashes, 0, "{}", walk.reply);
        }
        walk.node.verify().await;
    }
}
