//! What can be done next in a world: everything that a worker, an operator, a timer or a crash can do.

use super::world::{Hands, JOBS, WORKERS, World};

/// One step. Workers and jobs are named by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Claim(usize),
    Complete(usize),
    /// A failure that is retried.
    Fail(usize),
    /// A failure that is not.
    Reject(usize),
    Release(usize),
    Heartbeat(usize),
    /// The handler of the parent asks for its child and waits for it.
    Spawn(usize),
    /// The worker is gone, without a word.
    Crash(usize),
    Cancel(usize),
    /// The attempt that runs may end first.
    Suspend(usize),
    /// The attempt that runs is stopped.
    Interrupt(usize),
    Resume(usize),
    Pause,
    /// Pauses the queue and stops what runs.
    Stop,
    Open,
    /// Time passes until the next timer.
    Pass,
    /// Maintenance runs.
    Tick,
}

impl Action {
    /// Whether this worker tells the store something.
    pub(super) fn is_call_of(self, worker: usize) -> bool {
        let (Action::Claim(who)
        | Action::Complete(who)
        | Action::Fail(who)
        | Action::Reject(who)
        | Action::Release(who)
        | Action::Heartbeat(who)
        | Action::Spawn(who)) = self
        else {
            return false;
        };
        who == worker
    }
}

/// Everything that can be done in this world. What would be refused before it is looked at is left out.
pub(super) fn possible(world: &World) -> Vec<Action> {
    let mut found = Vec::new();
    for worker in 0..WORKERS {
        of_worker(world, worker, &mut found);
    }
    if world.left.actions > 0 {
        of_operator(world, &mut found);
    }
    if world.left.timers > 0 && world.next_timer().is_some() {
        found.push(Action::Pass);
    }
    found.push(Action::Tick);
    found
}

fn of_worker(world: &World, worker: usize, found: &mut Vec<Action>) {
    let hands = world.hands[worker];
    if hands == Hands::Gone {
        return;
    }
    match hands {
        Hands::Empty => found.push(Action::Claim(worker)),
        Hands::Full(job, _) => {
            found.extend([Action::Complete(worker), Action::Fail(worker), Action::Reject(worker)]);
            found.push(Action::Heartbeat(worker));
            if world.left.releases > 0 {
                found.push(Action::Release(worker));
            }
            if job == world.parent() {
                found.push(Action::Spawn(worker));
            }
        }
        Hands::Gone => {}
    }
    // A worker without a job that goes away only matters to the other; once is enough.
    if world.left.crashes > 0 && (hands != Hands::Empty || worker == 0) {
        found.push(Action::Crash(worker));
    }
}

fn of_operator(world: &World, found: &mut Vec<Action>) {
    for number in 0..JOBS {
        let Some(job) = world.view.jobs.get(number) else { continue };
        if job.state.is_final() {
            continue;
        }
        found.push(Action::Cancel(number));
        if job.is_suspended_or_asked_to() {
            found.push(Action::Resume(number));
        } else {
            found.extend([Action::Suspend(number), Action::Interrupt(number)]);
        }
    }
    if world.is_paused {
        found.push(Action::Open);
    } else {
        found.extend([Action::Pause, Action::Stop]);
    }
}
