//! Histories: several nodes of one store under load, while they are killed, frozen, cut off and their database crashes. The
//! clients write down what they asked for and what they were answered, and a checker decides from that alone.

mod checker;
#[cfg(test)]
mod checker_tests;
mod clients;
mod fault;
mod history;
mod nodes;
mod place;
mod proxy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_testkit::client::Request;
use windlass_testkit::{PATIENCE, windlass};

use self::clients::{Client, Shared, text};
use self::history::{FinalJob, History, Outcome, Record};
use self::nodes::Nodes;
use self::place::Place;

const LIMITED: &str = "limited";
const ORDERED: &str = "ordered";
const PARENTS: &str = "parents";
const PLAIN: &str = "plain";
const QUEUES: [&str; 4] = [LIMITED, ORDERED, PARENTS, PLAIN];

/// How many jobs of [`LIMITED`] may run at a time.
const LIMIT: usize = 2;
const LEASE: Duration = Duration::from_secs(3);
const TICK_MS: i64 = 1_000;
/// Seconds of faults by default; `WINDLASS_TORTURE_SECONDS` says otherwise. Every fault comes at least once.
const SECONDS: u64 = 60;
const SEED: u64 = 0x5EED_0024;

fn setting(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(or)
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guarantees_hold_in_histories_with_faults_on_a_file() {
    torture(Place::file()).await;
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guarantees_hold_in_histories_with_faults_on_postgres() {
    torture(Place::database()).await;
}

async fn torture(place: Place) {
    let seed = setting("WINDLASS_TORTURE_SEED", SEED);
    println!("WINDLASS_TORTURE_SEED={seed}");
    let is_on_a_file = place.is_on_a_file();
    let mut nodes = Nodes::start(place, 2, seed).await;
    let shared = Arc::new(Shared {
        history: History::new(),
        nodes: nodes.proxies(),
        is_ending: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    });
    configure(shared.nodes[0]).await;
    let mut clients = JoinSet::new();
    for number in 0..3 {
        let client = Client::new(&shared, &format!("s{number}"), seed + number);
        clients.spawn(client.submit_for_ever());
    }
    let mut workers = JoinSet::new();
    for (number, queue) in QUEUES.into_iter().chain(QUEUES).enumerate() {
        let client = Client::new(&shared, &format!("w{number}"), seed + 100 + number as u64);
        workers.spawn(client.work_for_ever(queue));
    }
    let end = Instant::now() + Duration::from_secs(setting("WINDLASS_TORTURE_SECONDS", SECONDS));
    while Instant::now() < end || !nodes.have_seen_all() {
        shared.history.grows(40, Duration::from_secs(1)).await;
        nodes.fault(&shared.history).await;
    }
    shared.is_ending.store(true, Ordering::SeqCst);
    while clients.join_next().await.is_some() {}
    drain(&shared).await;
    shared.is_over.store(true, Ordering::SeqCst);
    while workers.join_next().await.is_some() {}
    // While store time catches up with a database's clock it is a tenth faster, and leases are shorter.
    let lease = if is_on_a_file { LEASE } else { LEASE * 10 / 11 };
    let outcome = outcome(&shared, lease).await;
    nodes.stop().await;
    let verified = windlass(&["verify", "--store", nodes.store()]).output().await.unwrap();
    assert!(verified.status.success(), "{verified:?}");
    report(&outcome, &nodes);
    let mut found = checker::check(&outcome);
    found.extend(checker::missing(&outcome));
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

/// A request that must succeed, outside of the history. A node that is overloaded says so, and is asked again.
async fn get(node: std::net::SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let answered = async {
        loop {
            let request = Request::new(node, method, &format!("/api/v1{path}"));
            let request = if body.is_null() { request } else { request.json(body) };
            let answer = request.send().await;
            if answer.status != 503 {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, answered).await.expect("it answers");
    assert!(answer.status < 300, "{path}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

async fn configure(node: std::net::SocketAddr) {
    for queue in QUEUES {
        let mut settings = json!({"audit": "all"});
        if queue == LIMITED {
            settings["max_running"] = json!(LIMIT);
        }
        get(node, "PUT", &format!("/queues/{queue}"), &settings).await;
    }
    let schedule = json!({"every": "1s", "missed": "all", "job": {"type": "tick", "queue": "ticks"}});
    get(node, "PUT", "/schedules/ticks", &schedule).await;
}

/// Lets the workers continue until every job of theirs is final.
async fn drain(shared: &Shared) {
    let end = Instant::now() + PATIENCE;
    'again: while Instant::now() < end {
        for queue in QUEUES {
            let depth = get(shared.nodes[0], "GET", &format!("/queues/{queue}"), &Value::Null).await;
            let depth = depth["depth"].as_object().cloned().expect("counts by state");
            let is_final = |state: &str| ["completed", "failed", "dead_letter", "cancelled"].contains(&state);
            if depth.iter().any(|(state, count)| !is_final(state) && *count != 0) {
                shared.history.grows(20, Duration::from_millis(300)).await;
                continue 'again;
            }
        }
        return;
    }
}

/// All pages of a list.
async fn all(node: std::net::SocketAddr, path: &str, name: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(node, "GET", &format!("{path}?limit=500{cursor}"), &Value::Null).await;
        found.extend(page[name].as_array().cloned().expect("a list"));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

async fn outcome(shared: &Shared, lease: Duration) -> Outcome {
    let node = shared.nodes[0];
    let mut jobs = Vec::new();
    for job in all(node, "/jobs", "jobs").await {
        let is_tick = job["type"] == "tick";
        jobs.push(FinalJob {
            id: text(&job["id"]),
            key: job["idempotency_key"].as_str().map(str::to_owned),
            state: text(&job["state"]),
            is_tick,
            run_at: job["run_at"].as_str().map_or(0, millis),
        });
    }
    let records = all(node, "/audit", "records").await;
    let records = records.iter().map(|record| Record {
        number: record["seq"].as_u64().expect("a number"),
        event: text(&record["event"]),
        job: record["job"].as_str().map(str::to_owned),
    });
    Outcome {
        ops: shared.history.ops(),
        jobs,
        records: records.collect(),
        lease: u64::try_from(lease.as_micros()).unwrap(),
        limit: LIMIT,
        tick_every: TICK_MS,
    }
}

/// The time of day of a timestamp such as `2026-11-18T08:14:38.368Z`; a history is shorter than a day.
fn millis(timestamp: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| timestamp[range].parse::<i64>().expect("digits");
    ((part(11..13) * 60 + part(14..16)) * 60 + part(17..19)) * 1_000 + part(20..23)
}

fn report(outcome: &Outcome, nodes: &Nodes) {
    let mut kinds = std::collections::BTreeMap::<fault::Fault, usize>::new();
    for fault in &nodes.faults {
        *kinds.entry(*fault).or_default() += 1;
    }
    let mut answers = std::collections::BTreeMap::<&str, usize>::new();
    for op in &outcome.ops {
        let kind = match op.answer {
            history::Answer::Unknown => "unknown",
            history::Answer::Refused(_) => "refused",
            history::Answer::Stale => "stale",
            _ => "ok",
        };
        *answers.entry(kind).or_default() += 1;
    }
    let mut times = nodes.recoveries.clone();
    times.sort_unstable();
    let at =
        |part: usize| times.get((times.len() * part / 100).min(times.len().saturating_sub(1))).unwrap_or(&0);
    // `scripts/torture` puts them together.
    println!("recoveries in ms: {:?}", times.iter().map(|micros| micros / 1_000).collect::<Vec<_>>());
    println!(
        "{} calls {answers:?}, {} jobs, {} audit records, faults {kinds:?}; ready again after 50 %: {} ms, 95 %: {} ms, \
         at most {} ms",
        outcome.ops.len(),
        outcome.jobs.len(),
        outcome.records.len(),
        at(50) / 1_000,
        at(95) / 1_000,
        at(100) / 1_000
    );
}
