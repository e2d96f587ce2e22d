//! What clients and workers ask of a store: one method per verb, answered by a [`Store`] in this process or by the
//! server of a remote one. A [`Client`](crate::Client) holds an `Arc<dyn Api>`, which a [`Worker`](crate::Worker) uses
//! too, and does not know which.

mod events;
mod interrupts;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use events::Events;
pub(crate) use interrupts::Interrupts;

use crate::audit::Record;
use crate::clock::Timestamp;
use crate::error::{ActionError, ScheduleError, StoreError, SubmitError, WorkError};
use crate::job::{Fence, JobId, JobRecord, NewJob, QueueName, ScheduleName, WorkerId};
use crate::key::KeyId;
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::settings::patch::SettingsPatch;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::actions::{ActionReport, ActionRequest};
use crate::store::command::attempt_writes::{AttemptWrite, LeaseRef, LogLine};
use crate::store::command::bulk::{BulkAction, BulkReport};
use crate::store::command::children::{NewGroup, SpawnOptions, SpawnReport};
use crate::store::command::claim::{Checkpoint, ClaimAnswer, ClaimRequest};
use crate::store::command::finish::{Finish, Report};
use crate::store::command::heartbeat::{HeartbeatItem, HeartbeatReply};
use crate::store::command::key::NewKey;
use crate::store::command::pause::{Pause, PauseTarget};
use crate::store::command::precondition::{ActionOptions, IfMatch};
use crate::store::command::redrive::Redrive;
use crate::store::command::settings::SettingsReport;
use crate::store::command::submit::{Receipt, SubmitOptions};
use crate::store::command::worker::NewWorker;
use crate::store::documents::config::{Config, Worker};
use crate::store::documents::schedules::{DeletedSchedule, NewSchedule, PutSchedule, Schedule};
use crate::store::documents::tenant_object::{PauseOptions, ScheduleRef};
use crate::store::engine::RecordQuery;
use crate::store::environment::Environment;
use crate::store::filter::Filter;
use crate::store::methods::auth::{ApiKey, CreatedKey};
use crate::store::query::audit::RecordPage;
use crate::store::query::explain::Reason;
use crate::store::query::job_details::{Attempt, Group, JobResult, Neighbours};
use crate::store::query::list::{ListRequest, Page};
use crate::store::query::queues::QueueInfo;
use crate::store::query::snapshot::Snapshot;
use crate::store::query::stats::Stats;
use crate::store::query::stream::StreamPage;

/// The future that a verb returns; boxed, so that there can be an `Arc<dyn Api>`.
pub type ApiFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How many of the jobs of a claim start at once; evaluated at each query.
pub type Starts<'a> = &'a (dyn Fn() -> usize + Sync);

