//! What workers ask of a server: register, claim, beat, note, spawn, finish, leave.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::Remote;
use super::client::Call;
use super::job::{payload, sketch};
use super::refusal::{Fields, Refusal, Trouble};
use super::submission::Submission;
use super::text::{Moment, Span, encoded};
use crate::clock::{Patience, Timestamp};
use crate::error::{Invalid, Problem, WorkError};
use crate::job::{
    Category, Fence, GroupStrategy, Job, JobId, JobType, Labels, Lane, Lease, Parent, Policy, Progress,
    QueueName, Seq, Spec, State, Tenant, Timeouts, WorkerId,
};
use crate::limits;
use crate::store::command::children::{NewGroup, Spawned};
use crate::store::command::claim::{Checkpoint, ClaimAnswer, ClaimRequest, Claimed};
use crate::store::command::finish::{Finish, Outcome, Park, Report};
use crate::store::command::heartbeat::{Beat, Directive, Pulse};
use crate::store::command::step::{Hand, Note};
use crate::store::command::worker::NewWorker;
use crate::store::config::{PauseMode, Worker};

#[derive(Deserialize)]
struct Registered {
    worker_id: WorkerId,
}

#[derive(Serialize)]
struct ClaimBody<'a> {
    worker_id: WorkerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<&'a [QueueName]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    types: Option<&'a [JobType]>,
    limit: usize,
    wait: Span,
}

#[derive(Deserialize)]
struct ClaimView {
    jobs: Vec<ClaimedView>,
    paused: bool,
}

#[derive(Deserialize)]
struct ClaimedView {
    id: JobId,
    fence: u64,
    attempt: u32,
    r#type: JobType,
    queue: QueueName,
    #[serde(default)]
    tenant: Tenant,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    content_type: Option<String>,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
    traceparent: Option<String>,
    deadline: Option<Moment>,
    lease_expires_at: Option<Moment>,
    #[serde(default)]
    checkpoints: Vec<ShownCheckpoint>,
}

/// A saved step.
#[derive(Deserialize)]
pub(super) struct ShownCheckpoint {
    step: String,
    value: Box<RawValue>,
}

impl From<ShownCheckpoint> for Checkpoint {
    fn from(shown: ShownCheckpoint) -> Checkpoint {
        Checkpoint { step: shown.step, value: Arc::from(shown.value.get().as_bytes()) }
    }
}

impl ClaimedView {
    fn into_claimed(self, worker: WorkerId, now: Timestamp) -> Claimed {
        let deadline_at = self.deadline.map_or(Timestamp::MAX, |moment| moment.0);
        let expires_at = self.lease_expires_at.map_or(Timestamp::MAX, |moment| moment.0);
        let lane = Lane { tenant: self.tenant, queue: self.queue, job_type: self.r#type };
        // The limit as the server counts it: what is left of it is all that this side needs to know.
        let timeouts = Timeouts { execution: deadline_at.since(now), ..Timeouts::default() };
        let policy = Policy { timeouts, ..Policy::default() };
        let job = Job {
            state: State::Running,
            attempt: self.attempt,
            fence: Fence(self.fence),
            started_at: Some(now),
            lease: Some(Lease { worker, expires_at, deadline_at }),
            ..Job::new(Seq(0), self.id, Arc::new(lane), Arc::new(policy), now)
        };
        let spec = Spec {
            payload: payload(self.payload, self.payload_base64, self.content_type),
            idempotency_key: self.idempotency_key,
            unique_key: None,
            concurrency_key: None,
            labels: Labels { correlation_id: self.correlation_id, ..Labels::default() },
            owner: String::new(),
            traceparent: self.traceparent,
            after: Vec::new(),
            after_any: Vec::new(),
        };
        Claimed { job, spec, checkpoints: self.checkpoints.into_iter().map(Checkpoint::from).collect() }
    }
}

#[derive(Serialize)]
struct HeartbeatBody<'a> {
    worker_id: WorkerId,
    jobs: Vec<BeatBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Span>,
}

#[derive(Serialize)]
struct BeatBody<'a> {
    id: JobId,
    fence: Fence,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    logs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
}

