//! Those who submit and those who work, by HTTP through the proxies. A call without an answer is made again, to any node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::history::{Answer, Call, History, Lease};
use super::{LEASE, LIMITED, ORDERED, PARENTS, PLAIN};
use crate::operating::load::ask;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// How often a call without an answer is made again.
const TRIES: usize = 6;
/// Keys that several clients use.
const SHARED_KEYS: u32 = 200;

/// What all clients have in common.
pub(super) struct Shared {
    pub(super) history: History,
    pub(super) nodes: Vec<SocketAddr>,
    /// No more jobs are submitted.
    pub(super) is_ending: AtomicBool,
    /// Workers end.
    pub(super) is_over: AtomicBool,
}

pub(super) struct Client {
    shared: Arc<Shared>,
    rng: StdRng,
    name: String,
}

impl Client {
    pub(super) fn new(shared: &Arc<Shared>, name: &str, seed: u64) -> Client {
        Client { shared: shared.clone(), rng: StdRng::seed_from_u64(seed), name: name.to_owned() }
    }

    /// A whole answer of some node; none if there was none in time.
    async fn ask(&mut self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let node = self.shared.nodes[self.rng.random_range(0..self.shared.nodes.len())];
        let answer = tokio::time::timeout(PATIENCE, ask(node, "POST", path, body)).await.ok()??;
        // The server cannot say how it ended.
        (answer.status < 500).then(|| (answer.status, answer.json()))
    }

    /// Makes a call, and writes down its result.
    async fn call(
        &mut self,
        path: &str,
        body: &Value,
        call: Call,
        read: impl Fn(&Value) -> Answer,
    ) -> Answer {
        let invoked = self.shared.history.now();
        let answer = match self.ask(path, body).await {
            None => Answer::Unknown,
            Some((200..300, body)) => read(&body),
            Some((_, body)) if body["error"]["code"] == "stale_fence" => Answer::Stale,
            Some((status, body)) => Answer::Refused(format!("{status} {}", body["error"]["code"])),
        };
        self.shared.history.add(call, invoked, answer.clone());
        answer
    }

    /// Submits until it is asked to end.
    pub(super) async fn submit_for_ever(mut self) {
        for number in 0_u64.. {
            if self.shared.is_ending.load(Ordering::SeqCst) {
                return;
            }
            let (key, queue) = match self.rng.random_range(0..10) {
                0 | 1 => (format!("shared-{}", self.rng.random_range(0..SHARED_KEYS)), PLAIN),
                2..5 => (format!("{}-{number}", self.name), LIMITED),
                5..8 => (format!("{}-{number}", self.name), ORDERED),
                8 => (format!("{}-{number}", self.name), PARENTS),
                _ => (format!("{}-{number}", self.name), PLAIN),
            };
            let job = json!({
                "type": "history", "queue": queue, "idempotency_key": key, "timeouts": {"lease": lease()},
                "retry": {"initial_delay": "100ms", "max_delay": "200ms", "max_attempts": 50},
            });
            for _ in 0..TRIES {
                let call = Call::Submit { key: key.clone(), queue: queue.to_owned() };
                let read = |body: &Value| Answer::Submitted { job: text(&body["id"]) };
                if self.call("/jobs", &job, call, read).await != Answer::Unknown {
                    break;
                }
            }
        }
    }

    /// Works on one queue until everything is over.
    pub(super) async fn work_for_ever(mut self, queue: &'static str) {
        let mut worker = Value::Null;
        while !self.shared.is_over.load(Ordering::SeqCst) {
            if worker.is_null() {
                let new = json!({"queues": [queue], "types": [], "heartbeats": false, "concurrency": 10});
                let answer = self.ask("/workers", &new).await;
                worker = answer.map_or(Value::Null, |(_, body)| body["worker_id"].clone());
                continue;
            }
            let limit = if queue == ORDERED { 1 } else { self.rng.random_range(1..4) };
            let request = json!({"worker_id": worker, "limit": limit, "wait": "500ms"});
            let call = Call::Claim { queue: queue.to_owned() };
            match self.call("/claims", &request, call, |body| Answer::Claimed(leases(body))).await {
                Answer::Claimed(leases) => {
                    for lease in leases {
                        self.run(&worker, &lease).await;
                    }
                }
                // It was silent for too long.
                Answer::Refused(_) => worker = Value::Null,
                _ => {}
            }
        }
    }

    async fn run(&mut self, worker: &Value, lease: &Lease) {
        let chance = self.rng.random_range(0..20);
        if lease.queue == PARENTS && lease.attempt == 1 {
            return self.spawn(worker, lease).await;
        }
        let is_reliable = lease.queue == ORDERED;
        // A worker that is lost with its job.
        if chance == 0 && !is_reliable {
            return;
        }
        let is_completed = chance > 2 || is_reliable;
        let mut report = json!({"id": lease.job, "fence": lease.fence, "outcome": "completed"});
        if !is_completed {
            report = json!({
                "id": lease.job, "fence": lease.fence, "outcome": "failed",
                "error": {"category": "temporary", "message": "again"},
            });
        }
        let body = json!({"worker_id": worker, "outcomes": [report]});
        for _ in 0..TRIES {
            let call = Call::Finish { job: lease.job.clone(), fence: lease.fence, is_completed };
            let read = |body: &Value| match body["outcomes"][0]["status"].as_str() {
                Some("applied") => Answer::Applied,
                Some("stale") => Answer::Stale,
                other => Answer::Refused(format!("{other:?}")),
            };
            if self.call("/outcomes", &body, call, read).await != Answer::Unknown {
                return;
            }
        }
    }

    async fn spawn(&mut self, worker: &Value, lease: &Lease) {
        let child = json!({"type": "child", "queue": PLAIN, "timeouts": {"lease": self::lease()}});
        let body = json!({
            "worker_id": worker, "fence": lease.fence, "name": "group", "strategy": "collect_all", "jobs": [child, child],
        });
        let path = format!("/jobs/{}/children", lease.job);
        for _ in 0..TRIES {
            let call = Call::Spawn { job: lease.job.clone(), fence: lease.fence };
            let read = |body: &Value| {
                let children = body["children"].as_array().cloned().unwrap_or_default();
                Answer::Spawned { children: children.iter().map(|child| text(&child["id"])).collect() }
            };
            if self.call(&path, &body, call, read).await != Answer::Unknown {
                return;
            }
        }
    }
}

fn lease() -> String {
    format!("{}ms", LEASE.as_millis())
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}

fn leases(body: &Value) -> Vec<Lease> {
    let jobs = body["jobs"].as_array().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_u64().expect("a number");
    jobs.iter()
        .map(|job| Lease {
            job: text(&job["id"]),
            fence: number(&job["fence"]),
            attempt: number(&job["attempt"]),
            queue: text(&job["queue"]),
        })
        .collect()
}
