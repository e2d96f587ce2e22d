//! One step of a walk and what a store answers to it. A step is data, so that the very same one is done to every store
//! and can be shown when they disagree.

use std::time::Duration;

use windlass::audit::Record;
use windlass::clock::Timestamp;
use windlass::error::{ActionError, StoreError, SubmitError, WorkError};
use windlass::job::{JobId, JobRecord, NewJob, QueueName, Seq, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionOptions, ActionReport, ActionRequest, AttemptWrite, BulkAction, BulkReport, ClaimAnswer,
    ClaimRequest, Config, Filter, Finish, HeartbeatItem, HeartbeatReply, IfMatch, LeaseRef, ListRequest,
    NewGeneration, NewGroup, NewWorker, Page, Pause, PauseTarget, Receipt, Redrive, Report, SealReport,
    Settings, SettingsReport, SpawnReport, Store, SubmitOptions, TickReport, Worker,
};

/// Something that is done to a store, or asked of it, by a caller.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Submit(Caller, Vec<NewJob>, SubmitOptions),
    ActionRequest(Caller, JobId, ActionRequest),
    ActStrictly(Caller, JobId, ActionRequest),
    /// On the version that is there, or on one that is not.
    ActIfSeen(Caller, JobId, ActionRequest, bool),
    Redrive(Caller, JobId, Redrive),
    Delete(Caller, JobId),
    Signal(Caller, JobId, &'static str, Vec<u8>),
    Register(Caller, NewWorker),
    Deregister(Caller, WorkerId),
    Claim(Caller, ClaimRequest),
    Heartbeat(Caller, WorkerId, Vec<HeartbeatItem>),
    Finish(Caller, WorkerId, Vec<Report>),
    AttemptWrite(Caller, LeaseRef, Vec<AttemptWrite>),
    Spawn(Caller, LeaseRef, NewGroup),
    Pause(Caller, PauseTarget, Pause),
    Resume(Caller, PauseTarget),
    Configure(Caller, Settings),
    Bulk(Caller, Filter, BulkAction),
    Count(Caller, Filter),
    List(Caller, ListRequest),
    Audit(Caller, RecordQuery),
    OldestReady(Caller, QueueName),
    Tick,
    Seal,
    Prune,
    Config,
    BeginGeneration(Caller),
    Pass(Duration),
}

/// What a store answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Submitted(Result<Vec<Receipt>, SubmitError>),
    Acted(Result<ActionReport, ActionError>),
    Redriven(Result<JobRecord, ActionError>),
    Deleted(Result<(), ActionError>),
    Registered(Result<Worker, WorkError>),
    Left(WorkerId, Result<usize, WorkError>),
    Claimed(WorkerId, Result<ClaimAnswer, WorkError>),
    Beaten(Result<HeartbeatReply, WorkError>),
    Finished(Result<Vec<Finish>, WorkError>),
    Noted(Result<(), WorkError>),
    Spawned(Result<SpawnReport, WorkError>),
    Switched(Result<bool, ActionError>),
    Configured(Result<SettingsReport, ActionError>),
    Bulk(Result<BulkReport, ActionError>),
    Counted(Result<u64, ActionError>),
    Listed(Result<Vec<Page>, StoreError>),
    Audited(Result<Vec<Record>, StoreError>),
    Oldest(Result<Option<Timestamp>, StoreError>),
    Ticked(Result<TickReport, StoreError>),
    Sealed(Result<SealReport, StoreError>),
    Pruned(Result<usize, StoreError>),
    Config(Result<Config, StoreError>),
    Began(Result<NewGeneration, ActionError>),
    Passed,
}

impl Operation {
    /// Does it.
    pub(super) async fn apply(&self, store: &Store) -> Answer {
        match self {
            Operation::Submit(who, jobs, how) => {
                Answer::Submitted(store.submit(who, jobs.clone(), *how).await.map(unnumbered))
            }
            Operation::ActionRequest(who, id, act) => Answer::Acted(store.act(who, *id, act.clone()).await),
            Operation::ActStrictly(who, id, act) => {
                Answer::Acted(store.act_with(who, *id, act.clone(), ActionOptions::strict()).await)
            }
            Operation::ActIfSeen(who, id, act, is_there) => {
                let seen = store.get(&Caller::local(), *id).await.expect("the store answers");
                let seen = seen.filter(|_| *is_there).map(|seen| seen.version());
                let options = ActionOptions { strict: false, if_match: IfMatch::one_of(seen) };
                Answer::Acted(store.act_with(who, *id, act.clone(), options).await)
            }
            Operation::Redrive(who, id, how) => Answer::Redriven(store.redrive(who, *id, how.clone()).await),
            Operation::Delete(who, id) => Answer::Deleted(store.delete(who, *id).await),
            Operation::Signal(who, id, name, value) => {
                let sent = store.signal(who, *id, name, value.clone()).await;
                Answer::Acted(sent.map(|job| ActionReport { job, is_changed: true }))
            }
            Operation::Register(who, new) => Answer::Registered(store.register(who, new.clone()).await),
            Operation::Deregister(who, worker) => Answer::Left(*worker, store.deregister(who, *worker).await),
            Operation::Claim(who, request) => {
                Answer::Claimed(request.worker, store.claim(who, request, Duration::ZERO).await)
            }
            Operation::Heartbeat(who, worker, beats) => {
                Answer::Beaten(store.heartbeat(who, *worker, beats.clone()).await)
            }
            Operation::Finish(who, worker, reports) => {
                Answer::Finished(store.finish(who, *worker, reports.clone()).await)
            }
            Operation::AttemptWrite(who, lease, notes) => {
                Answer::Noted(store.record(who, *lease, notes.clone()).await)
            }
            Operation::Spawn(who, lease, group) => {
                Answer::Spawned(store.spawn(who, *lease, group.clone()).await)
            }
            _ => self.operate(store).await,
        }
    }

