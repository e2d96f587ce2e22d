//! Invariants between jobs: dependencies, child groups, keys, tenants.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::repair::Defect;
use super::{VerifyCounts, VerifyReport};
use crate::error::StoreError;
use crate::job::{ChildGroup, JobRecord, JobState, Lane, Need, Seq, Wait};
use crate::limits;
use crate::store::command::effects::rate_limit::{KeyBucket, key_bucket_key};
use crate::store::documents::cascade::{self, Cascade};
use crate::store::documents::config::parse;
use crate::store::engine::{ClaimOrder, DocumentKind, Edge, JobDataKind, JobDataQuery, Key, KeyKind, Side};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::read_tx::ReadTx;

pub(super) struct Graph {
    keys: VerifyReport,
    dependencies: VerifyReport,
    groups: VerifyReport,
    tenants: VerifyReport,
    blocked: VerifyReport,
    priorities: VerifyReport,
}

impl Default for Graph {
    fn default() -> Graph {
        Graph {
            keys: VerifyReport::new("keys", "a key in force belongs to the one job that has it"),
            dependencies: VerifyReport::new(
                "dependencies",
                "open dependencies equal a recount, each is known to the job that is waited for, depths grow, limits are kept",
            ),
            groups: VerifyReport::new(
                "children",
                "open and completed children equal a recount, a live parent has all of them, and a decided group waits for \
                 none",
            ),
            tenants: VerifyReport::new("tenants", "no edge and no parent crosses tenants"),
            blocked: VerifyReport::new(
                "concurrency_keys",
                "a blocked job waits for a job that holds its key or is next for it",
            ),
            priorities: VerifyReport::new(
                "priorities",
                "a job that waits for others is as urgent as the most urgent of them",
            ),
        }
    }
}

/// The dependencies and parents of the jobs of a page, read for all of them at once.
pub(super) struct Near {
    edges: FxHashMap<Seq, Vec<Edge>>,
    jobs: FxHashMap<Seq, JobRecord>,
    /// The cascades that propagate the ends of dependencies, as far as they were read.
    cascades: FxHashMap<Seq, Option<Cascade>>,
}

impl Near {
    pub(super) fn load(tx: &mut ReadTx<'_>, page: &[VerifyCounts]) -> Result<Near, StoreError> {
        let waits = |facts: &&VerifyCounts| !facts.spec.after.is_empty() || !facts.spec.after_any.is_empty();
        let waiting: Vec<Seq> = page.iter().filter(waits).map(|facts| facts.job.seq).collect();
        let mut edges: FxHashMap<Seq, Vec<Edge>> = FxHashMap::default();
        let parents = page.iter().filter_map(|facts| Some(facts.job.parent?.seq));
        let mut wanted: BTreeSet<Seq> = parents.collect();
        for edge in tx.db.edges(&waiting, Side::Dependent)? {
            wanted.insert(edge.dependency);
            edges.entry(edge.dependent).or_default().push(edge);
        }
        let (wanted, mut jobs) = (Vec::from_iter(wanted), FxHashMap::default());
        for some in wanted.chunks(limits::VERIFY_PAGE) {
            jobs.extend(tx.db.load(some)?.into_iter().flatten().map(|job| (job.seq, job)));
        }
        Ok(Near { edges, jobs, cascades: FxHashMap::default() })
    }

    /// Whether the end of this job has yet to be propagated along this edge.
    fn covers(&mut self, tx: &mut ReadTx<'_>, edge: &Edge) -> Result<bool, StoreError> {
        if !self.cascades.contains_key(&edge.dependency) {
            let ended = self.jobs.get(&edge.dependency);
            let found = ended.map(|ended| cascade::of_dependents(tx.db, ended)).transpose()?.flatten();
            self.cascades.insert(edge.dependency, found);
        }
        let cascade = self.cascades.get(&edge.dependency).and_then(Option::as_ref);
        Ok(cascade.is_some_and(|cascade| cascade.covers(edge.dependent, edge.need)))
    }
}

impl Graph {
    pub(super) fn reports(self) -> Vec<VerifyReport> {
        vec![self.keys, self.dependencies, self.groups, self.tenants, self.blocked, self.priorities]
    }

