//! Submitting: one job or a whole graph, all or nothing (M63). Everything that can be refused is refused before the first
//! job is added.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::record::Cause;
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::{Invalid, Problem, SubmitError};
use crate::job::{
    ConcurrencyKey, Dependency, Details, Event, Has, Job, JobId, Lane, Need, NewJob, Parent, Policy,
    Priority, Seq, Spec, State, Tenant, Transition, depth_of, find_cycle, transition,
};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::config::Config;
use crate::store::engine::{Edge, Key, KeyKind};
use crate::store::unit::Unit;

/// What became of one job of a submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The job: the new one, or the one that has had this idempotency key before.
    pub job: Job,
    /// Whether it is an earlier job with the same idempotency key (M13).
    pub is_duplicate: bool,
    /// Whether that earlier job had another payload (M13).
    pub payload_differs: bool,
}

/// How a submission is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubmitOptions {
    /// Refuse an idempotency key that was used with another payload (M13).
    pub strict: bool,
}

/// The parent of jobs that are spawned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spawning {
    pub(crate) seq: Seq,
    pub(crate) id: JobId,
    pub(crate) group: u64,
}

/// Checks everything about a submission that can be seen without the store.
pub(crate) fn check(jobs: &[NewJob], payload_bytes_max: usize) -> Result<(), SubmitError> {
    if jobs.len() > limits::BATCH_JOBS_MAX {
        let problem = Problem::TooLong { length: jobs.len(), limit: limits::BATCH_JOBS_MAX };
        return Err(SubmitError::Invalid { index: limits::BATCH_JOBS_MAX, invalid: Invalid::new("jobs", problem) });
    }
    for (index, job) in jobs.iter().enumerate() {
        let size = job.payload.bytes.len();
        if size > payload_bytes_max {
            return Err(SubmitError::PayloadTooLarge { index, size, limit: payload_bytes_max });
        }
        job.check().map_err(|invalid| SubmitError::Invalid { index, invalid })?;
    }
    Ok(())
}

/// Submits jobs, all or none; the receipts are in the jobs' order.
pub(crate) fn submit(
    unit: &mut Unit<'_>,
    caller: &Caller,
    jobs: &[NewJob],
    options: SubmitOptions,
    spawning: Option<Spawning>,
) -> Result<Vec<Receipt>, SubmitError> {
    let mut batch = Batch::new(unit, caller, jobs, spawning)?;
    let duplicates = batch.find_duplicates(unit, options)?;
    batch.follow(&duplicates)?;
    batch.check_unique_keys(unit, &duplicates)?;
    let depths = batch.depths(unit)?;
    batch.check_backlog(unit, &duplicates)?;
    batch.insert(unit, duplicates, &depths)
}

/// A submission with its names and dependencies resolved.
struct Batch<'a> {
    caller: &'a Caller,
    jobs: &'a [NewJob],
    spawning: Option<Spawning>,
    lanes: Vec<Arc<Lane>>,
    /// For each job, what it waits for.
    needs: Vec<Vec<(Need, Target)>>,
    /// The jobs in an order in which each comes after those it waits for.
    order: Vec<usize>,
}

/// A job that is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// One that exists.
    Stored(Seq),
    /// One of the same batch.
    InBatch(usize),
}

fn invalid(index: usize, field: impl Into<String>, problem: Problem) -> SubmitError {
    SubmitError::Invalid { index, invalid: Invalid::new(field, problem) }
}

