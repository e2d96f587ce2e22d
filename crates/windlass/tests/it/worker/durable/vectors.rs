//! The test vectors of docs/protocol.md: each is one attempt, with the records and the outcome that it must lead to. The
//! programs are run by the same code as those of `windlass sdk-test`.

#[path = "../../../../examples/sdk_test_worker/program.rs"]
mod program;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass::client::JobBuilder;
use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{Failure, GroupStrategy, JobId, JobRecord, JobState, JobType, NewJob, Payload, Wait};
use windlass::store::caller::Caller;
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, Environment, LeaseRef, NewGroup, NewWorker, Outcome, Report,
    SpawnOptions, Store, StoreOptions, SubmitOptions,
};
use windlass::worker::Worker;
use windlass::{Client, Cx, Job};

use self::program::{Flow, Program, Spawning, World};

const FILE: &str = include_str!("../../../../../../docs/protocol/vectors.json");

/// What cannot be asked of the library and a store of its own: children of one group have one type, the store does not
/// delete children of a live parent, and in memory a step ends before the one beside it begins.
const NOT_EXPRESSIBLE: [&str; 3] = ["children-types", "child-deleted", "beside"];

#[derive(Serialize, Deserialize, Job)]
#[job(type = "vector", output = Value)]
struct Vector {}

#[derive(Serialize, Deserialize, Job)]
#[job(type = "page", output = Value)]
#[serde(transparent)]
struct Page(Value);

#[derive(Serialize, Deserialize, Job)]
#[job(type = "mail", output = Value)]
#[serde(transparent)]
struct Mail(Value);

/// What a program ran, and whose first attempt it is.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<String>>>);

impl World for Ran {
    fn note(&self, line: &str) -> anyhow::Result<()> {
        self.0.lock().unwrap().push(line.to_owned());
        Ok(())
    }

    fn is_first(&self, _: &str) -> bool {
        true
    }

    fn spawn<'a>(
        &'a self,
        cx: &'a Cx,
        name: &'a str,
        children: &'a [Value],
        strategy: GroupStrategy,
    ) -> Spawning<'a> {
        let is_mail = children.iter().any(|child| child["type"] == "mail");
        Box::pin(async move {
            let payloads = || children.iter().map(|child| child["payload"].clone());
            match (is_mail, name) {
                (true, "") => cx.spawn_all(payloads().map(|it| JobBuilder::new(&Mail(it))), strategy).await,
                (false, "") => cx.spawn_all(payloads().map(|it| JobBuilder::new(&Page(it))), strategy).await,
                (_, name) => {
                    cx.spawn_all_named(name, payloads().map(|it| JobBuilder::new(&Page(it))), strategy).await
                }
            }
        })
    }

    fn follow_up(&self, _: &Cx, _: &[Value]) -> anyhow::Result<()> {
        anyhow::bail!("no vector does this")
    }
}

/// A store whose clock stands still, with the job of a vector.
struct Stage {
    store: Store,
    me: Caller,
    id: JobId,
}

impl Stage {
    async fn new(now: Timestamp) -> Stage {
        let clock = Arc::new(ManualClock::new(now));
        let env = Environment::new(clock, Entropy::seeded(1), StoreOptions::default());
        let (store, me) = (Store::open_in("memory:", env).unwrap(), Caller::local());
        let job = NewJob::new(JobType::new("vector").unwrap(), Payload::json("{}"));
        let id = store.submit(&me, vec![job], SubmitOptions::default()).await.unwrap().remove(0).job.id;
        Stage { store, me, id }
    }

    async fn claim(&self, types: &str, limit: usize) -> Vec<ClaimedJob> {
        let new = NewWorker {
            types: vec![JobType::new(types).unwrap()],
            heartbeats: false,
            ..NewWorker::default()
        };
        let worker = self.store.register(&self.me, new).await.unwrap().id;
        self.store.claim(&self.me, &ClaimRequest::new(worker, limit), Duration::ZERO).await.unwrap().jobs
    }

    async fn finish(&self, claimed: &ClaimedJob, outcome: Outcome) {
        let worker = claimed.job.lease.unwrap().worker;
        let report = Report::new(claimed.job.id, claimed.job.fence, outcome);
        self.store.finish(&self.me, worker, vec![report]).await.unwrap();
    }