    pub(super) fn check(
        &mut self,
        tx: &mut ReadTx<'_>,
        facts: &VerifyCounts,
        near: &mut Near,
    ) -> Result<(), StoreError> {
        let job = &facts.job;
        let say = |finding: String| format!("job {}: {finding}", job.id);
        if facts.spec.unique_key.is_some() {
            self.keys.count_defect(unique_key(tx, facts)?.map(|(finding, defect)| (say(finding), defect)));
        }
        if facts.spec.idempotency_key.is_some() {
            self.keys.count_finding(idempotency_key(tx, facts)?.map(say));
        }
        let has_dependencies = !facts.spec.after.is_empty() || !facts.spec.after_any.is_empty();
        if has_dependencies || job.state == JobState::Pending {
            let finding = inherits_otherwise(tx, facts, near)?;
            let defect = Some(Defect::Priority(job.seq));
            self.priorities.count_defect(finding.map(|text| (say(text), defect)));
            self.check_dependencies(tx, facts, near)?;
        }
        let waits_for_group = job.details.wait.as_ref().is_some_and(|wait| wait.groups().next().is_some());
        if job.has.children || waits_for_group {
            self.check_groups(tx, job)?;
        }
        if let Some(parent) = job.parent
            && let Some(found) = near.jobs.get(&parent.seq)
        {
            let crosses = found.lane.tenant != job.lane.tenant || found.id != parent.id;
            let is_unknown = !found.has.children;
            // Without its group the parent could do nothing with the child.
            let has_group = is_unknown && !crosses && has_group(tx, parent.seq, parent.group)?;
            self.groups.count_defect(is_unknown.then(|| {
                let text = say(format!("its parent {} knows of no child", found.id));
                (text, has_group.then_some(Defect::Marks(parent.seq)))
            }));
            self.tenants.count_finding(crosses.then(|| say(format!("its parent is {}", found.id))));
            if found.state == JobState::Cancelled && !job.state.is_final() {
                let is_left = !cascade::cancels(tx.db, found, job.seq)?;
                self.groups.count_finding(is_left.then(|| {
                    say(format!("its parent {} was cancelled, and nothing is left that cancels it", found.id))
                }));
            }
        }
        if job.is_blocked {
            let finding = set_aside_for_no_limit(tx, job)?;
            self.blocked.count_defect(finding.map(|text| (say(text), Some(Defect::Blocked(job.seq)))));
        }
        Ok(())
    }

    fn check_dependencies(
        &mut self,
        tx: &mut ReadTx<'_>,
        facts: &VerifyCounts,
        near: &mut Near,
    ) -> Result<(), StoreError> {
        let job = &facts.job;
        let edges = near.edges.remove(&job.seq).unwrap_or_default();
        let any_kept = edges.iter().filter(|edge| edge.need == Need::AfterAny).count();
        // A dependency that was pruned or deleted took its edge along; it had ended, and was counted when it did.
        let (mut after_open, mut any_ended) = (0, facts.spec.after_any.len() > any_kept);
        let mut is_derivable = !job.state.is_final();
        for edge in &edges {
            let Some(dependency) = near.jobs.get(&edge.dependency).cloned() else {
                let finding = format!("job {}: waits for a job that does not exist", job.id);
                self.dependencies.count_finding(Some(finding));
                is_derivable = false;
                continue;
            };
            let crosses = dependency.lane.tenant != job.lane.tenant;
            self.tenants
                .count_finding(crosses.then(|| format!("job {}: waits for {}", job.id, dependency.id)));
            let is_final = dependency.state.is_final();
            // Its end would not be propagated.
            let is_unknown = !is_final && !dependency.has.dependents;
            self.dependencies.count_defect(is_unknown.then(|| {
                let text =
                    format!("job {}: waits for {}, which knows of no dependent", job.id, dependency.id);
                (text, Some(Defect::Marks(dependency.seq)))
            }));
            let is_notified = is_final && (job.state.is_final() || !near.covers(tx, edge)?);
            after_open += u32::from(
                edge.need == Need::After && !(is_notified && dependency.state == JobState::Completed),
            );
            any_ended |= edge.need == Need::AfterAny && is_notified;
            let is_missed = is_notified
                && !job.state.is_final()
                && match edge.need {
                    Need::After => dependency.state != JobState::Completed,
                    Need::AfterAny => job.any_unmet,
                };
            let defect = is_derivable.then_some(Defect::Dependencies(job.seq));
            self.dependencies.count_defect(is_missed.then(|| {
                let JobRecord { id, state, .. } = &dependency;
                (format!("job {}: still waits for {id}, which is {state}", job.id), defect)
            }));
            if dependency.depth >= job.depth {
                let finding =
                    format!("job {}: is not deeper than {}, which it waits for", job.id, dependency.id);
                self.dependencies.count_finding(Some(finding));
            }
        }
        let is_live = !job.state.is_final();
        let any_open = any_kept > 0 && !any_ended;
        let differs = is_live && (after_open != job.after_unmet || (any_open && !job.any_unmet));
        let is_stuck = job.state == JobState::Pending && !differs && !job.has_unmet_dependencies();
        self.dependencies.count_defect(is_stuck.then(|| {
            let defect = is_derivable.then_some(Defect::Dependencies(job.seq));
            (format!("job {}: is pending without an open dependency", job.id), defect)
        }));
        let too_many = edges.len() > limits::DEPENDENCIES_MAX || job.depth > limits::DEPENDENCY_DEPTH_MAX;
        self.dependencies.count_defect((differs || too_many).then(|| {
            let text = format!(
                "job {}: says {} open and any {}, found {after_open} and {any_open}",
                job.id, job.after_unmet, job.any_unmet
            );
            (text, (is_derivable && !too_many).then_some(Defect::Dependencies(job.seq)))
        }));
        Ok(())
    }

