//! The worker registry: registered workers, their start and their last heartbeat. A worker gets a new id at every
//! start.

mod registry;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, StoreError, WorkError};
use crate::job::{JobType, QueueName, WorkerId, check_text};
use crate::limits;
use crate::store::caller::{Caller, Permission, Role};
use crate::store::documents::cascade::{LeaseEnd, Task};
use crate::store::documents::config::{PauseScope, Worker, encode};
use crate::store::engine::DocumentKind;
use crate::store::tx::write_tx::WriteTx;

/// A worker to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorker {
    /// A label for people; need not be unique.
    pub name: String,
    /// The queues it takes jobs from; all if empty.
    pub queues: Vec<QueueName>,
    /// The types it can run; all if empty.
    pub types: Vec<JobType>,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// The version of its program.
    pub version: Option<String>,
    /// Whether it sends heartbeats, and so is considered lost when silent.
    pub heartbeats: bool,
}

impl Default for NewWorker {
    fn default() -> NewWorker {
        NewWorker {
            name: String::new(),
            queues: Vec::new(),
            types: Vec::new(),
            concurrency: 1,
            version: None,
            heartbeats: true,
        }
    }
}

impl NewWorker {
    fn check(&self) -> Result<(), FieldError> {
        check_text("name", Some(&self.name), limits::NAME_CHARS_MAX)?;
        check_text("version", self.version.as_deref(), limits::NAME_CHARS_MAX)?;
        for (field, length) in [("queues", self.queues.len()), ("types", self.types.len())] {
            if length > limits::WORKER_NAMES_MAX {
                let problem = FieldProblem::TooLong { length, limit: limits::WORKER_NAMES_MAX };
                return Err(FieldError::new(field, problem));
            }
        }
        let queues = self.queues.iter().map(QueueName::as_str);
        let types = self.types.iter().map(JobType::as_str);
        let length = registry::bytes_of(queues, types, &self.name, self.version.as_deref());
        if length > limits::WORKER_BYTES_MAX {
            let field = if self.queues.len() >= self.types.len() { "queues" } else { "types" };
            return Err(FieldError::new(
                field,
                FieldProblem::TooManyBytes { length, limit: limits::WORKER_BYTES_MAX },
            ));
        }
        Ok(())
    }
}

/// Prefix of names reserved for the system: only the server itself, or an admin, may work on them.
const RESERVED: &str = "windlass.";

/// Refuses a worker that requests the system's own jobs, such as callbacks.
fn refuse_reserved(caller: &Caller, new: &NewWorker) -> Result<(), WorkError> {
    if caller.role == Role::Admin {
        return Ok(());
    }
    let queue = new.queues.iter().map(QueueName::as_str).find(|name| name.starts_with(RESERVED));
    let job_type = new.types.iter().map(JobType::as_str).find(|name| name.starts_with(RESERVED));
    for (field, name) in [("queues", queue), ("types", job_type)] {
        if let Some(name) = name {
            let problem = FieldProblem::Contradiction(format!("`{name}` is reserved for the server itself"));
            return Err(FieldError::new(field, problem).into());
        }
    }
    Ok(())
}

/// Registers a worker.
pub(crate) fn register(tx: &mut WriteTx<'_>, caller: &Caller, new: &NewWorker) -> Result<Worker, WorkError> {
    caller.require(Permission::Work)?;
    new.check()?;
    refuse_reserved(caller, new)?;
    let worker = Worker {
        id: WorkerId::new(tx.env.entropy.bits()),
        name: new.name.clone(),
        tenant: caller.tenant.clone(),
        queues: new.queues.clone(),
        types: new.types.clone(),
        concurrency: new.concurrency,
        version: new.version.clone(),
        heartbeats: new.heartbeats,
        registered_at: tx.now,
        seen_at: tx.now,
        is_lost: false,
        is_paused: false,
        key: caller.key.clone(),
    };
    registry::make_room(tx, &worker)?;
    tx.put_worker(&worker)?;
    Ok(worker)
}

/// Deregisters a worker, at its own request or that of a caller who may pause it. Its jobs are released without
/// counting as failed.
pub(crate) fn deregister(tx: &mut WriteTx<'_>, caller: &Caller, id: WorkerId) -> Result<usize, WorkError> {
    caller.require(Permission::Work)?;
    let worker = tx.visible_worker(caller, id)?;
    if caller.require(Permission::Pause).is_err() && worker.key != caller.key {
        return Err(WorkError::NoSuchWorker(id));
    }
    tx.mark_seen(worker, limits::POLL_INTERVAL)?;
    let released =
        tx.workers_gone([id].into(), Timestamp::MAX, LeaseEnd::Release, caller.trace_id.clone())?;
    tx.remove_worker(id)?;
    // A heartbeat of the worker that waits learns of it.
    tx.interrupt();
    Ok(released)
}

