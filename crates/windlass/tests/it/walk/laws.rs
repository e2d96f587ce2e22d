//! What must hold from one look to the next, whatever was done: what two engines that share their rules could both get
//! wrong.

use std::collections::HashMap;

use windlass::audit::{AuditEvent, Record};
use windlass::job::{Job, JobId, State};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::claim::ClaimAnswer;
use windlass::store::config::Config;
use windlass::store::filter::Filter;
use windlass::store::query::list::ListRequest;
use windlass::store::query::snapshot::Snapshot;

use super::operation::pages;
use super::picture::told;

/// All jobs as they were at the last look.
#[derive(Default)]
pub(super) struct Laws {
    before: HashMap<JobId, Job>,
}

impl Laws {
    /// Compares every job with how it was: what is final stays (M2), what counts never falls (M5).
    pub(super) fn look(&mut self, now: &[Snapshot]) -> Result<(), String> {
        for Snapshot { job, spec, .. } in now {
            if let Some(before) = self.before.get(&job.id) {
                grew(before, job)?;
            }
            if spec.payload.bytes.is_empty() {
                return Err(format!("job {} has lost its payload", job.id));
            }
        }
        self.before = now.iter().map(|found| (found.job.id, found.job.clone())).collect();
        Ok(())
    }
}

/// The live trail of every job: each step begins where the one before it ended (M3).
#[derive(Default)]
pub(super) struct Steps {
    states: HashMap<JobId, State>,
}

impl Steps {
    pub(super) fn take(&mut self, record: &Record) -> Result<(), String> {
        let (Some(job), Some((from, to))) = (record.job, step_of(record)) else { return Ok(()) };
        match self.states.insert(job, to) {
            Some(known) if known != from => Err(format!("job {job} was {known}, but {record:?}")),
            _ => Ok(()),
        }
    }
}

fn grew(before: &Job, now: &Job) -> Result<(), String> {
    let counts =
        |job: &Job| [u64::from(job.attempt), u64::from(job.failures), u64::from(job.crashes), job.fence.0];
    let has_fallen = counts(before).iter().zip(counts(now)).any(|(before, now)| *before > now);
    if has_fallen || before.updated_at > now.updated_at || before.expires_at > now.expires_at {
        return Err(format!("job {} went back\n  from {before:?}\n  to {now:?}", now.id));
    }
    let has_changed =
        |job: &Job| (job.state, job.completed_at, job.fence, job.cost_cents, job.details.error.clone());
    if before.state.is_final() && has_changed(before) != has_changed(now) {
        return Err(format!("job {} was final\n  {before:?}\n  and is now {now:?}", now.id));
    }
    Ok(())
}

/// The step that a record tells of, if it tells of one.
pub(super) fn step_of(record: &Record) -> Option<(State, State)> {
    // A lease that ended is told of beside what that led to.
    if record.event == AuditEvent::Reaped {
        return None;
    }
    let context: serde_json::Value = serde_json::from_str(&record.context).ok()?;
    let state = |name: &str| context.get(name)?.as_str()?.parse().ok();
    Some((state("previous_state")?, state("state")?))
}

/// A claim gave only what it may: nothing paused (M57), nothing over a limit (M110), the most urgent first (M21).
pub(super) async fn claimed(store: &Store, config: &Config, answer: &ClaimAnswer) -> Result<(), String> {
    let Some(first) = answer.jobs.first() else { return Ok(()) };
    let now = first.job.updated_at;
    let running = running(store).await?;
    for (place, claimed) in answer.jobs.iter().enumerate() {
        let job = &claimed.job;
        // As it was when this one was taken: the next may be of a queue that allows more for the same key.
        let is_later = |other: &Job| answer.jobs[place + 1..].iter().any(|later| later.job.id == other.id);
        let running: Vec<&Job> = running.iter().filter(|other| !is_later(other)).collect();
        if let Some(hold) = config.holds_on(&job.lane, now).next() {
            return Err(format!("job {} was claimed in spite of {hold:?}", job.id));
        }
        within_limits(config, &running, job)?;
    }
    let urgency = |job: &Job| (u8::MAX - job.effective_priority().value(), job.eligible_at, job.seq);
    let is_ordered = answer.jobs.windows(2).all(|two| urgency(&two[0].job) <= urgency(&two[1].job));
    if is_ordered { Ok(()) } else { Err("the claimed jobs are not in order".to_owned()) }
}

fn within_limits(config: &Config, running: &[&Job], job: &Job) -> Result<(), String> {
    let count = |fits: &dyn Fn(&Job) -> bool| running.iter().filter(|job| fits(job)).count() as u64;
    let over = |what: &str, found: u64, limit: Option<u64>| match limit {
        Some(limit) if found > limit => {
            Err(format!("{found} jobs run for {what} of job {}, not {limit}", job.id))
        }
        _ => Ok(()),
    };
    let lane = &job.lane;
    let own_queue = |other: &Job| other.lane.queue == lane.queue;
    let own_tenant = |other: &Job| other.lane.tenant == lane.tenant;
    for ((queue, tenant), settings) in &config.queues {
        if *queue == lane.queue && tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant) {
            let found = count(&|other| own_queue(other) && (tenant.is_none() || own_tenant(other)));
            over("the queue", found, settings.max_running)?;
        }
    }
    let kind = config.types.get(&lane.job_type).and_then(|kind| kind.max_running);
    over("the type", count(&|other| other.lane.job_type == lane.job_type), kind)?;
    over("the tenant", count(&own_tenant), config.tenants.get(&lane.tenant).and_then(|own| own.max_running))?;
    if job.concurrency.is_some() {
        let found = count(&|other| other.concurrency == job.concurrency);
        over("the key", found, Some(config.running_per_key(lane)))?;
    }
    Ok(())
}

async fn running(store: &Store) -> Result<Vec<Job>, String> {
    let filter = Filter { states: vec![State::Running], ..Filter::default() };
    let request = ListRequest { filter, limit: 500, ..ListRequest::default() };
    let pages = told(pages(store, &Caller::local(), &request).await)?;
    Ok(pages.into_iter().flat_map(|page| page.jobs).map(|found| found.job).collect())
}