    fn check_groups(&mut self, tx: &mut ReadTx<'_>, job: &JobRecord) -> Result<(), StoreError> {
        let limit = usize::try_from(limits::CHILD_GROUPS_MAX).unwrap_or(usize::MAX);
        let query = JobDataQuery { seq: job.seq, kind: JobDataKind::Group, name: None, above: None, limit };
        let mut missing: BTreeSet<u64> = job.details.wait.iter().flat_map(Wait::groups).collect();
        for data in tx.db.job_data(query)? {
            missing.remove(&data.number);
            let group: ChildGroup = parse(&data.body)?;
            let found = count_children(tx, job, data.number)?;
            let waits = job.details.wait.as_ref().is_some_and(|wait| wait.is_for_group(data.number));
            let is_stuck = group.decided.is_some() && waits;
            let defect = Defect::Group { parent: job.seq, number: data.number };
            let defect = found.is_complete(&group).then_some(defect);
            let say = |finding: String| {
                (format!("job {}: group {} {finding}", job.id, data.number), defect.clone())
            };
            let differs = found.differ_from(&group, job.state.is_final());
            let is_undecided = differs.is_none() && group.lacks_decision();
            self.groups.count_defect(differs.map(say));
            self.groups
                .count_defect(is_undecided.then(|| say("is not decided, although its children are".into())));
            self.groups
                .count_defect(is_stuck.then(|| say("is decided, and its parent still waits for it".into())));
        }
        for number in missing {
            let text = format!("job {}: waits for group {number}, which does not exist", job.id);
            self.groups.count_finding(Some(text));
        }
        Ok(())
    }
}

/// The actual children of one group.
#[derive(Default)]
pub(crate) struct Recount {
    pub(crate) open: u32,
    pub(crate) completed: u32,
    /// The input positions of the stored children.
    places: BTreeSet<u32>,
    stored: u32,
}

impl Recount {
    fn add(&mut self, child: &JobRecord) {
        self.open += u32::from(!child.state.is_final());
        self.completed += u32::from(child.state == JobState::Completed);
        self.places.extend(child.parent.map(|parent| parent.index));
        self.stored += 1;
    }

    /// Whether all children of the group are stored, each in its place.
    pub(crate) fn is_complete(&self, group: &ChildGroup) -> bool {
        let is_last = |place: &u32| place + 1 == group.total;
        self.stored == group.total
            && u32::try_from(self.places.len()) == Ok(group.total)
            && self.places.last().is_none_or(is_last)
    }

    /// How the group's own numbers differ from it. Children may be deleted once their parent has ended, not before.
    fn differ_from(&self, group: &ChildGroup, is_parent_final: bool) -> Option<String> {
        let ChildGroup { total, open, completed, .. } = *group;
        let distinct = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        if distinct != self.stored || self.places.last().is_some_and(|last| *last >= total) {
            return Some(format!("has {} children at {distinct} places of {total}", self.stored));
        }
        if !is_parent_final && self.stored != total {
            let missing = (0..total).find(|place| !self.places.contains(place)).unwrap_or(0);
            return Some(format!("has {} of {total} children: child {missing} is missing", self.stored));
        }
        if self.open != open {
            return Some(format!("says {open} open, found {}", self.open));
        }
        let gone = total - self.stored;
        let is_sound = (self.completed..=self.completed.saturating_add(gone)).contains(&completed);
        (!is_sound).then(|| format!("says {completed} completed, found {}", self.completed))
    }
}

/// Counts the children of one group.
pub(crate) fn count_children(
    tx: &mut ReadTx<'_>,
    parent: &JobRecord,
    group: u64,
) -> Result<Recount, StoreError> {
    let (mut found, mut after) = (Recount::default(), None);
    loop {
        let filter = Filter { parent: Some(parent.id), ..Filter::default() };
        let scan = Scan { filter, order: Order::Oldest, after, limit: limits::VERIFY_PAGE };
        let page = tx.db.scan(&scan)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(ClaimOrder::new(last));
        for child in page.iter().filter(|child| child.parent.is_some_and(|found| found.group == group)) {
            found.add(child);
        }
    }
}

