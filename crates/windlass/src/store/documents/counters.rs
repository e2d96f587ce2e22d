//! Job counts per state, by lane and by every scope that a limit applies to. Updated in the commit of every change, so
//! that no query for counts scans jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::job::{JobState, JobType, Lane, QueueName, Tenant};
use crate::store::filter::Filter;

/// The scope of a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitScope {
    /// A queue, of one tenant or of all.
    Queue(QueueName, Option<Tenant>),
    /// A type.
    Type(JobType),
    /// A tenant.
    Tenant(Tenant),
}

impl LimitScope {
    /// The scopes that contain a lane. Internal lanes do not count for their tenant.
    fn for_lane(lane: &Lane) -> impl Iterator<Item = LimitScope> {
        let tenant = (!lane.is_internal()).then(|| LimitScope::Tenant(lane.tenant.clone()));
        let others = [
            LimitScope::Queue(lane.queue.clone(), None),
            LimitScope::Queue(lane.queue.clone(), Some(lane.tenant.clone())),
            LimitScope::Type(lane.job_type.clone()),
        ];
        others.into_iter().chain(tenant)
    }
}

impl LimitScope {
    /// The document key of this scope's rate limit usage.
    pub(crate) fn bucket_key(&self) -> String {
        match self {
            LimitScope::Queue(queue, None) => format!("queue {queue}"),
            LimitScope::Queue(queue, Some(tenant)) => format!("queue {queue} {tenant}"),
            LimitScope::Type(job_type) => format!("type {job_type}"),
            LimitScope::Tenant(tenant) => format!("tenant {tenant}"),
        }
    }
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitScope::Queue(queue, _) => write!(f, "queue {queue}"),
            LimitScope::Type(job_type) => write!(f, "type {job_type}"),
            LimitScope::Tenant(tenant) => write!(f, "tenant {tenant}"),
        }
    }
}

/// Counts, indexed by the state's position in [`JobState::ALL`].
pub type StateCounts = [u64; 12];

/// Job counts per state, by lane; kept exact in the commit of every change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Per lane.
    pub lanes: BTreeMap<Arc<Lane>, StateCounts>,
    /// Sums per scope: every claim and submission under a limit reads them, however many lanes there are.
    parts: BTreeMap<LimitScope, StateCounts>,
    /// The number of lanes per tenant, queue and type; gives the number of queues and types.
    names: BTreeMap<Tenant, Names>,
}

/// The queues and types of a tenant's jobs, each with its number of lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Names {
    lanes: u64,
    queues: BTreeMap<QueueName, u64>,
    types: BTreeMap<JobType, u64>,
}

/// Adds a lane to a name's count, or removes one.
fn move_lane<N: Ord + Clone>(names: &mut BTreeMap<N, u64>, name: &N, is_new: bool) {
    if is_new {
        *names.entry(name.clone()).or_default() += 1;
    } else if let Some(lanes) = names.get_mut(name) {
        *lanes -= 1;
        if *lanes == 0 {
            names.remove(name);
        }
    }
}

impl Counts {
    /// Changes a count; removes a lane that becomes empty.
    pub fn add(&mut self, lane: &Arc<Lane>, state: JobState, by: i64) {
        let mut is_new = false;
        let own = self.lanes.entry(lane.clone()).or_insert_with(|| {
            is_new = true;
            StateCounts::default()
        });
        let is_empty = move_count(own, state, by);
        if is_empty {
            self.lanes.remove(lane);
        }
        if is_new != is_empty {
            self.move_names(lane, is_new);
        }
        for part in LimitScope::for_lane(lane) {
            if move_count(self.parts.entry(part.clone()).or_default(), state, by) {
                self.parts.remove(&part);
            }
        }
    }

    fn move_names(&mut self, lane: &Lane, is_new: bool) {
        let names = self.names.entry(lane.tenant.clone()).or_default();
        names.lanes = names.lanes.saturating_add_signed(if is_new { 1 } else { -1 });
        move_lane(&mut names.queues, &lane.queue, is_new);
        move_lane(&mut names.types, &lane.job_type, is_new);
        if names.queues.is_empty() {
            self.names.remove(&lane.tenant);
        }
    }

    /// How many queues of a tenant have jobs.
    pub fn queues_of(&self, tenant: &Tenant) -> u64 {
        self.names.get(tenant).map_or(0, |names| names.queues.len() as u64)
    }

    /// How many types of a tenant have jobs.
    pub fn types_of(&self, tenant: &Tenant) -> u64 {
        self.names.get(tenant).map_or(0, |names| names.types.len() as u64)
    }

    /// How many lanes of a tenant have jobs.
    pub fn lanes_of(&self, tenant: &Tenant) -> u64 {
        self.names.get(tenant).map_or(0, |names| names.lanes)
    }

    /// Whether a tenant has jobs in this queue, and of this type.
    pub fn has_names(&self, lane: &Lane) -> (bool, bool) {
        let names = self.names.get(&lane.tenant);
        names.map_or((false, false), |names| {
            (names.queues.contains_key(&lane.queue), names.types.contains_key(&lane.job_type))
        })
    }

