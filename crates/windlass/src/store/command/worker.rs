//! The worker registry: who works, since when, and who has fallen silent. A worker's identity is new at every start (M31).

use std::time::Duration;

use super::record::Cause;
use crate::error::{Invalid, Problem, StoreError, WorkError};
use crate::job::{Event, JobType, QueueName, Seq, State, WorkerId, check_text};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::config::{Scope, Worker, encode};
use crate::store::engine::DocumentKind;
use crate::store::filter::{Filter, Order, Scan};
use crate::store::unit::Unit;

/// A worker that presents itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorker {
    /// A label for people.
    pub name: String,
    /// Which queues it takes from; all if empty.
    pub queues: Vec<QueueName>,
    /// Which types it can run; any if empty.
    pub types: Vec<JobType>,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// The version of its program.
    pub version: Option<String>,
    /// Whether it beats, and so is dead when silent.
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
    fn check(&self) -> Result<(), Invalid> {
        check_text("name", Some(&self.name), limits::NAME_CHARS_MAX)?;
        check_text("version", self.version.as_deref(), limits::NAME_CHARS_MAX)?;
        for (field, length) in [("queues", self.queues.len()), ("types", self.types.len())] {
            if length > limits::WORKER_NAMES_MAX {
                let problem = Problem::TooLong { length, limit: limits::WORKER_NAMES_MAX };
                return Err(Invalid::new(field, problem));
            }
        }
        Ok(())
    }
}

/// Registers a worker.
pub(crate) fn register(unit: &mut Unit<'_>, caller: &Caller, new: &NewWorker) -> Result<Worker, WorkError> {
    caller.must(Permission::Work)?;
    new.check()?;
    let worker = Worker {
        id: WorkerId::new(unit.env.entropy.bits()),
        name: new.name.clone(),
        tenant: caller.tenant.clone(),
        queues: new.queues.clone(),
        types: new.types.clone(),
        concurrency: new.concurrency,
        version: new.version.clone(),
        heartbeats: new.heartbeats,
        registered_at: unit.now,
        seen_at: unit.now,
        is_lost: false,
    };
    unit.put_worker(&worker)?;
    Ok(worker)
}

/// A worker leaves: its jobs go back without being counted as failed.
pub(crate) fn deregister(unit: &mut Unit<'_>, caller: &Caller, id: WorkerId) -> Result<usize, WorkError> {
    caller.must(Permission::Work)?;
    unit.worker_calls(caller, id)?;
    let released = unit.end_leases(id, |_| Event::Release)?;
    unit.forget_worker(id)?;
    Ok(released)
}

impl Unit<'_> {
    /// A call from a worker: it must be known; if it had fallen silent its leases end first, then it is alive again.
    pub(crate) fn worker_calls(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let worker = self.known_worker(caller, id)?;
        Ok(self.heard_of(worker, limits::BACKSTOP_EVERY)?)
    }

    /// The same for a call that comes again and again while there is nothing to do: an idle store writes next to nothing.
    pub(crate) fn worker_looks(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let worker = self.known_worker(caller, id)?;
        Ok(self.heard_of(worker, limits::HEARTBEAT_EVERY)?)
    }

    fn known_worker(&mut self, caller: &Caller, id: WorkerId) -> Result<Worker, WorkError> {
        let config = self.config()?;
        let known = config.workers.get(&id).filter(|worker| match (&caller.tenant, &worker.tenant) {
            (Some(own), Some(theirs)) => own == theirs,
            (Some(_), None) => false,
            (None, _) => true,
        });
        known.cloned().ok_or(WorkError::NoSuchWorker(id))
    }

    /// Notes that a worker lives, if that was not noted within `every`: it is not worth a disk write each time.
    pub(crate) fn heard_of(&mut self, worker: Worker, every: Duration) -> Result<Worker, StoreError> {
        if worker.is_silent(self.now) && !worker.is_lost {
            self.worker_lost(&worker)?;
            // Its silence stands, whatever becomes of the command that met it.
            self.begin();
        } else if !worker.is_lost && self.now.since(worker.seen_at) < every {
            return Ok(worker);
        }
        let worker = Worker { seen_at: self.now, is_lost: false, ..worker };
        self.put_worker(&worker)?;
        Ok(worker)
    }

    pub(crate) fn put_worker(&mut self, worker: &Worker) -> Result<(), StoreError> {
        let (key, body) = (worker.id.to_string(), encode(worker));
        self.put_document(DocumentKind::Worker, &key, Some(&body), |config| {
            config.workers.insert(worker.id, worker.clone());
        })
    }

    /// Removes a worker and its pause from the registry.
    pub(crate) fn forget_worker(&mut self, id: WorkerId) -> Result<(), StoreError> {
        self.put_document(DocumentKind::Worker, &id.to_string(), None, |config| {
            config.workers.remove(&id);
        })?;
        self.drop_hold(&Scope::Worker(id))
    }

    /// A worker that beats fell silent: its leases end now (M31).
    pub(crate) fn worker_lost(&mut self, worker: &Worker) -> Result<usize, StoreError> {
        let ended = self.end_leases(worker.id, |random| Event::LeaseExpired { random })?;
        self.put_worker(&Worker { is_lost: true, ..worker.clone() })?;
        tracing::warn!(worker = %worker.id, name = worker.name, leases = ended, "worker fell silent, its leases end");
        Ok(ended)
    }

    /// Lets something happen to all jobs that a worker runs.
    pub(crate) fn end_leases(
        &mut self,
        worker: WorkerId,
        event: impl Fn(f64) -> Event,
    ) -> Result<usize, StoreError> {
        let mut ended = 0;
        let cause = Cause { reason: Some(format!("worker {worker} is gone")), ..Cause::system() };
        loop {
            let filter = Filter { worker: Some(worker), states: vec![State::Running], ..Filter::default() };
            let scan =
                Scan { filter, order: Order::Oldest, after: None, limit: limits::BULK_JOBS_PER_COMMIT };
            let held: Vec<Seq> = self.db()?.scan(&scan)?.into_iter().map(|job| self.remember(job)).collect();
            if held.is_empty() {
                return Ok(ended);
            }
            for seq in held {
                let random = self.env.entropy.fraction();
                let _refused = self.apply(seq, &event(random), &cause)?;
                ended += 1;
            }
        }
    }
}