    /// Makes what earlier attempts saved, in an attempt that is given back.
    async fn earlier(&self, vector: &Value) {
        let claimed = self.claim("vector", 1).await.remove(0);
        let lease = LeaseRef {
            job: self.id,
            fence: claimed.job.fence,
            worker: Some(claimed.job.lease.unwrap().worker),
        };
        for (step, value) in vector["saved"].as_object().into_iter().flatten() {
            let write = AttemptWrite::Checkpoint { step: step.clone(), value: value.to_string().into() };
            self.store.record(&self.me, lease, vec![write]).await.unwrap();
        }
        for group in vector["groups"].as_array().into_iter().flatten() {
            self.group(vector, group, lease).await;
        }
        self.finish(&claimed, Outcome::Released).await;
    }

    /// Spawns a group and ends its children, so that it is decided.
    async fn group(&self, vector: &Value, group: &Value, lease: LeaseRef) {
        let name = group["name"].as_str().unwrap();
        let record = &vector["saved"][name]["group"];
        let count = usize::try_from(record["count"].as_u64().unwrap()).unwrap();
        let child = || NewJob::new(JobType::new("page").unwrap(), Payload::json("0"));
        let strategy = serde_json::from_value(record["strategy"].clone()).unwrap();
        let new = NewGroup { name: name.to_owned(), strategy, jobs: (0..count).map(|_| child()).collect() };
        let options = SpawnOptions { keeps_running: true, ..SpawnOptions::default() };
        self.store.spawn_with(&self.me, lease, new, options).await.unwrap();
        for claimed in self.claim("page", count).await {
            let index = claimed.job.parent.unwrap().index;
            let shown =
                group["children"].as_array().unwrap().iter().find(|child| child["index"] == index).unwrap();
            let outcome = if shown["state"] == "failed" {
                Outcome::Failed(Failure::permanent("x", "x"))
            } else {
                Outcome::Completed { result: Some(shown["result"].to_string().into_bytes()) }
            };
            self.finish(&claimed, outcome).await;
        }
    }

    async fn job(&self) -> JobRecord {
        self.store.get(&self.me, self.id).await.unwrap().unwrap().job
    }

    async fn saved(&self) -> BTreeMap<String, Value> {
        let found = self.store.checkpoints(&self.me, self.id).await.unwrap().unwrap();
        found.into_iter().map(|one| (one.step, serde_json::from_slice(&one.value).unwrap())).collect()
    }

