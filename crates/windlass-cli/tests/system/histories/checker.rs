//! Decides from a history whether the guarantees held. It does not know the faults: a call without an answer may have
//! happened at any time after it was made, or never.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use windlass::job::Fence;

use super::history::{Answer, Call, Lease, Micros, Op, Outcome};
use super::{LIMITED, ORDERED};

/// Everything that is wrong, in words.
pub(super) fn check(outcome: &Outcome) -> Vec<String> {
    let view = View::new(outcome);
    let mut found = Vec::new();
    view.acknowledged_jobs_exist(&mut found);
    view.a_key_is_one_job(&mut found);
    view.one_lease_at_a_time(&mut found);
    view.one_outcome(&mut found);
    view.stale_fences_are_refused(&mut found);
    view.generations_follow_one_another(&mut found);
    view.the_limit_is_kept(&mut found);
    view.a_lane_is_in_order(&mut found);
    view.children_are_spawned_once(&mut found);
    view.ticks_come_once(&mut found);
    view.the_audit_trail_is_complete(&mut found);
    found
}

/// What a history must hold, so that nothing passes because nothing happened.
pub(super) fn missing(outcome: &Outcome) -> Vec<String> {
    let count = |is_it: &dyn Fn(&Op) -> bool| outcome.ops.iter().filter(|op| is_it(op)).count();
    let claimed = |queue: &'static str| {
        let of = move |answer: &Answer| match answer {
            Answer::Claimed(leases) => leases.iter().any(|lease| lease.queue == queue),
            _ => false,
        };
        count(&|op| of(&op.answer))
    };
    let mut keys = HashSet::new();
    let is_repeated = |op: &&Op| matches!(&op.call, Call::Submit { key, .. } if !keys.insert(key.clone()));
    let seen = [
        ("submissions", count(&|op| matches!(op.answer, Answer::Submitted { .. })), 100),
        ("repeated submissions", outcome.ops.iter().filter(is_repeated).count(), 5),
        ("claims of the limited queue", claimed(LIMITED), 10),
        ("claims of the ordered queue", claimed(ORDERED), 10),
        ("groups", count(&|op| matches!(op.answer, Answer::Spawned { .. })), 3),
        ("completions", count(&|op| op.answer == Answer::Applied), 50),
        ("calls without an answer", count(&|op| op.answer == Answer::Unknown), 5),
        ("ticks", outcome.jobs.iter().filter(|job| job.is_tick).count(), 10),
    ];
    let few = seen.into_iter().filter(|(_, count, wanted)| count < wanted);
    few.map(|(what, count, wanted)| format!("{count} {what}; a history needs {wanted}")).collect()
}

/// A lease that was given out.
#[derive(Clone, Copy)]
struct Given<'a> {
    lease: &'a Lease,
    claim: &'a Op,
}

struct View<'a> {
    outcome: &'a Outcome,
    /// By job, in the order of fences.
    given: BTreeMap<&'a str, Vec<Given<'a>>>,
    /// Reports and groups, by job and fence, in the order in which they were sent.
    ends: HashMap<(&'a str, u64), Vec<&'a Op>>,
    generations: BTreeMap<u64, Generation>,
}

/// When a generation of the store was in force for certain. A new one, as after a failover, ends all leases of earlier ones.
#[derive(Clone, Copy)]
struct Generation {
    /// It had begun by then.
    by: Micros,
    /// It was not over before.
    until: Micros,
}

fn generation(fence: u64) -> u64 {
    Fence(fence).generation()
}