    async fn operate(&self, store: &Store) -> Answer {
        match self {
            Operation::Pause(who, target, pause) => {
                Answer::Switched(store.pause(who, target.clone(), pause.clone()).await)
            }
            Operation::Resume(who, target) => Answer::Switched(store.resume(who, target.clone(), None).await),
            Operation::Configure(who, settings) => {
                Answer::Configured(store.configure(who, settings.clone()).await)
            }
            Operation::Bulk(who, filter, action) => {
                Answer::Bulk(store.bulk(who, filter, action.clone()).await)
            }
            Operation::Count(who, filter) => Answer::Counted(store.bulk_dry_run(who, filter).await),
            Operation::List(who, request) => Answer::Listed(pages(store, who, request).await),
            Operation::Audit(who, query) => Answer::Audited(store.audit(who, query.clone()).await),
            Operation::OldestReady(who, queue) => {
                Answer::Oldest(store.oldest_ready(who, queue.clone()).await)
            }
            Operation::Tick => Answer::Ticked(store.tick().await),
            Operation::Seal => Answer::Sealed(store.seal().await),
            Operation::Prune => Answer::Pruned(store.prune().await),
            Operation::Config => Answer::Config(store.config(&Caller::local()).await),
            Operation::BeginGeneration(who) => Answer::Began(store.begin_generation(who, "a walk").await),
            _ => Answer::Passed,
        }
    }
}

/// All pages of a list, one after the other.
pub(super) async fn pages(
    store: &Store,
    who: &Caller,
    request: &ListRequest,
) -> Result<Vec<Page>, StoreError> {
    let (mut pages, mut request) = (Vec::new(), request.clone());
    loop {
        let page = store.list(who, request.clone()).await?;
        request.cursor = page.next;
        pages.push(page);
        if request.cursor.is_none() {
            return Ok(pages);
        }
    }
}

impl Answer {
    /// What a store could not do. Nothing in a walk is reason for that: every refusal has a name of its own.
    pub(super) fn store_error(&self) -> Option<&StoreError> {
        match self {
            Answer::Submitted(Err(SubmitError::Store(error)))
            | Answer::Acted(Err(ActionError::Store(error)))
            | Answer::Redriven(Err(ActionError::Store(error)))
            | Answer::Deleted(Err(ActionError::Store(error)))
            | Answer::Switched(Err(ActionError::Store(error)))
            | Answer::Configured(Err(ActionError::Store(error)))
            | Answer::Bulk(Err(ActionError::Store(error)))
            | Answer::Counted(Err(ActionError::Store(error)))
            | Answer::Began(Err(ActionError::Store(error)))
            | Answer::Registered(Err(WorkError::Store(error)))
            | Answer::Left(_, Err(WorkError::Store(error)))
            | Answer::Claimed(_, Err(WorkError::Store(error)))
            | Answer::Beaten(Err(WorkError::Store(error)))
            | Answer::Finished(Err(WorkError::Store(error)))
            | Answer::Noted(Err(WorkError::Store(error)))
            | Answer::Spawned(Err(WorkError::Store(error)))
            | Answer::Listed(Err(error))
            | Answer::Audited(Err(error))
            | Answer::Oldest(Err(error))
            | Answer::Ticked(Err(error))
            | Answer::Sealed(Err(error))
            | Answer::Pruned(Err(error))
            | Answer::Config(Err(error)) => Some(error),
            _ => None,
        }
    }
}

/// Receipts without the numbers of new jobs, which callers do not see: a job that is appended gets its number later.
fn unnumbered(mut receipts: Vec<Receipt>) -> Vec<Receipt> {
    for receipt in receipts.iter_mut().filter(|receipt| !receipt.is_duplicate) {
        receipt.job.seq = Seq(0);
    }
    receipts
}
