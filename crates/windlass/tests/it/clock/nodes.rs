//! Random walks of the clocks of several nodes on one store: the database's clock jumps for all of them, the wall clock of one of
//! them jumps, one stands still or is started again while the others continue, at random moments, while a worker beats at any of them.
//! No lease ends, no job expires and nothing is pruned by a reading that is not believed. `WINDLASS_WALK_SEEDS` and
//! `WINDLASS_WALK_STEPS` make it longer.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use windlass::clock::Timestamp;
use windlass::job::{JobState, WorkerId};
use windlass::store::{ClaimedJob, Directive};

use super::walk::wanted;
use super::{DAY_MS, MINUTE_MS, Node, on_engines, open};
use crate::fixture::{On, new_job};

on_engines!([Sqlite, Postgres]
    several_nodes_lose_nothing_whatever_their_clocks_do,
    a_node_that_is_started_after_a_small_step_of_the_clock_ends_no_lease,
);

const NODES: usize = 3;
/// Store time runs at most a tenth faster than real time; what is shown is rounded.
const ROUNDING: Duration = Duration::from_millis(2);

impl Node {
    /// Another process on the same store, whose clocks show the same and are set off by themselves.
    fn beside(&self) -> Node {
        let clocks = Arc::new(self.clocks.copied());
        let store = open(&self.address, &clocks);
        Node { store, clocks, address: self.address.clone(), me: self.me.clone(), _files: None }
    }
}

struct Walk {
    nodes: Vec<Node>,
    /// How many more steps a node stands still for.
    still: [u64; NODES],
    dice: StdRng,
    worker: WorkerId,
    held: Vec<ClaimedJob>,
    submitted: u64,
    /// By how much the wall clock of each is off, and the database's.
    off: [i64; NODES],
    database_off: i64,
    reply: String,
}

impl Walk {
    async fn new(on: On, seed: u64) -> Walk {
        let first = Node::new(on);
        let worker = first.worker().await;
        let nodes = vec![first.beside(), first.beside(), first];
        let (dice, reply) = (StdRng::seed_from_u64(seed), format!("seed {seed}"));
        let (held, off) = (Vec::new(), [0; NODES]);
        Walk { nodes, still: [0; NODES], dice, worker, held, submitted: 0, off, database_off: 0, reply }
    }

    fn tell(&mut self, what: &str) {
        self.reply.push_str(", ");
        self.reply.push_str(what);
    }

    /// A node that does not stand still.
    fn any(&mut self) -> usize {
        let awake: Vec<usize> = (0..NODES).filter(|node| self.still[*node] == 0).collect();
        awake[self.dice.random_range(0..awake.len())]
    }

    fn jump(&mut self) -> i64 {
        let by = match self.dice.random_range(0..3) {
            0 => self.dice.random_range(0..MINUTE_MS / 2),
            1 => self.dice.random_range(2 * MINUTE_MS..30 * MINUTE_MS),
            _ => self.dice.random_range(DAY_MS..10 * DAY_MS),
        };
        if self.dice.random_bool(0.5) { by } else { -by }
    }

    fn set_database(&mut self, off: i64) {
        let by = off - self.database_off;
        self.nodes.iter().for_each(|node| node.clocks.step_database(by));
        self.database_off = off;
        self.tell(&format!("database {off:+} ms"));
    }

    fn set_wall(&mut self, node: usize, off: i64) {
        self.nodes[node].clocks.step_wall(off - self.off[node]);
        self.off[node] = off;
        self.tell(&format!("wall of {node} {off:+} ms"));
    }

    async fn work(&mut self) {
        let mut job = new_job("email.send");
        job.execution_timeout = Some(Duration::from_secs(6 * 24 * 3600));
        let (count, node) = (self.dice.random_range(1..4), self.any());
        self.nodes[node].submit(vec![job; count]).await;
        self.submitted += count as u64;
        let node = self.any();
        self.held.extend(self.nodes[node].claim(self.worker, 1).await);
    }

    fn restart(&mut self, node: usize) {
        self.tell(&format!("{node} is started again"));
        self.nodes[node].store.close();
        self.nodes[node].store = open(&self.nodes[node].address, &self.nodes[node].clocks);
    }