    /// Runs one attempt; returns what calls have got.
    async fn attempt(&self, vector: &Value, ran: &Ran) -> HashMap<String, Value> {
        let (got, operations) = (Arc::new(Mutex::new(HashMap::new())), Arc::new(vector["program"].clone()));
        let (begun, mut seen) = watch::channel(0);
        let handler = {
            let (got, ran) = (got.clone(), ran.clone());
            move |_: Vector, cx: Cx| {
                let (got, ran, operations) = (got.clone(), ran.clone(), operations.clone());
                begun.send_modify(|count| *count += 1);
                let is_first = *begun.borrow() == 1;
                async move {
                    if !is_first {
                        // The job was woken at once: only the first attempt is looked at.
                        std::future::pending::<()>().await;
                    }
                    let program = Kept { program: Program::new(cx, ran), got };
                    let ended = program.program.run(operations.as_array().unwrap(), "").await?;
                    anyhow::Ok(match ended {
                        Flow::Done(result) => result,
                        Flow::Next => Value::Null,
                    })
                }
            }
        };
        let client = Client::from_store_without_maintenance(self.store.clone());
        let worker = Worker::new(&client).grace(Duration::from_millis(1)).handle(handler);
        let worker = if vector["lenient"] == true { worker.lenient_steps() } else { worker };
        let ended = async {
            seen.wait_for(|count| *count > 0).await.unwrap();
            loop {
                let state = self.job().await.state;
                if ![JobState::Scheduled, JobState::Running].contains(&state) || *seen.borrow() > 1 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        worker.drain(Duration::ZERO).run_until(ended).await.unwrap();
        let got = got.lock().unwrap();
        got.clone()
    }

    /// The outcome of the attempt, in the form of a vector.
    async fn outcome(&self) -> Value {
        let job = self.job().await;
        match job.state {
            JobState::Completed => {
                let result = self.store.result(&self.me, self.id).await.unwrap().unwrap().0;
                let result = result.map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
                json!({"outcome": "completed", "result": result})
            }
            JobState::Waiting => self.parked(&job).await,
            state => match &job.details.error {
                Some(error) => {
                    json!({"outcome": "failed", "category": error.category.as_str(), "code": error.code})
                }
                None => json!(state.as_str()),
            },
        }
    }

    async fn parked(&self, job: &JobRecord) -> Value {
        let wait = job.details.wait.as_ref().expect("it waits");
        let groups = self.store.groups(&self.me, self.id).await.unwrap().unwrap();
        if wait.groups().next().is_some() {
            let mut names: Vec<&str> = groups.iter().map(|group| group.group.name.as_str()).collect();
            let last = groups.last().expect("it has a group");
            names.pop();
            let mut shown = json!({"outcome": "spawned", "name": last.group.name,
                "strategy": last.group.strategy, "count": last.group.total});
            if !names.is_empty() {
                shown["first"] = json!(names);
            }
            return shown;
        }
        let park = match wait {
            Wait::Any { of } => json!({"any": of.iter().map(|one| park(one, job)).collect::<Vec<_>>()}),
            one => park(one, job),
        };
        json!({"outcome": "parked", "park": park})
    }
}

/// Keeps what calls have got, also if the handler is dropped.
struct Kept {
    program: Program<Ran>,
    got: Arc<Mutex<HashMap<String, Value>>>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        *self.got.lock().unwrap() = self.program.got();
    }
}

fn park(wait: &Wait, job: &JobRecord) -> Value {
    match wait {
        Wait::Timer { until } => json!({"until": until.as_millis()}),
        Wait::Signal { name, step, until } => {
            let mut park = json!({"signal": name, "step": step});
            if let Some(until) = until {
                let left = until.since(job.updated_at).as_millis();
                park["timeout_ms"] = json!(u64::try_from(left).unwrap());
            }
            park
        }
        other => panic!("no vector waits for {other:?}"),
    }
}

/// What a vector expects to be saved: the last record of each key, beside those that were there.
fn expected_records(vector: &Value) -> BTreeMap<String, Value> {
    let saved = vector["saved"].as_object().into_iter().flatten();
    let mut records: BTreeMap<String, Value> =
        saved.map(|(key, value)| (key.clone(), value.clone())).collect();
    for save in vector["expect"]["saves"].as_array().unwrap() {
        records.insert(save[0].as_str().unwrap().to_owned(), save[1].clone());
    }
    records
}

/// Runs a vector; returns what differs.
async fn check(vector: &Value, now: Timestamp) -> Vec<String> {
    let (stage, ran, expected) = (Stage::new(now).await, Ran::default(), &vector["expect"]);
    stage.earlier(vector).await;
    let got = stage.attempt(vector, &ran).await;
    let mut wrong = Vec::new();
    let mut differs = |what: &str, found: Value, wanted: Value| {
        if found != wanted {
            wrong.push(format!("{}: {what} is {found}, not {wanted}", vector["name"]));
        }
    };
    let is_free = vector["program"]
        .as_array()
        .unwrap()
        .iter()
        .any(|one| one.get("together").is_some() || one.get("race").is_some());
    let sorted = |list: &Value| {
        let mut list: Vec<Value> = list.as_array().unwrap().clone();
        if is_free {
            list.sort_by_key(ToString::to_string);
        }
        Value::from(list)
    };
    let steps = ran.0.lock().unwrap().clone();
    differs("what ran", sorted(&json!(steps)), sorted(&expected["ran"]));
    let (mut saved, wanted) = (stage.saved().await, expected_records(vector));
    if let Some(step) = expected["outcome"]["park"]["step"].as_str()
        && expected["outcome"]["park"]["timeout_ms"] == 0
    {
        // The wait was over at once, and the server has said so.
        differs("the record of the wait", json!(saved.remove(step)), json!({"timeout": true}));
    } else {
        differs("the outcome", stage.outcome().await, expected["outcome"].clone());
    }
    differs("what is saved", json!(saved), json!(wanted));
    for (key, value) in expected["got"].as_object().into_iter().flatten() {
        differs(&format!("what {key} has got"), json!(got.get(key)), value.clone());
    }
    wrong
}

/// Model: step-identity, steps, sleeps-and-signals
#[tokio::test]
async fn the_library_follows_the_protocol() {
    let file: Value = serde_json::from_str(FILE).unwrap();
    assert_eq!(file["protocol"], 1);
    let now = Timestamp::from_millis(file["now"].as_i64().unwrap());
    let mut wrong = Vec::new();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() >= 60);
    for vector in vectors {
        if !NOT_EXPRESSIBLE.contains(&vector["name"].as_str().unwrap()) {
            wrong.extend(check(vector, now).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