    /// How many jobs of the matching lanes are in `state`.
    pub fn sum(&self, state: JobState, fits: impl Fn(&Lane) -> bool) -> u64 {
        self.lanes.iter().filter(|(lane, _)| fits(lane)).map(|(_, counts)| counts[state as usize]).sum()
    }

    /// How many jobs match a filter; `None` if it uses more than lanes and states.
    pub(crate) fn fitting(&self, filter: &Filter) -> Option<u64> {
        let Filter { tenant, states, job_type, queue, .. } = filter.clone();
        let counted = Filter { tenant, states, job_type, queue, ..Filter::default() };
        (counted == *filter).then(|| self.at_most(filter))
    }

    /// How many jobs are in the lanes and states of a filter, ignoring its other conditions.
    pub(crate) fn at_most(&self, filter: &Filter) -> u64 {
        let is_asked = |state: &JobState| filter.states.is_empty() || filter.states.contains(state);
        let states = JobState::ALL.into_iter().filter(is_asked);
        states.map(|state| self.sum(state, |lane| filter.fits_lane(lane))).sum()
    }

    /// Job counts per state of a scope.
    pub fn states(&self, part: &LimitScope) -> StateCounts {
        self.parts.get(part).copied().unwrap_or_default()
    }

    /// How many jobs of a scope are running.
    pub fn running(&self, part: &LimitScope) -> u64 {
        self.parts.get(part).map_or(0, |counts| counts[JobState::Running as usize])
    }

    /// How many jobs of a scope are not final.
    pub fn depth(&self, part: &LimitScope) -> u64 {
        let open = JobState::ALL.into_iter().filter(|state| !state.is_final());
        self.parts.get(part).map_or(0, |counts| open.map(|state| counts[state as usize]).sum())
    }
}

/// Changes one count; returns whether all counts are zero then.
fn move_count(counts: &mut StateCounts, state: JobState, by: i64) -> bool {
    let slot = &mut counts[state as usize];
    *slot = slot.saturating_add_signed(by);
    counts.iter().all(|count| *count == 0)
}

/// A change of a count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountChange {
    /// The lane.
    pub lane: Arc<Lane>,
    /// The state.
    pub state: JobState,
    /// The difference.
    pub by: i64,
}

/// Changes of counts. Lanes are compared by pointer, which is fast; two equal lanes are just counted separately.
#[derive(Default)]
pub(crate) struct CountChanges(FxHashMap<(usize, JobState), (Arc<Lane>, i64)>);

impl CountChanges {
    pub(crate) fn add(&mut self, lane: &Arc<Lane>, state: JobState, by: i64) {
        let place = Arc::as_ptr(lane) as usize;
        self.0.entry((place, state)).or_insert_with(|| (lane.clone(), 0)).1 += by;
    }

    pub(crate) fn into_changes(self) -> Vec<CountChange> {
        let moved = self.0.into_iter().filter(|(_, (_, by))| *by != 0);
        let mut changes: Vec<CountChange> =
            moved.map(|((_, state), (lane, by))| CountChange { lane, state, by }).collect();
        changes.sort_unstable_by(|a, b| (&a.lane, a.state, a.by).cmp(&(&b.lane, b.state, b.by)));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_sums_of_their_lanes() {
        let name = |text: &str| Tenant::new(text).unwrap();
        let (queue, kind) = (QueueName::new("mail").unwrap(), JobType::new("send").unwrap());
        let lane = |tenant: &str| Arc::new(Lane::new(name(tenant), queue.clone(), kind.clone()));
        let mut counts = Counts::default();
        counts.add(&lane("a"), JobState::Running, 2);
        counts.add(&lane("b"), JobState::Running, 3);
        counts.add(&lane("b"), JobState::Completed, 4);
        counts.add(&lane("b"), JobState::Created, 5);
        let (all, own) =
            (LimitScope::Queue(queue.clone(), None), LimitScope::Queue(queue.clone(), Some(name("b"))));
        assert_eq!((counts.running(&all), counts.depth(&all)), (5, 10));
        assert_eq!((counts.queues_of(&name("b")), counts.types_of(&name("b"))), (1, 1));
        assert_eq!((counts.lanes_of(&name("b")), counts.lanes_of(&name("c"))), (1, 0));
        assert_eq!((counts.queues_of(&name("c")), counts.has_names(&lane("c"))), (0, (false, false)));
        assert_eq!((counts.running(&own), counts.depth(&own)), (3, 8));
        assert_eq!(counts.running(&LimitScope::Type(kind.clone())), 5);
        assert_eq!(counts.depth(&LimitScope::Tenant(name("a"))), 2);
        counts.add(&lane("a"), JobState::Running, -2);
        for (state, by) in [(JobState::Running, -3), (JobState::Completed, -4), (JobState::Created, -5)] {
            counts.add(&lane("b"), state, by);
        }
        assert_eq!(counts, Counts::default(), "nothing is left of what became empty");
    }
}