impl<'a> From<&'a Beat> for BeatBody<'a> {
    fn from(beat: &'a Beat) -> BeatBody<'a> {
        BeatBody {
            id: beat.job,
            fence: beat.fence,
            progress: beat.progress.as_ref(),
            logs: &beat.logs,
            timeout: beat.timeout.map(Span),
        }
    }
}

#[derive(Deserialize)]
struct HeartbeatView {
    jobs: Vec<DirectiveView>,
    worker: WorkerPulse,
}

#[derive(Deserialize)]
struct DirectiveView {
    id: JobId,
    directive: String,
}

#[derive(Deserialize)]
struct WorkerPulse {
    mode: Option<PauseMode>,
}

impl From<HeartbeatView> for Pulse {
    fn from(view: HeartbeatView) -> Pulse {
        let read = |shown: DirectiveView| {
            // A word of a newer server: whatever it is, it is not "go on".
            let directive = Directive::ALL.into_iter().find(|known| known.as_str() == shown.directive);
            (shown.id, directive.unwrap_or(Directive::Lost))
        };
        Pulse { directives: view.jobs.into_iter().map(read).collect(), paused: view.worker.mode }
    }
}

#[derive(Serialize)]
struct OutcomesBody<'a> {
    worker_id: WorkerId,
    outcomes: Vec<OutcomeBody<'a>>,
}

#[derive(Serialize)]
struct OutcomeBody<'a> {
    id: JobId,
    fence: Fence,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    cost_cents: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    park: Option<ParkBody<'a>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(cents: &i64) -> bool {
    *cents == 0
}

#[derive(Serialize)]
struct FailureBody<'a> {
    category: Category,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Span>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ParkBody<'a> {
    Until {
        until: Moment,
    },
    For {
        r#for: Span,
    },
    Signal {
        signal: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<Span>,
    },
}

impl<'a> From<&'a Park> for ParkBody<'a> {
    fn from(park: &'a Park) -> ParkBody<'a> {
        match park {
            Park::Until(until) => ParkBody::Until { until: Moment(*until) },
            Park::For(span) => ParkBody::For { r#for: Span(*span) },
            Park::Signal { name, step, timeout } => {
                ParkBody::Signal { signal: name, step: step.as_deref(), timeout: timeout.map(Span) }
            }
        }
    }
}

/// A report as it is sent; none if its result is no JSON, which no server takes.
fn outcome(report: &Report) -> Option<OutcomeBody<'_>> {
    let Report { job, fence, outcome, cost_cents } = report;
    let body = |word| OutcomeBody {
        id: *job,
        fence: *fence,
        outcome: word,
        result: None,
        error: None,
        cost_cents: *cost_cents,
        park: None,
    };
    Some(match outcome {
        Outcome::Completed { result: None } => body("completed"),
        Outcome::Completed { result: Some(result) } => {
            OutcomeBody { result: Some(serde_json::from_slice(result).ok()?), ..body("completed") }
        }
        Outcome::Failed(failure) => {
            let error = FailureBody {
                category: failure.category,
                message: &failure.message,
                code: failure.code.as_deref(),
                retry_after: failure.retry_after.map(Span),
            };
            OutcomeBody { error: Some(error), ..body("failed") }
        }
        Outcome::Released => body("released"),
        Outcome::Parked(park) => OutcomeBody { park: Some(park.into()), ..body("parked") },
    })
}

#[derive(Deserialize)]
struct OutcomesView {
    outcomes: Vec<OutcomeView>,
}

#[derive(Deserialize)]
struct OutcomeView {
    status: String,
    state: Option<State>,
    error: Option<Fields>,
}

impl From<OutcomeView> for Finish {
    fn from(view: OutcomeView) -> Finish {
        match (view.status.as_str(), view.state, view.error) {
            ("applied", Some(state), _) => Finish::Applied(state),
            ("rejected", _, Some(fields)) => {
                let refusal = Refusal::item(fields, StatusCode::UNPROCESSABLE_ENTITY);
                Finish::Rejected(refusal.invalid().unwrap_or_else(|| unreadable("outcome")))
            }
            _ => Finish::Stale,
        }
    }
}

fn unreadable(field: &str) -> Invalid {
    Invalid::new(field, Problem::Contradiction("is not JSON".into()))
}