/// Ends a worker's leases as if its process had died and its silence had been noticed. Returns how many.
pub(crate) fn crash(tx: &mut WriteTx<'_>, caller: &Caller, id: WorkerId) -> Result<usize, WorkError> {
    caller.require(Permission::Administer)?;
    tx.visible_worker(caller, id)?;
    let ended = tx.workers_gone([id].into(), Timestamp::MAX, LeaseEnd::Crash, caller.trace_id.clone())?;
    tx.remove_worker(id)?;
    tx.interrupt();
    Ok(ended)
}

/// Records that a worker's own program paused or resumed it; explanations of waiting jobs mention it.
pub(crate) fn set_worker_paused(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: WorkerId,
    is_paused: bool,
) -> Result<(), WorkError> {
    caller.require(Permission::Work)?;
    let worker = tx.worker_calls(caller, id)?;
    if worker.is_paused != is_paused {
        tx.put_worker(&Worker { is_paused, ..worker })?;
    }
    Ok(())
}

impl WriteTx<'_> {
    /// Handles a call from a worker: the worker must be registered. If it had fallen silent, its leases end first; then
    /// it is alive again.
    pub(crate) fn worker_calls(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let worker = self.known_worker(caller, id)?;
        Ok(self.mark_seen(worker, limits::POLL_INTERVAL)?)
    }

    /// Like [`worker_calls`](Self::worker_calls), for calls that are repeated while there is nothing to do: an idle
    /// store writes almost nothing.
    pub(crate) fn touch_worker(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let worker = self.known_worker(caller, id)?;
        Ok(self.mark_seen(worker, limits::HEARTBEAT_EVERY)?)
    }

    /// A worker that this caller may claim and report for: one registered with the same API key. For other callers,
    /// including admins, it does not exist.
    pub(crate) fn known_worker(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let worker = self.visible_worker(caller, id)?;
        if worker.key == caller.key { Ok(worker) } else { Err(WorkError::NoSuchWorker(id)) }
    }

    /// A worker of the caller's tenant.
    fn visible_worker(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let config = self.config()?;
        let known = config.workers.get(&id).filter(|worker| match (&caller.tenant, &worker.tenant) {
            (Some(own), Some(theirs)) => own == theirs,
            (Some(_), None) => false,
            (None, _) => true,
        });
        let known = known.cloned().ok_or(WorkError::NoSuchWorker(id))?;
        drop(config);
        Ok(self.with_liveness(known)?)
    }

    /// Records that a worker is alive, unless that was recorded within `every`: it is not worth a disk write each time.
    pub(crate) fn mark_seen(&mut self, worker: Worker, every: Duration) -> Result<Worker, StoreError> {
        let is_silent = worker.is_silent_after(self.now, &self.grace) && !worker.is_lost;
        if is_silent {
            self.worker_lost(&worker)?;
            // The worker's silence is recorded even if the command that triggered this fails.
            self.begin();
        } else if !worker.is_lost && self.now.since(worker.seen_at) < every {
            return Ok(worker);
        }
        let has_returned = is_silent || worker.is_lost;
        let worker = Worker { seen_at: self.now, is_lost: false, ..worker };
        if has_returned {
            self.put_worker(&worker)?;
        } else {
            self.put_liveness(&worker)?;
        }
        Ok(worker)
    }

    pub(crate) fn put_worker(&mut self, worker: &Worker) -> Result<(), StoreError> {
        let (key, body) = (worker.id.to_string(), encode(worker));
        self.put_document(DocumentKind::Worker, &key, Some(&body), |config| {
            config.workers.insert(worker.id, worker.clone());
        })
    }

    /// Removes a worker and its pause from the registry.
    pub(crate) fn remove_worker(&mut self, id: WorkerId) -> Result<(), StoreError> {
        self.put_document(DocumentKind::Worker, &id.to_string(), None, |config| {
            config.workers.remove(&id);
        })?;
        self.drop_liveness(id)?;
        self.drop_hold(&PauseScope::Worker(id))
    }

    /// Ends the leases of a worker with heartbeats that fell silent.
    pub(crate) fn worker_lost(&mut self, worker: &Worker) -> Result<usize, StoreError> {
        self.note_lost(worker)?;
        let end = if self.grace.is_crash(worker.seen_at) { LeaseEnd::Crash } else { LeaseEnd::Gap };
        self.workers_gone([worker.id].into(), self.now, end, None)
    }

    /// Records that a worker is lost; its leases are ended together with those of others.
    pub(crate) fn note_lost(&mut self, worker: &Worker) -> Result<(), StoreError> {
        self.put_worker(&Worker { is_lost: true, ..worker.clone() })?;
        tracing::warn!(worker = %worker.id, name = worker.name, "worker sent no heartbeat; its leases end");
        Ok(())
    }

    /// Ends the leases that lost workers received `before` this time, as many as one commit may; returns how many.
    /// Maintenance ends the rest.
    pub(crate) fn workers_gone(
        &mut self,
        workers: BTreeSet<WorkerId>,
        before: Timestamp,
        end: LeaseEnd,
        trace_id: Option<String>,
    ) -> Result<usize, StoreError> {
        self.cascade(0, Task::Leases { workers, before, end, trace_id, after: None })
    }
}
