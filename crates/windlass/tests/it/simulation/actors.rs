//! Who calls: clients that repeat what was not acknowledged, workers that forget everything when they crash, maintenance,
//! and an operator.

use std::pin::Pin;
use std::time::Duration;

use windlass::error::WorkError;
use windlass::job::{
    Category, Dependency, Failure, Fence, GroupStrategy, JobId, NewJob, QueueName, RetryPolicy, WorkerId,
};
use windlass::store::caller::Caller;
use windlass::store::{
    ActionRequest, ClaimRequest, Directive, Finish, HeartbeatItem, LeaseRef, NewGroup, NewWorker, Outcome,
    Pause, PauseTarget, Report, Store, SubmitOptions, Suspend,
};

use crate::fixture::new_job;
use crate::random::rng::Dice;

/// A job as a worker holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    pub(super) job: JobId,
    pub(super) fence: Fence,
}

/// What a client asks of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// A pair of jobs, the second after the first, with keys made of this number.
    Submit(usize),
    Register,
    Claim(WorkerId),
    Heartbeat(WorkerId, Held),
    Spawn(WorkerId, Held),
    Complete(WorkerId, Held),
    Fail(WorkerId, Held),
    Tick,
    Pause,
    Open,
    Suspend(JobId),
    Resume(JobId),
    Cancel(JobId),
}

/// What a store said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Response {
    Submitted(Vec<JobId>),
    Registered(WorkerId),
    Claimed(Vec<Held>),
    /// Whether the attempt continues.
    Goes(bool),
    Finished(Finish),
    Done,
    /// The store forgot the worker.
    Unknown,
    /// No answer.
    Lost,
    /// An answer that says no.
    Refused,
}

pub(super) type Call = Pin<Box<dyn Future<Output = Response>>>;

/// A client, what it knows, and what it waits for.
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) call: Option<(Request, Call)>,
}

pub(super) enum Kind {
    /// The number that was not acknowledged yet.
    Client {
        open: Option<usize>,
    },
    Worker {
        id: Option<WorkerId>,
        held: Vec<Held>,
        unsure: Option<Request>,
    },
    Maintenance,
    Operator,
}

/// Job pairs that are submitted at most.
pub(super) const PAIRS: usize = 12;

impl Actor {
    pub(super) fn new(name: &str, kind: Kind) -> Actor {
        Actor { name: name.to_owned(), kind, call: None }
    }

    /// Everything it knew is gone; what it sent may still arrive.
    pub(super) fn crash(&mut self) {
        self.call = None;
        match &mut self.kind {
            Kind::Worker { id, held, unsure } => {
                (*id, *unsure) = (None, None);
                held.clear();
            }
            // A client remembers its key: it was written down before anything was sent.
            Kind::Client { .. } | Kind::Maintenance | Kind::Operator => {}
        }
    }

    /// What it does next, if anything.
    pub(super) fn next(&mut self, dice: &mut Dice, pairs: &mut usize, jobs: &[JobId]) -> Option<Request> {
        match &mut self.kind {
            Kind::Client { open } => {
                if open.is_none() && *pairs < PAIRS {
                    *open = Some(*pairs);
                    *pairs += 1;
                }
                open.map(Request::Submit)
            }
            Kind::Worker { id: None, .. } => Some(Request::Register),
            Kind::Worker { unsure: Some(request), .. } => Some(request.clone()),
            Kind::Worker { id: Some(id), held, unsure: None } => {
                let Some(one) = (!held.is_empty()).then(|| dice.pick(held)) else {
                    return Some(Request::Claim(*id));
                };
                Some(match dice.below(10) {
                    0 => Request::Claim(*id),
                    1..=2 => Request::Heartbeat(*id, one),
                    3 => Request::Spawn(*id, one),
                    4 => Request::Fail(*id, one),
                    _ => Request::Complete(*id, one),
                })
            }
            Kind::Maintenance => Some(Request::Tick),
            Kind::Operator => Some(match (dice.below(8), dice.recent(&first(jobs), 2)) {
                (0, _) => Request::Pause,
                (1..=3, _) | (_, None) => Request::Open,
                (4, Some(job)) => Request::Suspend(job),
                (5..=6, Some(job)) => Request::Resume(job),
                (_, Some(job)) => Request::Cancel(job),
            }),
        }
    }

    /// Learns from an answer.
    pub(super) fn learn(&mut self, request: &Request, response: &Response) {
        match (&mut self.kind, response) {
            (Kind::Client { open }, Response::Submitted(_)) => *open = None,
            (Kind::Worker { id, .. }, Response::Registered(new)) => *id = Some(*new),
            (Kind::Worker { held, .. }, Response::Claimed(jobs)) => held.extend(jobs),
            (Kind::Worker { id, held, unsure }, Response::Unknown) => {
                (*id, *unsure) = (None, None);
                held.clear();
            }
            // It may have been done or not: the worker reports it again.
            (Kind::Worker { unsure, .. }, Response::Lost) => {
                *unsure = matches!(request, Request::Complete(..) | Request::Fail(..) | Request::Spawn(..))
                    .then(|| request.clone());
            }
            (Kind::Worker { held, unsure, .. }, Response::Finished(_) | Response::Goes(false)) => {
                *unsure = None;
                if let Request::Complete(_, one)
                | Request::Fail(_, one)
                | Request::Spawn(_, one)
                | Request::Heartbeat(_, one) = request
                {
                    held.retain(|other| other != one);
                }
            }
            (Kind::Worker { unsure, .. }, _) => *unsure = None,
            _ => {}
        }
    }
}