fn key(kind: KeyKind, lane: &Lane, text: &str) -> Key {
    Key { kind, tenant: lane.tenant.clone(), job_type: lane.job_type.clone(), text: text.to_owned() }
}

fn has_group(tx: &mut ReadTx<'_>, seq: Seq, group: u64) -> Result<bool, StoreError> {
    let above = group.checked_sub(1);
    let query = JobDataQuery { seq, kind: JobDataKind::Group, name: None, above, limit: 1 };
    Ok(tx.db.job_data(query)?.first().is_some_and(|found| found.number == group))
}

/// How the priority that a job inherits differs from that of all its dependencies, unless a change is still on its way.
fn inherits_otherwise(
    tx: &mut ReadTx<'_>,
    VerifyCounts { job, spec, .. }: &VerifyCounts,
    near: &mut Near,
) -> Result<Option<String>, StoreError> {
    let edges = near.edges.get(&job.seq).cloned().unwrap_or_default();
    // What was removed may have been more urgent.
    let is_whole = edges.len() == spec.after.len() + spec.after_any.len();
    if job.state.is_final() || !job.has_unmet_dependencies() || !is_whole {
        return Ok(None);
    }
    let found: Vec<JobRecord> =
        edges.iter().filter_map(|edge| near.jobs.get(&edge.dependency).cloned()).collect();
    let most = found.iter().map(JobRecord::effective_priority).max();
    if found.len() < edges.len() || most == Some(job.inherited) {
        return Ok(None);
    }
    for (edge, dependency) in edges.iter().zip(&found) {
        if cascade::propagates_priority(tx.db, dependency)? || near.covers(tx, edge)? {
            return Ok(None);
        }
    }
    let inherited = job.inherited;
    Ok(most.map(|most| format!("inherits priority {inherited}, the jobs it waits for have {most}")))
}

type Finding = Option<(String, Option<Defect>)>;

fn unique_key(tx: &mut ReadTx<'_>, facts: &VerifyCounts) -> Result<Finding, StoreError> {
    let text = facts.spec.unique_key.as_deref().unwrap_or_default();
    let (seq, key) = (facts.job.seq, key(KeyKind::Unique, &facts.job.lane, text));
    let holder = tx.db.keyed(std::slice::from_ref(&key))?.pop().flatten();
    let is_own = holder.is_some_and(|holder| holder.seq == seq);
    if facts.job.state.is_final() {
        return Ok(is_own.then(|| ("has ended, and still holds its unique key".to_owned(), None)));
    }
    if is_own {
        return Ok(None);
    }
    let other = holder.map(|holder| tx.db.load(&[holder.seq])).transpose()?.and_then(|mut found| found.pop());
    let is_free = other.flatten().is_none_or(|other| other.state.is_final());
    let text = format!("does not hold its unique key, {holder:?} does");
    Ok(Some((text, is_free.then_some(Defect::UniqueKey { seq, key }))))
}

fn idempotency_key(tx: &mut ReadTx<'_>, facts: &VerifyCounts) -> Result<Option<String>, StoreError> {
    let text = facts.spec.idempotency_key.as_deref().unwrap_or_default();
    let holder = tx.db.keyed(&[key(KeyKind::Idempotency, &facts.job.lane, text)])?.pop().flatten();
    if holder.is_some_and(|holder| holder.seq == facts.job.seq && holder.removed().is_some()) {
        return Ok(Some("its idempotency key says that it was deleted".into()));
    }
    // Once the window was over a later job may have taken the key, and if that job was removed the key is free; an
    // earlier job never holds it.
    let is_sound = holder.is_none_or(|holder| holder.seq >= facts.job.seq);
    Ok((!is_sound).then(|| format!("its idempotency key is held by {holder:?}")))
}

/// Why a blocked job should not be.
pub(crate) fn set_aside_for_no_limit(
    tx: &mut ReadTx<'_>,
    job: &JobRecord,
) -> Result<Option<String>, StoreError> {
    let Some(key) = job.concurrency else { return Ok(Some("is blocked without a key".into())) };
    for (states, is_blocked) in [(JobState::Running, None), (JobState::Scheduled, Some(false))] {
        let filter = Filter { concurrency: Some(key), states: vec![states], is_blocked, ..Filter::default() };
        let scan = Scan { filter, order: Order::Oldest, after: None, limit: 1 };
        if !tx.db.scan(&scan)?.is_empty() {
            return Ok(None);
        }
    }
    let bucket = tx.db.document(DocumentKind::Bucket, &key_bucket_key(&job.lane.queue, key))?;
    let bucket: Option<KeyBucket> = bucket.map(|document| parse(&document.body)).transpose()?;
    let waits_for_token = bucket.is_some_and(|bucket| bucket.has_waiting);
    Ok((!waits_for_token).then(|| "is blocked on a key that no job holds".into()))
}