impl<'a> View<'a> {
    fn new(outcome: &'a Outcome) -> View<'a> {
        let mut view =
            View { outcome, given: BTreeMap::new(), ends: HashMap::new(), generations: BTreeMap::new() };
        for op in &outcome.ops {
            if let Answer::Claimed(leases) = &op.answer {
                for lease in leases {
                    view.was_in_force(generation(lease.fence), op);
                    view.given.entry(&lease.job).or_default().push(Given { lease, claim: op });
                }
            }
            if let Call::Finish { job, fence, .. } | Call::Spawn { job, fence } = &op.call {
                view.ends.entry((job, *fence)).or_default().push(op);
                // That a group is known is an answer of any generation.
                if op.answer == Answer::Applied {
                    view.was_in_force(generation(*fence), op);
                }
            }
        }
        view.given.values_mut().for_each(|given| given.sort_by_key(|given| given.lease.fence));
        view.ends.values_mut().for_each(|ops| ops.sort_by_key(|op| op.invoked));
        view
    }

    fn was_in_force(&mut self, generation: u64, op: &Op) {
        let seen =
            self.generations.entry(generation).or_insert(Generation { by: op.ended, until: op.invoked });
        *seen = Generation { by: seen.by.min(op.ended), until: seen.until.max(op.invoked) };
    }

    /// When a lease may have ended at the earliest: with its first report, with its time, or with its generation.
    fn earliest_end(&self, given: Given<'_>) -> Micros {
        let own = generation(given.lease.fence);
        let is_last = self.generations.last_key_value().is_none_or(|(last, _)| *last == own);
        let until = self.generations.get(&own).filter(|_| !is_last).map_or(Micros::MAX, |seen| seen.until);
        let lease = until.min(given.claim.invoked + self.outcome.lease);
        let reported =
            self.ends.get(&(given.lease.job.as_str(), given.lease.fence)).map(|ops| ops[0].invoked);
        reported.map_or(lease, |reported| reported.min(lease))
    }

    fn acknowledged_jobs_exist(&self, found: &mut Vec<String>) {
        let states: HashMap<&str, &str> =
            self.outcome.jobs.iter().map(|job| (job.id.as_str(), job.state.as_str())).collect();
        for op in &self.outcome.ops {
            let jobs: Vec<&String> = match &op.answer {
                Answer::Submitted { job } => vec![job],
                Answer::Spawned { children } => children.iter().collect(),
                Answer::Claimed(leases) => leases.iter().map(|lease| &lease.job).collect(),
                _ => Vec::new(),
            };
            for job in jobs {
                match states.get(job.as_str()) {
                    None => found.push(format!("lost: job {job}, acknowledged by {op:?}")),
                    Some(&("completed" | "failed" | "dead_letter" | "cancelled")) => {}
                    Some(state) => found.push(format!("job {job} never ended: {state}")),
                }
            }
            if let (Call::Finish { job, is_completed: true, .. }, Answer::Applied) = (&op.call, &op.answer)
                && states.get(job.as_str()) != Some(&"completed")
            {
                found.push(format!(
                    "the completion of {job} was applied, but it is {:?}",
                    states.get(job.as_str())
                ));
            }
        }
    }

    fn a_key_is_one_job(&self, found: &mut Vec<String>) {
        let mut by_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for op in &self.outcome.ops {
            if let (Call::Submit { key, .. }, Answer::Submitted { job }) = (&op.call, &op.answer) {
                by_key.entry(key).or_default().insert(job);
            }
        }
        for job in &self.outcome.jobs {
            if let Some(key) = &job.key {
                by_key.entry(key).or_default().insert(&job.id);
            }
        }
        for (key, jobs) in by_key.iter().filter(|(_, jobs)| jobs.len() > 1) {
            found.push(format!("the key {key} is several jobs: {jobs:?}"));
        }
    }

    fn one_lease_at_a_time(&self, found: &mut Vec<String>) {
        for (job, given) in &self.given {
            for (earlier, later) in given.iter().zip(given.iter().skip(1)) {
                if earlier.lease.fence == later.lease.fence {
                    found.push(format!("job {job} was given out twice with fence {}", later.lease.fence));
                } else if later.claim.ended < earlier.claim.invoked {
                    found.push(format!("the fences of job {job} go back: {}", later.lease.fence));
                } else if later.claim.ended < self.earliest_end(*earlier) {
                    found.push(format!("job {job} has two leases at {}", later.claim.ended));
                }
            }
        }
    }

    fn one_outcome(&self, found: &mut Vec<String>) {
        let mut completed: HashMap<&str, &Op> = HashMap::new();
        let mut applied: HashSet<(&str, u64)> = HashSet::new();
        for op in self.outcome.ops.iter().filter(|op| op.answer == Answer::Applied) {
            let Call::Finish { job, fence, is_completed } = &op.call else { continue };
            if !applied.insert((job, *fence)) {
                found.push(format!("two reports on job {job} with fence {fence} were applied"));
            }
            if *is_completed && completed.insert(job, op).is_some() {
                found.push(format!("job {job} was completed twice"));
            }
        }
        for (job, op) in completed {
            for given in self.given.get(job).into_iter().flatten() {
                if given.claim.invoked > op.ended {
                    found.push(format!("job {job} was given out after its completion"));
                }
            }
        }
    }

    fn stale_fences_are_refused(&self, found: &mut Vec<String>) {
        for op in &self.outcome.ops {
            let (Call::Finish { job, fence, .. } | Call::Spawn { job, fence }) = &op.call else { continue };
            if !matches!(op.answer, Answer::Applied | Answer::Spawned { .. }) {
                continue;
            }
            for later in self.given.get(job.as_str()).into_iter().flatten() {
                if later.lease.fence > *fence && later.claim.ended < op.invoked {
                    found.push(format!("job {job}: a report with the old fence {fence} was applied"));
                }
            }
        }
    }

    /// Once a lease of a generation was given out, nothing is given out or taken with an earlier one.
    fn generations_follow_one_another(&self, found: &mut Vec<String>) {
        for ((earlier, before), (later, after)) in
            self.generations.iter().zip(self.generations.iter().skip(1))
        {
            if before.until > after.by {
                found.push(format!("generation {earlier} was in force after generation {later} had begun"));
            }
        }
    }

    /// How many jobs of the limited queue were running for certain.
    fn the_limit_is_kept(&self, found: &mut Vec<String>) {
        let mut steps: Vec<(Micros, i64)> = Vec::new();
        for given in self.given.values().flatten().filter(|given| given.lease.queue == LIMITED) {
            let (from, until) = (given.claim.ended, self.earliest_end(*given));
            if from < until {
                steps.extend([(from, 1), (until, -1)]);
            }
        }
        // An end at the same moment comes first.
        steps.sort_unstable();
        let mut running = 0;
        for (at, step) in steps {
            running += step;
            if usize::try_from(running).unwrap_or(0) > self.outcome.limit {
                found.push(format!("{running} jobs of {LIMITED} ran at {at}"));
            }
        }
    }

    /// A claim gets the oldest job: no job is passed by one that was submitted after it had been acknowledged.
    fn a_lane_is_in_order(&self, found: &mut Vec<String>) {
        let mut submitted: Vec<(&str, Micros, Micros)> = Vec::new();
        let mut first_invoked: HashMap<&str, Micros> = HashMap::new();
        for op in &self.outcome.ops {
            let Call::Submit { key, queue } = &op.call else { continue };
            let first = first_invoked.entry(key).or_insert(op.invoked);
            *first = (*first).min(op.invoked);
            if let (ORDERED, Answer::Submitted { job }) = (queue.as_str(), &op.answer) {
                submitted.push((job, first_invoked[key.as_str()], op.ended));
            }
        }
        let claims: Vec<&Op> = self
            .outcome
            .ops
            .iter()
            .filter(|op| matches!(&op.call, Call::Claim { queue } if queue == ORDERED))
            .collect();
        for claim in &claims {
            let Answer::Claimed(leases) = &claim.answer else { continue };
            for lease in leases.iter().filter(|lease| lease.attempt == 1) {
                let Some(taken) = submitted.iter().find(|(job, ..)| *job == lease.job) else { continue };
                for (job, invoked, acknowledged) in &submitted {
                    let is_before = *acknowledged < taken.1 && *acknowledged < claim.invoked;
                    if is_before && !self.may_be_claimed(&claims, job, *invoked, claim.ended) {
                        found.push(format!("{ORDERED}: job {} was claimed before {job}", lease.job));
                    }
                }
            }
        }
    }

    /// Whether the job was claimed by then, or by a claim without an answer.
    fn may_be_claimed(&self, claims: &[&Op], job: &str, submitted: Micros, by: Micros) -> bool {
        let given = self.given.get(job).into_iter().flatten().any(|given| given.claim.invoked <= by);
        given
            || claims.iter().any(|op| {
                op.answer == Answer::Unknown && op.invoked <= by && op.ended + self.outcome.lease > submitted
            })
    }

    fn children_are_spawned_once(&self, found: &mut Vec<String>) {
        let mut by_parent: BTreeMap<&str, BTreeSet<&Vec<String>>> = BTreeMap::new();
        for op in &self.outcome.ops {
            if let (Call::Spawn { job, .. }, Answer::Spawned { children }) = (&op.call, &op.answer) {
                by_parent.entry(job).or_default().insert(children);
            }
        }
        for (job, groups) in &by_parent {
            if groups.len() > 1 {
                found.push(format!("the group of job {job} was spawned several times: {groups:?}"));
            }
            let woken = self.records(job, "job.ops.woken");
            if woken != 1 {
                found.push(format!("parent {job} was resumed {woken} times"));
            }
        }
    }

    fn records(&self, job: &str, event: &str) -> usize {
        let is_it = |job_found: &Option<String>| job_found.as_deref() == Some(job);
        self.outcome.records.iter().filter(|record| record.event == event && is_it(&record.job)).count()
    }

    /// The schedule catches up on all it missed: there is one job for each tick.
    fn ticks_come_once(&self, found: &mut Vec<String>) {
        let mut ticks: Vec<i64> =
            self.outcome.jobs.iter().filter(|job| job.is_tick).map(|job| job.run_at).collect();
        ticks.sort_unstable();
        for pair in ticks.windows(2) {
            if pair[1] - pair[0] != self.outcome.tick_every {
                found.push(format!("ticks at {} and {}", pair[0], pair[1]));
            }
        }
    }

    fn the_audit_trail_is_complete(&self, found: &mut Vec<String>) {
        for pair in self.outcome.records.windows(2) {
            if pair[1].number != pair[0].number + 1 {
                found.push(format!("audit record {} follows {}", pair[1].number, pair[0].number));
            }
        }
        let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
        for record in &self.outcome.records {
            if let Some(job) = &record.job {
                *counts.entry((job, &record.event)).or_default() += 1;
            }
        }
        let mut expect = |job: &str, event: &str, wanted: usize| {
            let count = counts.get(&(job, event)).copied().unwrap_or(0);
            if count != wanted {
                found.push(format!("job {job} has {count} audit records {event} instead of {wanted}"));
            }
        };
        for job in self.outcome.jobs.iter().filter(|job| !job.is_tick) {
            expect(&job.id, "job.lifecycle.submitted", 1);
            expect(&job.id, "job.lifecycle.completed", usize::from(job.state == "completed"));
        }
    }
}