impl<'a> Batch<'a> {
    fn new(
        unit: &mut Unit<'_>,
        caller: &'a Caller,
        jobs: &'a [NewJob],
        spawning: Option<Spawning>,
    ) -> Result<Batch<'a>, SubmitError> {
        if spawning.is_none() {
            caller.must(Permission::Submit)?;
        }
        let lanes = lanes(caller, jobs)?;
        let names = names(jobs)?;
        let is_graph = jobs.iter().any(|job| !job.after.is_empty() || !job.after_any.is_empty());
        let mut needs = vec![Vec::new(); jobs.len()];
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        if is_graph {
            needs = resolve(unit, jobs, &lanes, &names)?;
            order = order_of(jobs, &needs)?;
        }
        Ok(Batch { caller, jobs, spawning, lanes, needs, order })
    }

    /// The jobs that have had the same idempotency key before (M13).
    fn find_duplicates(
        &self,
        unit: &mut Unit<'_>,
        options: SubmitOptions,
    ) -> Result<HashMap<usize, Duplicate>, SubmitError> {
        let mut duplicates = HashMap::new();
        if self.jobs.iter().all(|job| job.idempotency_key.is_none()) {
            return Ok(duplicates);
        }
        let mut first_with: HashMap<Key, usize> = HashMap::new();
        for (index, job) in self.jobs.iter().enumerate() {
            let Some(text) = &job.idempotency_key else { continue };
            let key = self.key(KeyKind::Idempotency, index, text);
            if let Some(&first) = first_with.get(&key) {
                let differs = self.jobs[first].payload != job.payload;
                duplicates.insert(index, Duplicate { target: Target::InBatch(first), payload_differs: differs });
            } else if let Some(seq) = live_holder(unit, &key)? {
                let differs = unit.spec(seq)?.is_some_and(|spec| spec.payload != job.payload);
                duplicates.insert(index, Duplicate { target: Target::Stored(seq), payload_differs: differs });
            } else {
                first_with.insert(key, index);
                continue;
            }
            if options.strict && duplicates[&index].payload_differs {
                let existing = match duplicates[&index].target {
                    Target::Stored(seq) => unit.job(seq)?.map(|job| job.id),
                    Target::InBatch(_) => None,
                };
                let existing = existing.unwrap_or_else(|| JobId::from_bytes([0; 16]));
                return Err(SubmitError::PayloadDiffers { index, existing });
            }
        }
        Ok(duplicates)
    }

    /// Makes whoever waits for a duplicate wait for the job that it stands for.
    fn follow(&mut self, duplicates: &HashMap<usize, Duplicate>) -> Result<(), SubmitError> {
        if duplicates.is_empty() || self.needs.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let meant = |target: Target| match target {
            Target::InBatch(index) => duplicates.get(&index).map_or(target, |duplicate| duplicate.target),
            Target::Stored(_) => target,
        };
        for needs in &mut self.needs {
            let followed: BTreeSet<_> = needs.iter().map(|(need, target)| (*need, meant(*target))).collect();
            *needs = followed.into_iter().collect();
        }
        self.order = order_of(self.jobs, &self.needs)?;
        Ok(())
    }

    /// Refuses unique keys that a job which is not final holds (M14).
    fn check_unique_keys(
        &self,
        unit: &mut Unit<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let mut seen: HashMap<Key, usize> = HashMap::new();
        for (index, job) in self.jobs.iter().enumerate() {
            let Some(text) = job.unique_key.as_ref().filter(|_| !duplicates.contains_key(&index)) else { continue };
            let key = self.key(KeyKind::Unique, index, text);
            if let Some(first) = seen.insert(key.clone(), index) {
                let twice = format!("is held by job {first} of the same batch");
                return Err(invalid(index, "unique_key", Problem::Contradiction(twice)));
            }
            if let Some(holder) = unique_holder(unit, &key)? {
                return Err(SubmitError::UniqueKeyTaken { index, key: text.clone(), holder });
            }
        }
        Ok(())
    }

    /// How deep in the graph each job is (M61).
    fn depths(&self, unit: &mut Unit<'_>) -> Result<Vec<u32>, SubmitError> {
        let mut depths = vec![1; self.jobs.len()];
        for &index in &self.order {
            if self.needs[index].is_empty() {
                continue;
            }
            let mut found = Vec::with_capacity(self.needs[index].len());
            for (_, target) in &self.needs[index] {
                found.push(match target {
                    Target::InBatch(other) => depths[*other],
                    Target::Stored(seq) => unit.job(*seq)?.map_or(0, |job| job.depth),
                });
            }
            depths[index] = depth_of(found);
            if depths[index] > limits::DEPENDENCY_DEPTH_MAX {
                let (value, max) = (depths[index].to_string(), limits::DEPENDENCY_DEPTH_MAX.to_string());
                return Err(invalid(index, "after", Problem::OutOfRange { value, min: "1".into(), max }));
            }
        }
        Ok(depths)
    }

    /// Refuses what would make a queue or tenant deeper than allowed (M113).
    fn check_backlog(
        &self,
        unit: &mut Unit<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let config = unit.config()?;
        let mut new: BTreeMap<Arc<Lane>, u64> = BTreeMap::new();
        if config.queues.is_empty() && config.tenants.is_empty() {
            return Ok(());
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            if !duplicates.contains_key(&index) {
                *new.entry(lane.clone()).or_default() += 1;
            }
        }
        let added = |fits: &dyn Fn(&Lane) -> bool| -> u64 {
            new.iter().filter(|(lane, _)| fits(lane)).map(|(_, count)| count).sum()
        };
        for lane in new.keys() {
            for (scope, limit, fits) in depth_limits(&config, lane) {
                let open = State::ALL.into_iter().filter(|state| !state.is_final());
                let counts = unit.db()?.counts()?;
                let stored: u64 = open.map(|state| counts.sum(state, &*fits)).sum();
                let depth = stored + added(&*fits);
                if depth > limit {
                    let retry_after = limits::BACKSTOP_EVERY;
                    return Err(SubmitError::TooDeep { scope, depth: stored, limit, retry_after });
                }
            }
        }
        Ok(())
    }

    fn insert(
        &self,
        unit: &mut Unit<'_>,
        duplicates: HashMap<usize, Duplicate>,
        depths: &[u32],
    ) -> Result<Vec<Receipt>, SubmitError> {
        let config = unit.config()?;
        let first = unit.allocate(self.jobs.len() - duplicates.len())?;
        let mut seqs: Vec<Option<Seq>> = vec![None; self.jobs.len()];
        let mut next = first.0;
        for (index, seq) in seqs.iter_mut().enumerate() {
            match duplicates.get(&index) {
                None => {
                    *seq = Some(Seq(next));
                    next += 1;
                }
                Some(Duplicate { target: Target::Stored(stored), .. }) => *seq = Some(*stored),
                Some(Duplicate { target: Target::InBatch(_), .. }) => {}
            }
        }
        for (index, duplicate) in &duplicates {
            if let Target::InBatch(other) = duplicate.target {
                seqs[*index] = seqs[other];
            }
        }
        let seqs: Vec<Seq> = seqs.into_iter().map(|seq| seq.expect("every job has its place by now")).collect();
        let mut policies = Policies::default();
        for &index in self.order.iter().filter(|index| !duplicates.contains_key(index)) {
            self.insert_one(unit, &config, index, &seqs, depths[index], &mut policies)?;
        }
        let mut receipts = Vec::with_capacity(self.jobs.len());
        for (index, seq) in seqs.iter().enumerate() {
            let duplicate = duplicates.get(&index);
            receipts.push(Receipt {
                job: unit.job(*seq)?.expect("a job that was just added is there").clone(),
                is_duplicate: duplicate.is_some(),
                payload_differs: duplicate.is_some_and(|duplicate| duplicate.payload_differs),
            });
        }
        Ok(receipts)
    }

    fn insert_one(
        &self,
        unit: &mut Unit<'_>,
        config: &Config,
        index: usize,
        seqs: &[Seq],
        depth: u32,
        policies: &mut Policies,
    ) -> Result<(), SubmitError> {
        let (new, lane, now) = (&self.jobs[index], &self.lanes[index], unit.now);
        let (policy, priority) = policies.resolve(config, new, lane, &unit.env.options.policy);
        let needs = self.stored_needs(unit, index, seqs)?;
        let id = JobId::new(now, unit.env.entropy.bits());
        let any_met = needs.iter().any(|need| need.edge.need == Need::AfterAny && need.state.is_final());
        let job = Job {
            priority,
            inherited: needs.iter().map(|need| need.priority).max().unwrap_or(Priority::BULK),
            run_at: new.run_at.unwrap_or_else(|| new.delay.map_or(now, |delay| now.plus(delay))),
            after_unmet: u32::try_from(needs.iter().filter(|need| need.is_open(Need::After)).count())
                .expect("the number of dependencies is limited"),
            any_unmet: !any_met && needs.iter().any(|need| need.edge.need == Need::AfterAny),
            depth,
            concurrency: new.concurrency_key.as_deref().map(|key| concurrency_key(&lane.tenant, key)),
            parent: self.parent_of(index),
            has: Has {
                unique_key: new.unique_key.is_some(),
                callback: new.labels.callback_url.is_some(),
                ..Has::default()
            },
            details: policies.details(new.hold),
            ..Job::new(seqs[index], id, lane.clone(), policy, now)
        };
        let seq = job.seq;
        self.add(unit, job, self.spec(new, &needs), index)?;
        for need in needs {
            mark_dependency(unit, &need)?;
            // One that had ended badly before takes this job with it at once (M61).
            if need.edge.need == Need::After && need.state.is_final() && need.state != State::Completed {
                let event = Event::DependencyEnded { need: Need::After, state: need.state };
                let _refused = unit.apply(seq, &event, &Cause::system())?;
            }
        }
        Ok(())
    }

    fn parent_of(&self, index: usize) -> Option<Parent> {
        self.spawning.map(|parent| Parent {
            seq: parent.seq,
            id: parent.id,
            group: parent.group,
            index: u32::try_from(index).expect("the size of a batch is limited"),
        })
    }

    /// Adds a job, in the state its facts give it.
    fn add(&self, unit: &mut Unit<'_>, held: Job, spec: Spec, index: usize) -> Result<(), SubmitError> {
        let new = &self.jobs[index];
        let submitted = if new.hold { None } else { transition(&held, &Event::Submit, unit.now).ok() };
        let job = match submitted {
            Some(Transition::Changed(change)) => change.job,
            Some(Transition::Unchanged) | None => held.clone(),
        };
        let mut keys = Vec::new();
        if let Some(text) = &new.idempotency_key {
            let window = new.idempotency_window.unwrap_or(unit.env.options.idempotency_window);
            keys.push((self.key(KeyKind::Idempotency, index, text), unit.now.plus(window)));
        }
        if let Some(text) = &new.unique_key {
            keys.push((self.key(KeyKind::Unique, index, text), Timestamp::MAX));
        }
        let event = if new.hold { AuditEvent::Held } else { AuditEvent::Submitted };
        let cause = Cause::caller(self.caller, None);
        unit.record_job(event, &held, &job, &cause, None)?;
        unit.insert(job, spec, keys);
        Ok(())
    }

    fn spec(&self, new: &NewJob, needs: &[StoredNeed]) -> Spec {
        let ids = |need: Need| needs.iter().filter(|n| n.edge.need == need).map(|n| n.id).collect();
        Spec {
            payload: new.payload.clone(),
            idempotency_key: new.idempotency_key.clone(),
            unique_key: new.unique_key.clone(),
            concurrency_key: new.concurrency_key.clone(),
            labels: new.labels.clone(),
            owner: self.caller.id.clone(),
            traceparent: new.traceparent.clone(),
            after: ids(Need::After),
            after_any: ids(Need::AfterAny),
        }
    }

    fn stored_needs(
        &self,
        unit: &mut Unit<'_>,
        index: usize,
        seqs: &[Seq],
    ) -> Result<Vec<StoredNeed>, SubmitError> {
        let mut found = Vec::with_capacity(self.needs[index].len());
        for (need, target) in &self.needs[index] {
            let seq = match target {
                Target::Stored(seq) => *seq,
                Target::InBatch(other) => seqs[*other],
            };
            if let Some(job) = unit.job(seq)? {
                found.push(StoredNeed {
                    edge: Edge { dependency: seq, dependent: seqs[index], need: *need },
                    id: job.id,
                    state: job.state,
                    priority: job.effective_priority(),
                });
            }
        }
        Ok(found)
    }

    fn key(&self, kind: KeyKind, index: usize, text: &str) -> Key {
        let lane = &self.lanes[index];
        Key { kind, tenant: lane.tenant.clone(), job_type: lane.job_type.clone(), text: text.to_owned() }
    }
}

