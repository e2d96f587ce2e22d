//! What all clients were answered, and whether it fits together: decided from requests and answers alone, and at the end against
//! what is stored.

use std::collections::{BTreeMap, BTreeSet};

use windlass::job::{JobId, JobState};
use windlass::store::{Finish, Snapshot};

use super::actors::{Held, Request, Response};

/// What happened, so that a simulation that gets nowhere does not pass forever.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach(BTreeMap<&'static str, usize>);

/// What must have happened in a set of simulations.
const EVERYWHERE: [&str; 17] = [
    "acknowledged submission",
    "repeated submission",
    "claim",
    "applied outcome",
    "stale outcome",
    "repeated outcome",
    "lost request",
    "lost answer",
    "late message",
    "crash",
    "clock set back",
    "clock set ahead",
    "machine that stood still",
    "crash of a node",
    "full disk",
    "restart of the database",
    "restore of the database",
];

impl Reach {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Reach) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(super) fn has(&self, what: &str) -> bool {
        self.0.contains_key(what)
    }

    pub(super) fn assert_everywhere(&self) {
        let missing: Vec<_> = EVERYWHERE.iter().filter(|what| !self.0.contains_key(*what)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}, but {self:?}");
    }
}

/// A lease of 30 s lasts at least this long, in milliseconds that really pass. A node that starts while the database's clock is
/// not believed begins at the last commit, up to 10 s behind the others; store time may run a tenth faster until it
/// has caught up with a clock that was set; and a machine's clock may run fast by a hundredth.
const LEASE_MIN_MILLIS: i64 = (30_000 - 10_000) * 100 / 101 * 10 / 11;

/// Requests and answers of one timeline of the store.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The jobs of each pair that was acknowledged.
    acknowledged: BTreeMap<usize, Vec<JobId>>,
    submitted: BTreeSet<usize>,
    granted: BTreeSet<Held>,
    /// Fences of a timeline that was given up: nothing may be taken with them.
    void: BTreeSet<Held>,
    applied: BTreeSet<Held>,
    reported: BTreeSet<Held>,
    /// Leases whose workers asked for children, which parks the job also if they never receive the answer.
    parked: BTreeSet<Held>,
    completed: BTreeSet<JobId>,
    /// When each job was last known to be held, in time that has really passed, and by whom.
    seen: BTreeMap<JobId, (Held, i64)>,
    /// Jobs that an operator took from their workers.
    interrupted: BTreeSet<JobId>,
    pub(super) reach: Reach,
}

impl History {
    /// All jobs that a client has seen, in the order of their pairs.
    pub(super) fn jobs(&self) -> Vec<JobId> {
        self.acknowledged.values().flatten().copied().collect()
    }

    pub(super) fn asked(&mut self, request: &Request) {
        match request {
            // It may take effect at any time from now on.
            Request::Suspend(job) | Request::Cancel(job) => drop(self.interrupted.insert(*job)),
            Request::Submit(number) if !self.submitted.insert(*number) => {
                self.reach.count("repeated submission");
            }
            Request::Complete(_, held) | Request::Fail(_, held) if !self.reported.insert(*held) => {
                self.reach.count("repeated outcome");
            }
            Request::Spawn(_, held) => drop(self.parked.insert(*held)),
            _ => {}
        }
    }