    async fn step(&mut self) {
        let node = self.any();
        match self.dice.random_range(0..11) {
            0 => {
                let off = self.jump();
                self.set_database(off);
            }
            1 => self.set_database(0),
            2 => {
                let off = self.jump();
                self.set_wall(node, off);
            }
            3 => self.set_wall(node, 0),
            // One of them always continues.
            4 if self.still.iter().filter(|still| **still > 0).count() < NODES - 1 => {
                self.still[node] = self.dice.random_range(1..20);
                let steps = self.still[node];
                self.tell(&format!("{node} stands still for {steps} steps"));
            }
            5 => self.restart(node),
            6 | 7 => self.work().await,
            8 => assert_eq!(self.nodes[node].store.prune().await.unwrap(), 0, "{}", self.reply),
            _ => {}
        }
        self.pass().await;
    }

    /// Time passes for all; those that do not stand still keep the store, and the worker beats at one of them.
    async fn pass(&mut self) {
        let passed = Duration::from_millis(self.dice.random_range(1..9_000));
        self.tell(&format!("{passed:?}"));
        let before: Vec<Timestamp> = self.nodes.iter().map(|node| node.store.clock().now).collect();
        for (number, node) in self.nodes.iter().enumerate() {
            node.clocks.pass(passed);
            let now = node.store.clock().now;
            assert!(now >= before[number], "{}: time of {number} went back", self.reply);
            let most = passed * 11 / 10 + ROUNDING;
            assert!(now.since(before[number]) <= most, "{}: time of {number} jumped", self.reply);
        }
        for number in 0..NODES {
            if self.still[number] == 0 {
                self.nodes[number].tick().await;
            }
            self.still[number] = self.still[number].saturating_sub(1);
        }
        let node = self.any();
        let directives = self.nodes[node].beat(self.worker, &self.held).await;
        let is_held = directives.iter().all(|reply| *reply == Directive::Continue);
        assert!(is_held, "{}: at {node}: {directives:?}", self.reply);
    }

    async fn check(&self) {
        for node in &self.nodes {
            let states = node.states().await;
            let count =
                |state| states.iter().find(|(known, _)| *known == state).map_or(0, |(_, count)| *count);
            let (running, waiting) = (count(JobState::Running), count(JobState::Scheduled));
            let expected = (self.held.len() as u64, self.submitted);
            assert_eq!((running, running + waiting), expected, "{}: {states:?}", self.reply);
            node.verify().await;
        }
        for held in &self.held {
            let job = self.nodes[0].job(held.job.id).await;
            assert_eq!((job.crashes, job.attempt), (0, 1), "{}", self.reply);
        }
    }
}

/// Model: store-time, leases-and-heartbeats, lifetime, retention
async fn several_nodes_lose_nothing_whatever_their_clocks_do(on: On) {
    for seed in 0..wanted("WINDLASS_WALK_SEEDS", 6) {
        let mut walk = Walk::new(on, seed).await;
        walk.work().await;
        for _ in 0..wanted("WINDLASS_WALK_STEPS", 60).min(2_000) {
            walk.step().await;
        }
        walk.check().await;
        walk.nodes.iter().for_each(|node| node.store.close());
    }
}

/// Model: store-time, leases-and-heartbeats. A step of less than a minute is believed. A node that is started then begins there, and takes the others along at
/// once; what they did not receive meanwhile is not silence.
async fn a_node_that_is_started_after_a_small_step_of_the_clock_ends_no_lease(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 3]).await;
    let held = t.claim(worker, 3).await;
    t.pass_beating(20, worker, &held).await;
    t.step(50_000);
    let other = t.beside();
    other.submit(vec![new_job("email.send")]).await;
    for node in [&t, &other, &t] {
        node.tick().await;
        assert_eq!(node.beat(worker, &held).await, [Directive::Continue; 3]);
    }
    t.pass_beating(60, worker, &held).await;
    assert_eq!(t.job(held[0].job.id).await.crashes, 0);
    t.verify().await;
}