/// A dependency as it is now.
struct StoredNeed {
    edge: Edge,
    id: JobId,
    state: State,
    priority: Priority,
}

impl StoredNeed {
    fn is_open(&self, need: Need) -> bool {
        self.edge.need == need && self.state != State::Completed
    }
}

struct Duplicate {
    target: Target,
    payload_differs: bool,
}

/// Policies of one batch: jobs with the same wishes share one.
#[derive(Default)]
struct Policies {
    plain: HashMap<Arc<Lane>, (Arc<Policy>, Priority)>,
    details: Option<Arc<Details>>,
}

impl Policies {
    fn resolve(
        &mut self,
        config: &Config,
        new: &NewJob,
        lane: &Arc<Lane>,
        defaults: &Policy,
    ) -> (Arc<Policy>, Priority) {
        let is_plain = new.retry.is_none()
            && new.execution_timeout.is_none()
            && new.lease_timeout.is_none()
            && new.lifetime.is_none();
        if !is_plain {
            let (policy, priority) = config.resolve(new, lane, defaults);
            return (Arc::new(policy), priority);
        }
        let (policy, priority) = self.plain.entry(lane.clone()).or_insert_with(|| {
            let (policy, priority) = config.resolve(&NewJob { priority: None, ..new.clone() }, lane, defaults);
            (Arc::new(policy), priority)
        });
        (policy.clone(), new.priority.unwrap_or(*priority))
    }