    /// Records what a client was answered when so many milliseconds had really passed.
    pub(super) fn answered(
        &mut self,
        request: &Request,
        response: &Response,
        passed: i64,
    ) -> Result<(), String> {
        match (request, response) {
            (Request::Submit(number), Response::Submitted(jobs)) => {
                self.reach.count("acknowledged submission");
                let known = self.acknowledged.insert(*number, jobs.clone());
                if known.as_ref().is_some_and(|known| known != jobs) {
                    return Err(format!("pair {number} was {known:?} and is now {jobs:?}"));
                }
            }
            (Request::Claim(_), Response::Claimed(jobs)) => {
                for held in jobs {
                    self.reach.count("claim");
                    if !self.granted.insert(*held) || self.void.contains(held) {
                        return Err(format!("{held:?} was given out twice"));
                    }
                    if self.completed.contains(&held.job) {
                        return Err(format!("{held:?} was given out after its job was completed"));
                    }
                    self.not_too_early(*held, passed)?;
                }
            }
            (Request::Complete(_, held) | Request::Fail(_, held), Response::Finished(finish)) => {
                self.finished(*held, matches!(request, Request::Complete(..)), finish)?;
            }
            (Request::Heartbeat(_, held) | Request::Spawn(_, held), Response::Goes(true)) => {
                self.is_current(*held)?;
            }
            // The worker was answered that it has lost the job, or reported it: it does not run it any more.
            (Request::Heartbeat(_, held) | Request::Spawn(_, held), Response::Goes(false)) => {
                self.interrupted.insert(held.job);
            }
            _ => {}
        }
        Ok(())
    }

    /// A job whose worker may still run it is not given to another one.
    fn not_too_early(&mut self, held: Held, passed: i64) -> Result<(), String> {
        let before = self.seen.insert(held.job, (held, passed));
        let was_interrupted = self.interrupted.contains(&held.job);
        let may_have_left = |held: &Held| self.reported.contains(held) || self.parked.contains(held);
        if let Some((earlier, since)) = before.filter(|(earlier, _)| !may_have_left(earlier))
            && !was_interrupted
            && passed - since < LEASE_MIN_MILLIS
        {
            let lasted = passed - since;
            return Err(format!("{held:?} was given out {lasted} ms after {earlier:?}, which had not ended"));
        }
        Ok(())
    }

    fn is_current(&self, held: Held) -> Result<(), String> {
        let of_job = (held.job, self.void.contains(&held), self.applied.contains(&held));
        if of_job.1 || of_job.2 {
            return Err(format!("{held:?} was taken, though its attempt is over"));
        }
        Ok(())
    }

    fn finished(&mut self, held: Held, is_completed: bool, finish: &Finish) -> Result<(), String> {
        let Finish::Applied(state) = finish else {
            self.reach.count("stale outcome");
            return Ok(());
        };
        self.reach.count("applied outcome");
        self.is_current(held)?;
        self.applied.insert(held);
        if is_completed && *state == JobState::Completed && !self.completed.insert(held.job) {
            return Err(format!("job {} was completed twice", held.job));
        }
        Ok(())
    }

    /// The database came back as it was when `self` had been recorded so far; `later` is what was recorded until it went away.
    pub(super) fn restored(mut self, later: &History) -> History {
        self.void = later.void.union(&later.granted).copied().collect();
        self.reported.clone_from(&later.reported);
        self.parked.clone_from(&later.parked);
        self.submitted.clone_from(&later.submitted);
        self.reach = later.reach.clone();
        self.granted.clear();
        self.seen.clear();
        self
    }

    /// Holds what is stored at the end against the answers.
    pub(super) fn holds(&self, stored: &[Snapshot]) -> Result<(), String> {
        let by_id: BTreeMap<JobId, &Snapshot> = stored.iter().map(|found| (found.job.id, found)).collect();
        let mut keys = BTreeSet::new();
        for found in stored {
            if let Some(key) = &found.spec.idempotency_key
                && !keys.insert(key)
            {
                return Err(format!("two jobs have key {key}"));
            }
            if !found.job.state.is_final() {
                return Err(format!("job {} has not ended: {:?}, {:?}", found.job.id, found.job, found.why));
            }
        }
        for (number, jobs) in &self.acknowledged {
            for (job, which) in jobs.iter().zip(["first", "second"]) {
                let key = by_id.get(job).and_then(|found| found.spec.idempotency_key.as_deref());
                if key != Some(format!("{number}-{which}").as_str()) {
                    return Err(format!(
                        "job {job} of pair {number} was acknowledged, and is stored with key {key:?}"
                    ));
                }
            }
        }
        for job in &self.completed {
            let state = by_id.get(job).map(|found| found.job.state);
            if state != Some(JobState::Completed) {
                return Err(format!("the completion of job {job} was acknowledged, and it is {state:?}"));
            }
        }
        Ok(())
    }
}