/// Completes when the caller no longer waits for the answer.
pub type Disconnect<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// Declares [`Api`] and implements it for `Store` and `Remote` by their methods of the same names. A server knows its
/// caller by the API key; it is asked only if the caller is the one whose key this is.
macro_rules! api {
    ($a:lifetime; $($(#[$doc:meta])* fn $verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        /// The verbs of a store. See the methods of the same names of [`Store`].
        pub trait Api: Send + Sync + 'static {
            /// The clock, randomness and options that the store was opened with.
            fn environment(&self) -> &Environment;

            /// Stops after finishing what was accepted. Later calls are refused.
            fn close(&self);

            /// Events that this caller can see, from the audit trail after number `after` and then live.
            fn events(self: Arc<Self>, caller: &Caller, after: u64) -> Events;

            /// Subscribes to interruptions of running jobs.
            #[doc(hidden)]
            fn interrupts(self: Arc<Self>) -> Interrupts;

            $($(#[$doc])*
            fn $verb<$a>(&$a self, caller: &$a Caller $(, $name: $type)*) -> ApiFuture<$a, $answer>;)*
        }

        impl Api for Store {
            fn environment(&self) -> &Environment {
                Store::environment(self)
            }

            fn close(&self) {
                Store::close(self);
            }

            fn events(self: Arc<Self>, caller: &Caller, after: u64) -> Events {
                Events::of_store(Store::events(&self, caller, after))
            }

            fn interrupts(self: Arc<Self>) -> Interrupts {
                Interrupts::of_store(&self)
            }

            $(fn $verb<$a>(&$a self, caller: &$a Caller $(, $name: $type)*) -> ApiFuture<$a, $answer> {
                Box::pin(Store::$verb(self, caller $(, $name)*))
            })*
        }

        #[cfg(feature = "remote")]
        impl Api for Remote {
            fn environment(&self) -> &Environment {
                Remote::environment(self)
            }

            fn close(&self) {
                Remote::close(self);
            }

            fn events(self: Arc<Self>, caller: &Caller, after: u64) -> Events {
                Events::of_server(Remote::events(self, caller, after))
            }

            fn interrupts(self: Arc<Self>) -> Interrupts {
                Interrupts::of_server(self)
            }

            $(fn $verb<$a>(&$a self, caller: &$a Caller $(, $name: $type)*) -> ApiFuture<$a, $answer> {
                Box::pin(async move {
                    Remote::check_caller(caller)?;
                    Remote::$verb(self $(, $name)*).await
                })
            })*
        }
    };
}

api! { 'a;
    /// Submits jobs, all or none.
    fn submit(jobs: Vec<NewJob>, options: SubmitOptions) -> Result<Vec<Receipt>, SubmitError>;
    /// Applies an action to a job.
    fn act_with(id: JobId, act: ActionRequest, options: ActionOptions) -> Result<ActionReport, ActionError>;
    /// Submits a copy of a final job as a new job.
    fn redrive_if(id: JobId, how: Redrive, if_match: IfMatch) -> Result<JobRecord, ActionError>;
    /// Deletes a final job.
    fn delete_if(id: JobId, if_match: IfMatch) -> Result<(), ActionError>;
    /// Sends a signal to a job.
    fn signal_if(id: JobId, name: &'a str, value: Vec<u8>, if_match: IfMatch) -> Result<JobRecord, ActionError>;
    /// Applies an action to every job that a filter selects.
    fn bulk(filter: &'a Filter, action: BulkAction) -> Result<BulkReport, ActionError>;
    /// How many jobs a filter selects.
    fn bulk_dry_run(filter: &'a Filter) -> Result<u64, ActionError>;

    /// The job with this id.
    fn get(id: JobId) -> Result<Option<Snapshot>, StoreError>;
    /// The job once it is final, or in its current state after `timeout`.
    fn wait(id: JobId, timeout: Duration) -> Result<Option<Snapshot>, StoreError>;
    /// A page of jobs.
    fn list(request: ListRequest) -> Result<Page, StoreError>;
    /// Why a job is not running.
    fn explain(id: JobId) -> Result<Option<Vec<Reason>>, StoreError>;
    /// The attempts of a job.
    fn attempts(id: JobId) -> Result<Option<Vec<Attempt>>, StoreError>;
    /// The checkpoints of a job.
    fn checkpoints(id: JobId) -> Result<Option<Vec<Checkpoint>>, StoreError>;
    /// The log lines of a job after a number.
    fn logs(id: JobId, after: u64) -> Result<Option<Vec<(u64, LogLine)>>, StoreError>;
    /// The output that a job has streamed after a number; waits for some while there is none and the job is not final.
    fn stream(id: JobId, after: u64, limit: usize, wait: Duration) -> Result<Option<StreamPage>, StoreError>;
    /// The result of a job.
    fn result(id: JobId) -> Result<Option<JobResult>, StoreError>;
    /// The groups of children of a job.
    fn groups(id: JobId) -> Result<Option<Vec<Group>>, StoreError>;
    /// One group of children of a job.
    fn group(id: JobId, name: &'a str) -> Result<Option<Group>, StoreError>;
    /// What a job depends on, and what depends on it.
    fn neighbours(id: JobId) -> Result<Option<Neighbours>, StoreError>;
    /// A page of the audit trail.
    fn audit_page(query: RecordQuery) -> Result<RecordPage, StoreError>;

    /// Registers a worker under a new id.
    fn register(new: NewWorker) -> Result<Worker, WorkError>;
    /// Deregisters a worker; its jobs are released.
    fn deregister(worker: WorkerId) -> Result<usize, WorkError>;
    /// Records that a worker's own program paused or resumed it.
    fn set_worker_paused(worker: WorkerId, is_paused: bool) -> Result<(), WorkError>;
    /// Claims jobs, or waits for some.
    fn claim(request: &'a ClaimRequest, wait: Duration) -> Result<ClaimAnswer, WorkError>;
    /// Claims jobs, some of them ahead of their start; stops when the caller no longer waits for the answer.
    fn claim_ahead(request: &'a ClaimRequest, starts: Starts<'a>, wait: Duration, gone: Disconnect<'a>) -> Result<ClaimAnswer, WorkError>;
    /// Marks jobs that were claimed ahead as started.
    fn start(worker: WorkerId, started: Vec<(JobId, Fence)>) -> Result<(), WorkError>;
    /// Renews leases and returns a directive for each job.
    fn heartbeat(worker: WorkerId, beats: Vec<HeartbeatItem>) -> Result<HeartbeatReply, WorkError>;
    /// The same, answered after `wait` or when a job is interrupted.
    fn heartbeat_wait(worker: WorkerId, beats: Vec<HeartbeatItem>, wait: Duration) -> Result<HeartbeatReply, WorkError>;
    /// Reports how attempts ended.
    fn finish(worker: WorkerId, reports: Vec<Report>) -> Result<Vec<Finish>, WorkError>;
    /// Writes checkpoints, progress, log lines or output for a running job, all or none.
    fn record(lease: LeaseRef, writes: Vec<AttemptWrite>) -> Result<(), WorkError>;
    /// Creates a group of children for a running job, which is parked until they end if it asks for that.
    fn spawn_with(lease: LeaseRef, group: NewGroup, options: SpawnOptions) -> Result<SpawnReport, WorkError>;

    /// Pauses a queue, type, tenant, worker or everything; whether that changed anything.
    fn pause(target: PauseTarget, pause: Pause) -> Result<bool, ActionError>;
    /// Ends a pause; whether there was one.
    fn resume(target: PauseTarget, reason: Option<String>) -> Result<bool, ActionError>;
    /// Changes settings.
    fn configure(patch: SettingsPatch) -> Result<SettingsReport, ActionError>;
    /// Workers, pauses and settings.
    fn config() -> Result<Config, StoreError>;
    /// A queue.
    fn queue(name: QueueName) -> Result<QueueInfo, StoreError>;
    /// All queues.
    fn queues() -> Result<Vec<QueueInfo>, StoreError>;
    /// Counts of jobs and rates.
    fn stats() -> Result<Stats, StoreError>;
    /// When the oldest job that is ready in a queue became so.
    fn oldest_ready(queue: QueueName) -> Result<Option<Timestamp>, StoreError>;

    /// Creates or changes a schedule.
    fn put_schedule(name: ScheduleName, new: NewSchedule) -> Result<PutSchedule, ScheduleError>;
    /// Deletes a schedule.
    fn delete_schedule(which: ScheduleRef) -> Result<(), ScheduleError>;
    /// Creates a deleted schedule again.
    fn restore_schedule(which: ScheduleRef) -> Result<Arc<Schedule>, ScheduleError>;
    /// The deleted schedules that can be restored, latest first.
    fn deleted_schedules() -> Result<Vec<DeletedSchedule>, StoreError>;
    /// Pauses a schedule; whether that changed anything.
    fn pause_schedule(which: ScheduleRef, how: PauseOptions) -> Result<bool, ScheduleError>;
    /// Resumes a schedule; whether it was paused.
    fn resume_schedule(which: ScheduleRef) -> Result<bool, ScheduleError>;
    /// Submits the job of a schedule now.
    fn trigger_schedule(which: ScheduleRef) -> Result<JobRecord, ScheduleError>;
    /// A schedule.
    fn schedule(which: ScheduleRef) -> Result<Option<Arc<Schedule>>, StoreError>;
    /// All schedules.
    fn schedules() -> Result<Vec<Arc<Schedule>>, StoreError>;

    /// Creates an API key.
    fn create_key(new: NewKey) -> Result<CreatedKey, ActionError>;
    /// Revokes an API key.
    fn revoke_key(id: KeyId) -> Result<(), ActionError>;
    /// All API keys.
    fn keys() -> Result<Vec<ApiKey>, ActionError>;
}

/// Shorter forms of the verbs.
impl dyn Api {
    /// Like [`act_with`](Api::act_with), without options.
    pub async fn act(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
    ) -> Result<ActionReport, ActionError> {
        self.act_with(caller, id, act, ActionOptions::default()).await
    }

    /// Like [`redrive_if`](Api::redrive_if), whatever the job's version.
    pub async fn redrive(&self, caller: &Caller, id: JobId, how: Redrive) -> Result<JobRecord, ActionError> {
        self.redrive_if(caller, id, how, IfMatch::any()).await
    }

    /// Like [`delete_if`](Api::delete_if), whatever the job's version.
    pub async fn delete(&self, caller: &Caller, id: JobId) -> Result<(), ActionError> {
        self.delete_if(caller, id, IfMatch::any()).await
    }

    /// Like [`audit_page`](Api::audit_page), only its records.
    pub async fn audit(&self, caller: &Caller, query: RecordQuery) -> Result<Vec<Record>, StoreError> {
        Ok(self.audit_page(caller, query).await?.records)
    }
}