    fn details(&mut self, is_held: bool) -> Arc<Details> {
        if is_held {
            return Arc::new(Details { is_held, ..Details::default() });
        }
        self.details.get_or_insert_with(Arc::default).clone()
    }
}

fn lanes(caller: &Caller, jobs: &[NewJob]) -> Result<Vec<Arc<Lane>>, SubmitError> {
    let mut shared: BTreeSet<Arc<Lane>> = BTreeSet::new();
    let mut lanes: Vec<Arc<Lane>> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let tenant = job.tenant.clone().or_else(|| caller.tenant.clone()).unwrap_or_default();
        if !caller.sees(&tenant) {
            caller.must(Permission::Administer)?;
        }
        let lane = Lane { tenant, queue: job.queue.clone(), job_type: job.job_type.clone() };
        let same = lanes.last().filter(|last| ***last == lane).or_else(|| shared.get(&lane)).cloned();
        let lane = same.unwrap_or_else(|| Arc::new(lane));
        shared.insert(lane.clone());
        lanes.push(lane);
    }
    Ok(lanes)
}

fn names(jobs: &[NewJob]) -> Result<HashMap<&str, usize>, SubmitError> {
    let mut names = HashMap::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Some(name) = job.name.as_deref()
            && names.insert(name, index).is_some()
        {
            return Err(invalid(index, "name", Problem::NameTwice(name.to_owned())));
        }
    }
    Ok(names)
}