#[derive(Serialize)]
struct ChildrenBody<'a> {
    fence: Fence,
    name: &'a str,
    strategy: GroupStrategy,
    jobs: Vec<Submission<'a>>,
}

#[derive(Deserialize)]
struct SpawnedView {
    group: u64,
    known: bool,
    children: Vec<SpawnedChild>,
    parent: ShownParent,
}

#[derive(Deserialize)]
struct SpawnedChild {
    id: JobId,
    r#type: JobType,
    state: State,
    index: u32,
}

#[derive(Deserialize)]
struct ShownParent {
    state: State,
}

impl Remote {
    pub(crate) async fn register(&self, new: NewWorker) -> Result<Worker, WorkError> {
        let body = json!({
            "name": new.name, "queues": new.queues, "types": new.types, "concurrency": new.concurrency,
            "version": new.version, "heartbeats": new.heartbeats,
        });
        // A second registration after a lost answer leaves a worker that nobody hears of; it is forgotten in time.
        let asked = self.client.ask::<Registered>(Call::post("/workers").json(&body).repeatable(true)).await;
        let missing = || WorkError::Store(crate::error::StoreError::Unreachable("it has no workers".into()));
        let id = asked.map_err(|trouble| trouble.into_work_or(missing()))?.worker_id;
        let now = self.now();
        Ok(Worker {
            id,
            name: new.name,
            tenant: None,
            queues: new.queues,
            types: new.types,
            concurrency: new.concurrency,
            version: new.version,
            heartbeats: new.heartbeats,
            registered_at: now,
            seen_at: now,
            is_lost: false,
        })
    }

    pub(crate) async fn deregister(&self, worker: WorkerId) -> Result<usize, WorkError> {
        let left = self.client.done(Call::delete(format!("/workers/{worker}"))).await;
        let reply = left.map_err(|trouble| trouble.into_work(worker))?;
        #[derive(Deserialize)]
        struct Left {
            released: usize,
        }
        Ok(serde_json::from_slice::<Left>(&reply.body).map_or(0, |left| left.released))
    }

    /// Claims; the server waits for up to `wait`, and gives the jobs back if the connection is closed before they were
    /// handed over.
    pub(crate) async fn claim_unless(
        &self,
        request: &ClaimRequest,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        let patience = Patience::lasting(wait);
        let claiming = async {
            let mut rest = wait;
            loop {
                let answer = self.claim_once(request, rest.min(limits::SERVER_WAIT_MAX)).await?;
                rest = rest.saturating_sub(limits::SERVER_WAIT_MAX);
                if !answer.jobs.is_empty() || rest.is_zero() || patience.is_over() {
                    return Ok(answer);
                }
            }
        };
        tokio::select! {
            biased;
            answer = claiming => answer,
            () = gone => Ok(ClaimAnswer::default()),
        }
    }

    async fn claim_once(&self, request: &ClaimRequest, wait: Duration) -> Result<ClaimAnswer, WorkError> {
        let body = ClaimBody {
            worker_id: request.worker,
            queues: request.queues.as_deref(),
            types: request.types.as_deref(),
            limit: request.limit,
            wait: Span(wait),
        };
        let call = Call::post("/claims").json(&body).waiting(wait).once();
        let view: ClaimView =
            self.client.ask(call).await.map_err(|trouble| trouble.into_work(request.worker))?;
        let now = self.now();
        let jobs = view.jobs.into_iter().map(|job| job.into_claimed(request.worker, now)).collect();
        Ok(ClaimAnswer { jobs, is_paused: view.paused, ..ClaimAnswer::default() })
    }

    /// Beats; with `wait`, the server answers only when something is to be done, or when that is over.
    pub(crate) async fn heartbeat(
        &self,
        worker: WorkerId,
        beats: Vec<Beat>,
        wait: Duration,
    ) -> Result<Pulse, WorkError> {
        let jobs = beats.iter().map(BeatBody::from).collect();
        let body = HeartbeatBody { worker_id: worker, jobs, wait: (!wait.is_zero()).then_some(Span(wait)) };
        let call = Call::post("/heartbeats").json(&body).waiting(wait).once();
        let view: HeartbeatView = self.client.ask(call).await.map_err(|trouble| trouble.into_work(worker))?;
        Ok(view.into())
    }

