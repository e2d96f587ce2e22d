//! What a walk knows of the small world it moves in: few tenants, queues, types, keys and workers, so that everything
//! meets everything else often.

use windlass::clock::Timestamp;
use windlass::job::{Dependency, Fence, JobId, JobType, QueueName, Tenant, WorkerId};
use windlass::limits;
use windlass::store::caller::{Caller, Role};

use super::operation::{Answer, Operation};
use super::rng::Dice;

const TENANTS: [&str; 3] = ["default", "acme", "zoo"];
const QUEUES: [&str; 3] = ["default", "mail", "slow"];
const TYPES: [&str; 4] = ["email.send", "report", "thumb", "sync"];
/// Workers at a time; a claim that finds its worker forgotten makes room for another.
const WORKERS_MAX: usize = 4;
/// Leases that are remembered, held or lost.
const LEASES_MAX: usize = 60;

/// A lease that was given once; it may be lost by now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) worker: WorkerId,
    pub(super) job: JobId,
    pub(super) fence: Fence,
}

/// The world as the walk has seen it.
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) jobs: Vec<JobId>,
    /// Those that had ended at the last look.
    pub(super) ended: Vec<JobId>,
    /// Those that have spawned children.
    parents: Vec<JobId>,
    /// Children, and jobs that others were submitted to wait for.
    relatives: Vec<JobId>,
    pub(super) workers: Vec<WorkerId>,
    pub(super) held: Vec<Held>,
    /// Whether there are so many live jobs that no more are submitted for a while.
    pub(super) is_full: bool,
}

impl World {
    pub(super) fn new(now: Timestamp) -> World {
        World {
            now,
            jobs: Vec::new(),
            ended: Vec::new(),
            parents: Vec::new(),
            relatives: Vec::new(),
            workers: Vec::new(),
            held: Vec::new(),
            is_full: false,
        }
    }

    pub(super) fn wants_workers(&self) -> bool {
        self.workers.len() < WORKERS_MAX
    }

    /// A job, mostly a late one, sometimes one that never was.
    pub(super) fn job(&self, dice: &mut Dice) -> JobId {
        let none = JobId::from_bytes([7; 16]);
        if dice.chance(1) { none } else { dice.recent(&self.jobs, 40).unwrap_or(none) }
    }

    /// A job, mostly one that has ended.
    pub(super) fn ended(&self, dice: &mut Dice) -> JobId {
        let ended = dice.recent(&self.ended, 40).filter(|_| dice.chance(75));
        ended.unwrap_or_else(|| self.job(dice))
    }

    /// A job, mostly a child or a dependency: one that another job may need.
    pub(super) fn relative(&self, dice: &mut Dice) -> JobId {
        dice.recent(&self.relatives, 40).unwrap_or_else(|| self.ended(dice))
    }

    pub(super) fn worker(&self, dice: &mut Dice) -> WorkerId {
        let none = WorkerId::from_bytes([7; 16]);
        if dice.chance(1) || self.workers.is_empty() { none } else { dice.pick(&self.workers) }
    }

    /// A lease, mostly a late one, sometimes with a fence or a worker it was not given with.
    pub(super) fn lease(&self, dice: &mut Dice) -> Option<Held> {
        let mut held = dice.recent(&self.held, 6)?;
        match dice.below(20) {
            0 => held.fence = held.fence.next(),
            1 => held.fence = Fence(held.fence.0 - 1),
            2 => held.worker = self.worker(dice),
            _ => {}
        }
        Some(held)
    }

    /// The latest lease on a job that spawned children in an earlier attempt.
    pub(super) fn lease_of_a_parent(&self) -> Option<Held> {
        self.held.iter().rev().find(|held| self.parents.contains(&held.job)).copied()
    }

    /// Learns from the answer to a step.
    pub(super) fn learn(&mut self, dice: &mut Dice, operation: &Operation, answer: &Answer) {
        if let (Operation::Finish(_, _, reports), Answer::Finished(Ok(_))) = (operation, answer) {
            // Most leases that were used up are forgotten; with the others a worker comes too late.
            let is_used = |held: &Held| {
                reports.iter().any(|report| (report.job, report.fence) == (held.job, held.fence))
            };
            self.held.retain(|held| !is_used(held) || dice.chance(15));
        }
        if matches!(operation, Operation::Pass(time) if *time >= limits::WORKER_SILENCE_MAX) {
            self.held.retain(|_| dice.chance(20));
        }
        if let (Operation::Submit(_, jobs, _), Answer::Submitted(Ok(_))) = (operation, answer) {
            let named = jobs.iter().flat_map(|job| job.after.iter().chain(&job.after_any));
            self.relatives.extend(named.filter_map(|dependency| match dependency {
                Dependency::Job(id) => Some(*id),
                Dependency::Named(_) => None,
            }));
        }
        match answer {
            Answer::Submitted(Ok(receipts)) => {
                let new = receipts.iter().filter(|receipt| !receipt.is_duplicate);
                self.jobs.extend(new.map(|receipt| receipt.job.id));
            }
            Answer::Redriven(Ok(job)) => self.jobs.push(job.id),
            Answer::Spawned(Ok(spawned)) if !spawned.is_known => {
                self.parents.push(spawned.parent.id);
                self.jobs.extend(spawned.children.iter().map(|child| child.id));
                self.relatives.extend(spawned.children.iter().map(|child| child.id));
            }
            Answer::Registered(Ok(worker)) => self.workers.push(worker.id),
            Answer::Claimed(_, Ok(claimed)) => {
                for claimed in &claimed.jobs {
                    let lease = claimed.job.lease.expect("a claimed job has a lease");
                    let (job, fence) = (claimed.job.id, claimed.job.fence);
                    self.held.push(Held { worker: lease.worker, job, fence });
                }
                let surplus = self.held.len().saturating_sub(LEASES_MAX);
                self.held.drain(..surplus);
            }
            Answer::Claimed(worker, Err(windlass::error::WorkError::NoSuchWorker(_)))
            | Answer::Left(worker, Ok(_)) => {
                self.workers.retain(|known| known != worker);
            }
            _ => {}
        }
    }
}

/// A random caller: mostly one who may do what is asked.
pub(super) fn caller(dice: &mut Dice, fitting: &[Role]) -> Caller {
    match dice.below(10) {
        0..=4 => Caller::local(),
        5..=8 => member(dice, fitting),
        _ => member(dice, &[Role::Operator, Role::Submitter, Role::Worker, Role::Viewer]),
    }
}

fn member(dice: &mut Dice, roles: &[Role]) -> Caller {
    let role = dice.pick(roles);
    let tenant = if dice.chance(60) { Tenant::default() } else { tenant(dice) };
    let name = dice.pick(&["ann", "bob"]);
    let everywhere = role == Role::Worker && dice.chance(50);
    Caller::new(name, role, (!everywhere).then_some(tenant))
}

pub(super) fn tenant(dice: &mut Dice) -> Tenant {
    Tenant::new(dice.pick(&TENANTS)).expect("it is a name")
}

pub(super) fn queue(dice: &mut Dice) -> QueueName {
    QueueName::new(dice.pick(&QUEUES)).expect("it is a name")
}

pub(super) fn job_type(dice: &mut Dice) -> JobType {
    let types = if dice.chance(40) { &TYPES[..1] } else { &TYPES[..] };
    JobType::new(dice.pick(types)).expect("it is a name")
}