/// The jobs in an order in which each comes after those of the batch that it waits for.
fn order_of(jobs: &[NewJob], needs: &[Vec<(Need, Target)>]) -> Result<Vec<usize>, SubmitError> {
    let in_batch = |(_, target): &(Need, Target)| match target {
        Target::InBatch(index) => Some(*index),
        Target::Stored(_) => None,
    };
    let within: Vec<Vec<usize>> = needs.iter().map(|needs| needs.iter().filter_map(in_batch).collect()).collect();
    find_cycle(&within).map_err(|index| {
        let name = jobs[index].name.clone().unwrap_or_else(|| format!("job {index}"));
        invalid(index, "after", Problem::Cycle(name))
    })
}

/// Finds the jobs that the batch waits for; one of another tenant looks like one that does not exist (M61).
fn resolve(
    unit: &mut Unit<'_>,
    jobs: &[NewJob],
    lanes: &[Arc<Lane>],
    names: &HashMap<&str, usize>,
) -> Result<Vec<Vec<(Need, Target)>>, SubmitError> {
    let wanted: BTreeSet<JobId> = jobs
        .iter()
        .flat_map(|job| job.after.iter().chain(&job.after_any))
        .filter_map(|dependency| match dependency {
            Dependency::Job(id) => Some(*id),
            Dependency::Named(_) => None,
        })
        .collect();
    let wanted: Vec<JobId> = wanted.into_iter().collect();
    let found: HashMap<JobId, Seq> =
        wanted.iter().copied().zip(unit.find(&wanted)?).filter_map(|(id, seq)| Some((id, seq?))).collect();
    let mut needs = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        let mut seen = BTreeSet::new();
        let both = [(Need::After, &job.after), (Need::AfterAny, &job.after_any)];
        for (need, dependencies) in both {
            for (place, dependency) in dependencies.iter().enumerate() {
                let target = match dependency {
                    Dependency::Named(name) => names
                        .get(name.as_str())
                        .filter(|other| lanes[**other].tenant == lanes[index].tenant)
                        .map(|other| Target::InBatch(*other)),
                    Dependency::Job(id) => match found.get(id) {
                        Some(seq) if unit.job(*seq)?.is_some_and(|job| job.lane.tenant == lanes[index].tenant) => {
                            Some(Target::Stored(*seq))
                        }
                        _ => None,
                    },
                };
                let target = target.ok_or_else(|| {
                    let field = format!("{}.{place}", super::advance::need_word(need));
                    let shown = match dependency {
                        Dependency::Job(id) => id.to_string(),
                        Dependency::Named(name) => format!("@{name}"),
                    };
                    invalid(index, field, Problem::NoSuchJob(shown))
                })?;
                seen.insert((need, target));
            }
        }
        needs.push(seen.into_iter().collect());
    }
    Ok(needs)
}