    pub(crate) async fn finish(
        &self,
        worker: WorkerId,
        reports: Vec<Report>,
    ) -> Result<Vec<Finish>, WorkError> {
        let bodies: Vec<Option<OutcomeBody<'_>>> = reports.iter().map(outcome).collect();
        let is_readable: Vec<bool> = bodies.iter().map(Option::is_some).collect();
        let body = OutcomesBody { worker_id: worker, outcomes: bodies.into_iter().flatten().collect() };
        // Safe to repeat by whoever reports: an outcome that was taken is stale the second time.
        let call = Call::post("/outcomes").json(&body).once();
        let view: OutcomesView = self.client.ask(call).await.map_err(|trouble| trouble.into_work(worker))?;
        let mut answers = view.outcomes.into_iter();
        let answer = |is_readable: bool| match is_readable {
            true => answers.next().map_or(Finish::Stale, Finish::from),
            false => Finish::Rejected(unreadable("result")),
        };
        Ok(is_readable.into_iter().map(answer).collect())
    }

    /// Writes notes one after the other: each is written, or it and all after it are not.
    pub(crate) async fn note(&self, hand: Hand, notes: Vec<Note>) -> Result<(), WorkError> {
        for note in notes {
            match note {
                Note::Checkpoint { step, value } => self.save(hand, &step, &value).await?,
                Note::Progress(progress) => {
                    self.tell(hand, Beat { progress: Some(progress), ..Beat::new(hand.job, hand.fence) })
                        .await?;
                }
                Note::Logs(logs) => self.tell(hand, Beat { logs, ..Beat::new(hand.job, hand.fence) }).await?,
            }
        }
        Ok(())
    }

    async fn save(&self, hand: Hand, step: &str, value: &[u8]) -> Result<(), WorkError> {
        let value: &RawValue = serde_json::from_slice(value).map_err(|_| unreadable("value"))?;
        #[derive(Serialize)]
        struct Body<'a> {
            fence: Fence,
            value: &'a RawValue,
        }
        let path = format!("/jobs/{}/checkpoints/{}", hand.job, encoded(step));
        let call = Call::put(path).json(&Body { fence: hand.fence, value }).repeatable(true);
        self.client.done(call).await.map_err(|trouble| trouble.into_work_for(hand.job))?;
        Ok(())
    }

    async fn tell(&self, hand: Hand, beat: Beat) -> Result<(), WorkError> {
        let Some(worker) = hand.worker else { return Err(WorkError::Stale(hand.job)) };
        let pulse = self.heartbeat(worker, vec![beat], Duration::ZERO).await?;
        match pulse.directives[..] {
            [(_, Directive::Continue)] => Ok(()),
            _ => Err(WorkError::Stale(hand.job)),
        }
    }

    pub(crate) async fn spawn(&self, hand: Hand, group: NewGroup) -> Result<Spawned, WorkError> {
        let jobs = group.jobs.iter().map(Submission::from).collect();
        let body = ChildrenBody { fence: hand.fence, name: &group.name, strategy: group.strategy, jobs };
        // The same name finds the same group, so a second call after a lost answer spawns nothing.
        let call = Call::post(format!("/jobs/{}/children", hand.job)).json(&body).repeatable(true);
        let view: SpawnedView = self.client.ask(call).await.map_err(|trouble| match trouble {
            Trouble::Refused(refusal) if refusal.is_about_a_submission() => {
                WorkError::Children(Box::new(Trouble::Refused(refusal).into_submit()))
            }
            other => other.into_work_for(hand.job),
        })?;
        let now = self.now();
        let place = |child: SpawnedChild| {
            let parent = Parent { seq: Seq(0), id: hand.job, group: view.group, index: child.index };
            Job { parent: Some(parent), ..sketch(child.id, child.r#type, child.state, now) }
        };
        let kind = group.jobs.first().map_or_else(nameless, |job| job.job_type.clone());
        Ok(Spawned {
            group: view.group,
            is_known: view.known,
            children: view.children.into_iter().map(place).collect(),
            // With another fence the call would have been refused.
            parent: Job { fence: hand.fence, ..sketch(hand.job, kind, view.parent.state, now) },
        })
    }
}

/// The type of a job whose type was not said.
fn nameless() -> JobType {
    JobType::new("unknown").expect("it is a name")
}
