//! What a claim may give and what it must not leave: pauses, limits, order.

use windlass::clock::Timestamp;
use windlass::job::{JobRecord, JobState};
use windlass::store::caller::Caller;
use windlass::store::engine::ClaimOrder;
use windlass::store::{ClaimAnswer, ClaimRequest, Config, Filter, ListRequest, Store};

use super::operation::pages;
use super::snapshot::text_error;

/// Holds an answer against what is stored now.
pub(super) async fn check(store: &Store, request: &ClaimRequest, answer: &ClaimAnswer) -> Result<(), String> {
    if answer.is_paused {
        return Ok(());
    }
    let config = text_error(store.config(&Caller::local()).await)?;
    gave(store, &config, answer).await?;
    left(store, &config, request, answer).await
}

/// A claim gave only what it may: nothing paused (Model: pause-reason-and-expiry), nothing over a limit (Model: concurrency-limits), the most urgent first (Model: claim-order).
async fn gave(store: &Store, config: &Config, answer: &ClaimAnswer) -> Result<(), String> {
    let Some(first) = answer.jobs.first() else { return Ok(()) };
    let now = first.job.updated_at;
    let running = jobs(store, JobState::Running).await?;
    for (place, claimed) in answer.jobs.iter().enumerate() {
        let job = &claimed.job;
        // As it was when this one was taken: the next may be of a queue that allows more for the same key.
        let is_later =
            |other: &JobRecord| answer.jobs[place + 1..].iter().any(|later| later.job.id == other.id);
        let running: Vec<&JobRecord> = running.iter().filter(|other| !is_later(other)).collect();
        if let Some(hold) = config.pauses_on(&job.lane, now).next() {
            return Err(format!("job {} was claimed in spite of {hold:?}", job.id));
        }
        within_limits(config, &running, job)?;
    }
    if has_turns(config) {
        return Ok(());
    }
    let is_ordered =
        answer.jobs.windows(2).all(|two| place(config, &two[0].job, now) < place(config, &two[1].job, now));
    if is_ordered { Ok(()) } else { Err("the claimed jobs are not in order".to_owned()) }
}

/// A claim left nothing that it should have given (Model: claim-order, explained-waiting): what no pause and no limit keeps back runs before what is
/// less urgent, and at once if there is room.
async fn left(
    store: &Store,
    config: &Config,
    request: &ClaimRequest,
    answer: &ClaimAnswer,
) -> Result<(), String> {
    let Some(worker) = config.workers.get(&request.worker) else { return Ok(()) };
    let is_full = answer.jobs.len() >= request.limit;
    let last = answer.jobs.last().map(|claimed| &claimed.job);
    for job in jobs(store, JobState::Scheduled).await? {
        let is_wanted = request.queues.as_ref().is_none_or(|queues| queues.contains(&job.lane.queue))
            && request.types.as_ref().is_none_or(|types| types.contains(&job.lane.job_type));
        let is_held = config.pauses_on(&job.lane, store.environment().clock.now()).next().is_some();
        if job.is_blocked || is_held || !is_wanted || !worker.accepts(&job.lane) || has_limits(config, &job) {
            continue;
        }
        let is_before = |last: &JobRecord| {
            let now = last.updated_at;
            place(config, &job, now) < place(config, last, now)
        };
        let is_before_last = !has_turns(config) && last.is_some_and(is_before);
        if !is_full || is_before_last {
            return Err(format!("job {} was left", job.id));
        }
    }
    Ok(())
}

fn has_limits(config: &Config, job: &JobRecord) -> bool {
    let tenant = config.tenants.get(&job.lane.tenant);
    !config.running_limits(&job.lane).is_empty()
        || !config.rates(&job.lane).is_empty()
        || config.rate_per_key(&job.lane).is_some()
        || tenant.is_some_and(|tenant| tenant.budget_cents.is_some())
}

/// A job's position among all others, as it has aged (Model: aging).
fn place(config: &Config, job: &JobRecord, now: Timestamp) -> ClaimOrder {
    let place = ClaimOrder::new(job);
    config.aging(&job.lane).map_or(place, |every| place.aged(every, now))
}

/// Whether tenants take turns in any queue.
fn has_turns(config: &Config) -> bool {
    config.queues.values().any(|settings| settings.fair_by.is_some())
}

fn within_limits(config: &Config, running: &[&JobRecord], job: &JobRecord) -> Result<(), String> {
    let count = |fits: &dyn Fn(&JobRecord) -> bool| running.iter().filter(|job| fits(job)).count() as u64;
    let over = |what: &str, found: u64, limit: Option<u64>| match limit {
        Some(limit) if found > limit => {
            Err(format!("{found} jobs run for {what} of job {}, not {limit}", job.id))
        }
        _ => Ok(()),
    };
    let lane = &job.lane;
    let own_queue = |other: &JobRecord| other.lane.queue == lane.queue;
    let own_tenant = |other: &JobRecord| other.lane.tenant == lane.tenant;
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

async fn jobs(store: &Store, state: JobState) -> Result<Vec<JobRecord>, String> {
    let filter = Filter { states: vec![state], ..Filter::default() };
    let request = ListRequest { filter, limit: 500, ..ListRequest::default() };
    let pages = text_error(pages(store, &Caller::local(), &request).await)?;
    Ok(pages.into_iter().flat_map(|page| page.jobs).map(|found| found.job).collect())
}