/// The first jobs: an operator that knows many hardly meets the same one twice.
fn first(jobs: &[JobId]) -> Vec<JobId> {
    jobs.iter().take(6).copied().collect()
}

/// Sends a request through a node.
pub(super) fn call(store: Store, request: Request) -> Call {
    Box::pin(async move {
        let me = Caller::local();
        let queue = PauseTarget::Queue(QueueName::default());
        let acted = match request {
            Request::Pause => store.pause(&me, queue, Pause::graceful()).await.map(drop),
            Request::Open => store.resume(&me, queue, None).await.map(drop),
            Request::Suspend(job) => {
                store.act(&me, job, ActionRequest::Suspend(Suspend::aggressive())).await.map(drop)
            }
            Request::Resume(job) => {
                store.act(&me, job, ActionRequest::Resume { reason: None }).await.map(drop)
            }
            Request::Cancel(job) => {
                store.act(&me, job, ActionRequest::Cancel { reason: None }).await.map(drop)
            }
            Request::Tick => return store.tick().await.map_or(Response::Lost, |_| Response::Done),
            Request::Submit(number) => {
                let receipts = store.submit(&me, pair(number), SubmitOptions::default()).await;
                let ids = |receipts: Vec<_>| -> Vec<JobId> {
                    receipts.into_iter().map(|receipt: windlass::store::Receipt| receipt.job.id).collect()
                };
                return receipts.map_or(Response::Lost, |receipts| Response::Submitted(ids(receipts)));
            }
            work => return worked(&store, work).await.unwrap_or_else(|error| refusal(&error)),
        };
        match acted {
            Ok(()) => Response::Done,
            Err(windlass::error::ActionError::Store(_)) => Response::Lost,
            Err(_) => Response::Refused,
        }
    })
}

async fn worked(store: &Store, request: Request) -> Result<Response, WorkError> {
    let me = Caller::local();
    Ok(match request {
        Request::Register => {
            let new = NewWorker { concurrency: 4, heartbeats: true, ..NewWorker::default() };
            Response::Registered(store.register(&me, new).await?.id)
        }
        Request::Claim(worker) => {
            let answer = store.claim(&me, &ClaimRequest::new(worker, 2), Duration::ZERO).await?;
            let held = answer.jobs.iter().map(|one| Held { job: one.job.id, fence: one.job.fence });
            Response::Claimed(held.collect())
        }
        Request::Heartbeat(worker, Held { job, fence }) => {
            let reply = store.heartbeat(&me, worker, vec![HeartbeatItem::new(job, fence)]).await?;
            Response::Goes(reply.directives[0].1 == Directive::Continue)
        }
        Request::Spawn(worker, Held { job, fence }) => {
            let lease = LeaseRef { job, fence, worker: Some(worker) };
            let jobs = vec![base("child"), base("child")];
            let group = NewGroup { name: "g".into(), strategy: GroupStrategy::CollectAll, jobs };
            let spawned = store.spawn(&me, lease, group).await?;
            Response::Goes(spawned.parent.is_held_with(fence))
        }
        Request::Complete(worker, held) => {
            finished(store, worker, held, Outcome::Completed { result: Some(b"1".to_vec()) }).await?
        }
        Request::Fail(worker, held) => {
            finished(store, worker, held, Outcome::Failed(Failure::new(Category::Temporary, "no"))).await?
        }
        other => panic!("{other:?} is not asked by workers"),
    })
}

async fn finished(
    store: &Store,
    worker: WorkerId,
    held: Held,
    outcome: Outcome,
) -> Result<Response, WorkError> {
    let reports = vec![Report::new(held.job, held.fence, outcome)];
    Ok(Response::Finished(store.finish(&Caller::local(), worker, reports).await?.remove(0)))
}

fn refusal(error: &WorkError) -> Response {
    match error {
        WorkError::Store(_) => Response::Lost,
        WorkError::NoSuchWorker(_) => Response::Unknown,
        WorkError::Stale(_) | WorkError::NoSuchJob(_) => Response::Goes(false),
        _ => Response::Refused,
    }
}

fn pair(number: usize) -> Vec<NewJob> {
    let key = |which: &str| Some(format!("{number}-{which}"));
    let first = NewJob { name: Some("first".into()), idempotency_key: key("first"), ..base("first") };
    let after = vec![Dependency::Named("first".into())];
    vec![first, NewJob { after, idempotency_key: key("second"), ..base("second") }]
}

fn base(job_type: &str) -> NewJob {
    let lease_timeout = Some(Duration::from_secs(30));
    NewJob { retry: Some(RetryPolicy::standard().attempts(5)), lease_timeout, ..new_job(job_type) }
}