fn mark_dependency(unit: &mut Unit<'_>, need: &StoredNeed) -> Result<(), SubmitError> {
    unit.link(need.edge);
    if let Some(job) = unit.job(need.edge.dependency)?
        && !job.has.dependents
    {
        let mut job = job.clone();
        job.has.dependents = true;
        unit.put(job);
    }
    Ok(())
}

/// The job that holds an idempotency key, if its window is not over.
fn live_holder(unit: &mut Unit<'_>, key: &Key) -> Result<Option<Seq>, SubmitError> {
    let now = unit.now;
    let holder = unit.db()?.keyed(std::slice::from_ref(key))?.pop().flatten();
    let Some(holder) = holder.filter(|holder| holder.expires_at > now) else { return Ok(None) };
    Ok(unit.job(holder.seq)?.map(|job| job.seq))
}

/// The job that holds a unique key, if it is not final.
pub(crate) fn unique_holder(
    unit: &mut Unit<'_>,
    key: &Key,
) -> Result<Option<JobId>, crate::error::StoreError> {
    let Some(holder) = unit.db()?.keyed(std::slice::from_ref(key))?.pop().flatten() else { return Ok(None) };
    unit.catch_up(holder.seq)?;
    // If its time was over it has let go of the key, which must not come after the next holder takes it.
    unit.flush()?;
    Ok(unit.job(holder.seq)?.filter(|job| !job.state.is_final()).map(|job| job.id))
}

type Fits = Box<dyn Fn(&Lane) -> bool>;

fn depth_limits(config: &Config, lane: &Lane) -> Vec<(String, u64, Fits)> {
    let mut found: Vec<(String, u64, Fits)> = Vec::new();
    for ((queue, tenant), settings) in &config.queues {
        let counts_here = *queue == lane.queue && tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant);
        if let Some(limit) = settings.max_depth.filter(|_| counts_here) {
            let (queue, tenant) = (queue.clone(), tenant.clone());
            let fits: Fits = Box::new(move |lane| {
                lane.queue == queue && tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
            });
            found.push((format!("queue {}", lane.queue), limit, fits));
        }
    }
    if let Some(limit) = config.tenants.get(&lane.tenant).and_then(|settings| settings.max_depth) {
        let tenant = lane.tenant.clone();
        found.push((format!("tenant {tenant}"), limit, Box::new(move |lane: &Lane| lane.tenant == tenant)));
    }
    found
}

/// The digest of a concurrency key: 63 bits tell keys apart; two that met would only wait for each other.
pub(crate) fn concurrency_key(tenant: &Tenant, key: &str) -> ConcurrencyKey {
    let digest = Sha256::digest(json!([tenant.as_str(), key]).to_string().as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    ConcurrencyKey(i64::from_be_bytes(bytes) & i64::MAX)
}
