//! Why a job does not run: every reason at once, each with actor and end.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::clock::DurationText;
use crate::error::StoreError;
use crate::job::{Bucket, JobRecord, JobState, Lane, Rate, Suspension, Wait, WorkerId};
use crate::settings::PauseMode;
use crate::store::command::effects::rate_limit::{KeyBucket, key_bucket_key};
use crate::store::documents::budget::{self, BudgetUsage};
use crate::store::documents::cascade;
use crate::store::documents::config::{Config, PauseRecord, PauseScope, parse};
use crate::store::engine::{DocumentKind, Side};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::read_tx::ReadTx;

/// One reason why a job does not run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reason {
    /// A stable code for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// Structured details.
    pub details: Value,
}

impl Reason {
    /// Every code there is.
    pub const CODES: [&'static str; 15] = [
        "held",
        "suspended",
        "suspend_requested",
        "queue_paused",
        "gate_closed",
        "not_due",
        "dependencies_unmet",
        "waiting",
        "no_worker",
        "no_free_slot",
        "max_running",
        "concurrency_key_held",
        "rate_limited",
        "over_quota",
        DAMAGED,
    ];
}

/// The code of a job whose stored submission is damaged.
pub(crate) const DAMAGED: &str = "damaged";

/// How many reasons to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only the first; later checks are skipped.
    First,
    /// All of them.
    All,
}

/// Maximum number of jobs named in one reason.
const NAMED_MAX: usize = 10;

fn reason(code: &'static str, message: impl Into<String>, details: Value) -> Reason {
    debug_assert!(Reason::CODES.contains(&code), "clients know the codes from the list");
    Reason { code, message: message.into(), details }
}

/// Why this job does not run now; empty for a job that is final or about to be claimed. For a running job, only a
/// requested suspension is reported.
pub(crate) fn reasons(tx: &mut ReadTx<'_>, job: &JobRecord, depth: Depth) -> Result<Vec<Reason>, StoreError> {
    if job.state.is_final() {
        return Ok(Vec::new());
    }
    if job.state == JobState::Running {
        let requested = job.details.suspend_requested.as_ref().map(suspends_next);
        let found = if requested.is_some() { requested } else { cut_off_next(tx, job)? };
        return Ok(found.into_iter().collect());
    }
    let mut found = own_reasons(tx, job, depth)?;
    if depth == Depth::First && !found.is_empty() {
        return Ok(found);
    }
    let config = tx.config()?;
    let pauses: Vec<PauseRecord> = config.pauses_on(&job.lane, tx.now).cloned().collect();
    found.extend(pauses.iter().map(held_by));
    if depth == Depth::First && !found.is_empty() {
        return Ok(found);
    }
    found.extend(limit_reasons(tx, &config, job)?);
    found.extend(rate_reasons(tx, &config, job)?);
    found.extend(budget_reason(tx, &config, job)?);
    found.extend(without_workers(tx, &config, job)?);
    if found.is_empty() {
        found.extend(without_slots(tx, &config, job)?);
    }
    Ok(found)
}

/// The stored submission is damaged: shown for a final job, too.
pub(crate) fn damaged(damage: &str) -> Reason {
    let message = format!("its stored submission is damaged and is not shown: {damage}");
    reason(DAMAGED, message, json!({"damage": damage}))
}

/// Every reason, first of all that the stored submission is damaged, if it is.
pub(crate) fn all_reasons(tx: &mut ReadTx<'_>, job: &JobRecord) -> Result<Vec<Reason>, StoreError> {
    let spec = tx.db.specs_or_damage(&[job.seq])?.pop();
    let damage = spec.and_then(Result::err).map(|damage| damaged(&damage));
    let mut found: Vec<Reason> = damage.into_iter().collect();
    found.extend(reasons(tx, job, Depth::All)?);
    Ok(found)
}

/// Workers whose running jobs are counted for one explanation; if there are more, one of them has a free slot soon.
const COUNTED_WORKERS_MAX: usize = 50;

/// All eligible workers are at their concurrency limit. Counted once per lane in a snapshot: a list has many jobs of one
/// lane; the answer of a change leaves it out.
fn without_slots(
    tx: &mut ReadTx<'_>,
    config: &Config,
    job: &JobRecord,
) -> Result<Option<Reason>, StoreError> {
    if tx.is_in_commit {
        return Ok(None);
    }
    if let Some(known) = tx.full_lanes.get(&job.lane) {
        return Ok(known.clone());
    }
    let found = count_slots(tx, config, job)?;
    tx.full_lanes.insert(job.lane.clone(), found.clone());
    Ok(found)
}

/// Whether this worker runs as many jobs as it has slots.
fn is_full(tx: &mut ReadTx<'_>, worker: WorkerId, slots: usize) -> Result<bool, StoreError> {
    if let Some(known) = tx.full_workers.get(&worker) {
        return Ok(*known);
    }
    let filter = Filter { workers: vec![worker], states: vec![JobState::Running], ..Filter::default() };
    let scan = Scan { filter, order: Order::Oldest, after: None, limit: slots };
    let is_full = tx.db.scan(&scan)?.len() >= slots;
    tx.full_workers.insert(worker, is_full);
    Ok(is_full)
}

fn count_slots(tx: &mut ReadTx<'_>, config: &Config, job: &JobRecord) -> Result<Option<Reason>, StoreError> {
    let now = tx.now;
    let open = config.workers.values().filter(|worker| {
        worker.accepts(&job.lane) && !worker.is_paused && config.worker_pause(worker.id, now).is_none()
    });
    let mut at_work = Vec::new();
    for worker in open {
        if tx.is_live(worker)? {
            at_work.push(worker);
        }
        if at_work.len() > COUNTED_WORKERS_MAX {
            return Ok(None);
        }
    }
    if at_work.is_empty() {
        return Ok(None);
    }
    let mut slots = 0;
    for worker in &at_work {
        let limit = usize::try_from(worker.concurrency).unwrap_or(usize::MAX).max(1);
        if !is_full(tx, worker.id, limit)? {
            return Ok(None);
        }
        slots += limit;
    }
    let lane = &job.lane;
    let message = format!(
        "all {slots} slots of the live workers{} that take {} from queue {} are taken",
        lane.version.as_ref().map_or(String::new(), |version| format!(" of version {version}")),
        lane.job_type,
        lane.queue
    );
    let details = json!({"type": lane.job_type.as_str(), "queue": lane.queue.as_str(), "slots": slots});
    Ok(Some(reason("no_free_slot", message, details)))
}

/// No eligible worker is alive and unpaused.
fn without_workers(
    tx: &mut ReadTx<'_>,
    config: &Config,
    job: &JobRecord,
) -> Result<Option<Reason>, StoreError> {
    let (lane, now) = (&job.lane, tx.now);
    let mut paused = Vec::new();
    for worker in config.workers.values().filter(|worker| worker.accepts(lane) && !worker.is_lost) {
        if !tx.is_live(worker)? {
            continue;
        }
        if !worker.is_paused && config.worker_pause(worker.id, now).is_none() {
            return Ok(None);
        }
        paused.push(worker);
    }
    let of_version = lane.version.as_ref().map_or(String::new(), |version| format!(" of version {version}"));
    let what = format!("{} from queue {}", lane.job_type, lane.queue);
    let mut message = if paused.is_empty() {
        format!("no live worker{of_version} takes {what}")
    } else {
        format!("every live worker{of_version} that takes {what} is paused")
    };
    let ids: Vec<String> = paused.iter().map(|worker| worker.id.to_string()).take(NAMED_MAX).collect();
    let mut details = json!({"type": lane.job_type.as_str(), "queue": lane.queue.as_str(), "paused": ids});
    if let Some(version) = &lane.version {
        let live = live_versions(tx, config, lane)?;
        if paused.is_empty() && !live.is_empty() {
            message = format!("{message}; live workers that would take it have version {}", live.join(", "));
        }
        details["requires_version"] = json!(version);
        details["live_versions"] = json!(live);
    }
    Ok(Some(reason("no_worker", message, details)))
}

/// The versions of the live workers that would take jobs of this lane if they required no version, in order.
fn live_versions(tx: &mut ReadTx<'_>, config: &Config, lane: &Lane) -> Result<Vec<String>, StoreError> {
    let mut versions = BTreeSet::new();
    let others = config.workers.values().filter(|worker| worker.takes_any_version(lane) && !worker.is_lost);
    for worker in others {
        let Some(version) = &worker.version else { continue };
        if !versions.contains(version) && versions.len() < NAMED_MAX && tx.is_live(worker)? {
            versions.insert(version.clone());
        }
    }
    Ok(versions.into_iter().collect())
}

/// Reasons that lie in the job itself.
fn own_reasons(tx: &mut ReadTx<'_>, job: &JobRecord, depth: Depth) -> Result<Vec<Reason>, StoreError> {
    let mut found = Vec::new();
    if let Some(suspension) = &job.details.suspension {
        let until = suspension.expires_at.map_or(String::new(), |at| format!(" until {at}"));
        let message = format!("suspended by {}{until}", suspension.by);
        let since = job.details.suspended_at.map(|at| at.to_string());
        let details = json!({"by": suspension.by, "since": since, "reason": suspension.reason,
            "mode": suspension.mode, "expires_at": suspension.expires_at.map(|at| at.to_string())});
        found.push(reason("suspended", message, details));
    }
    if job.details.is_held {
        found.push(reason("held", "held by its submitter: submit it to let it run", json!({})));
    }
    if let Some(wait) = &job.details.wait {
        let is_timed = wait.until().is_some();
        let wait = waiting_for(wait);
        found.push(if is_timed { with_clock(tx, wait) } else { wait });
    }
    if job.has_unmet_dependencies() {
        found.push(unmet_dependencies(tx, job, depth)?);
    }
    let runs_at = job.next_run_at();
    if runs_at > tx.now {
        let what = if job.retry_at.is_some() { "its retry" } else { "it" };
        let message = format!("{what} is not due until {runs_at}");
        let wait = reason("not_due", message, json!({"run_at": runs_at.to_string()}));
        found.push(with_clock(tx, wait));
    }
    Ok(found)
}

/// A graceful suspension that waits for the running attempt to end.
fn suspends_next(requested: &Suspension) -> Reason {
    let Suspension { by, reason: why, mode, at, expires_at, .. } = requested;
    let message = format!(
        "running; will be suspended when its attempt ends without completing it, requested by {by} at {at}"
    );
    let details = json!({"by": by, "at": at.to_string(), "reason": why, "mode": mode,
        "expires_at": expires_at.map(|at| at.to_string())});
    reason("suspend_requested", message, details)
}

/// An aggressive pause of its queue suspends more jobs than one commit may, and this job has not been reached yet.
fn cut_off_next(tx: &mut ReadTx<'_>, job: &JobRecord) -> Result<Option<Reason>, StoreError> {
    let config = tx.config()?;
    let is_cutting = |hold: &&PauseRecord| {
        hold.mode == PauseMode::Aggressive && matches!(hold.scope, PauseScope::Queue { .. })
    };
    for hold in config.pauses_on(&job.lane, tx.now).filter(is_cutting) {
        if cascade::suspends(tx.db, hold, job)? {
            let message = format!(
                "running; will be suspended within seconds: queue {} was paused aggressively by {} at {}, and the pause is \
                 being applied to its running jobs",
                job.lane.queue, hold.by, hold.since
            );
            let details = json!({"by": hold.by, "at": hold.since.to_string(), "reason": hold.reason,
                "mode": hold.mode, "expires_at": hold.expires_at.map(|at| at.to_string()), "cascade": true});
            return Ok(Some(reason("suspend_requested", message, details)));
        }
    }
    Ok(None)
}

/// Adds to a time-based reason how store time differs from an untrusted wall clock.
fn with_clock(tx: &ReadTx<'_>, mut wait: Reason) -> Reason {
    let clock = tx.env.clock.report();
    if !clock.is_believed {
        wait.message = format!(
            "{}; the wall clock shows {} but jumped and is not believed, so store time is {} (see `windlass clock`)",
            wait.message, clock.wall, tx.now
        );
        wait.details["clock_believed"] = false.into();
        wait.details["store_time"] = tx.now.to_string().into();
        wait.details["wall_clock"] = clock.wall.to_string().into();
    }
    wait
}

fn waiting_for(wait: &Wait) -> Reason {
    match wait {
        Wait::Timer { until } => {
            reason("waiting", format!("waits until {until}"), json!({"until": until.to_string()}))
        }
        Wait::Signal { name, until, .. } => {
            let message = format!("waits for signal {name}");
            reason("waiting", message, json!({"signal": name, "until": until.map(|at| at.to_string())}))
        }
        Wait::Children { group } => reason("waiting", "waits for its children", json!({"group": group})),
        Wait::Any { of } => {
            let each: Vec<Reason> = of.iter().map(waiting_for).collect();
            let messages: Vec<&str> = each.iter().map(|one| one.message.as_str()).collect();
            let details: Vec<_> = each.iter().map(|one| one.details.clone()).collect();
            reason("waiting", messages.join(", or "), json!({"any": details}))
        }
    }
}

fn unmet_dependencies(tx: &mut ReadTx<'_>, job: &JobRecord, depth: Depth) -> Result<Reason, StoreError> {
    let (mut open, mut ended) = (Vec::new(), Vec::new());
    if depth == Depth::All {
        let edges = tx.db.edges(&[job.seq], Side::Dependent)?;
        let seqs: Vec<_> = edges.iter().map(|edge| edge.dependency).collect();
        for (edge, dependency) in edges.iter().zip(tx.db.load(&seqs)?) {
            let Some(dependency) = dependency else { continue };
            let shown = json!({"id": dependency.id.to_string(), "state": dependency.state.as_str()});
            if !dependency.state.is_final() {
                open.push(shown);
            } else if cascade::covers(tx.db, &dependency, edge)? {
                ended.push(shown);
            }
        }
    }
    let count = job.after_unmet + u32::from(job.any_unmet);
    let mut message = match count {
        1 => "waits for another job".to_owned(),
        count => format!("waits for {count} other jobs"),
    };
    let mut details = json!({"unmet": count, "jobs": first(&open)});
    if let Some(first_ended) = ended.first() {
        let id = first_ended["id"].as_str().unwrap_or_default();
        let others = match ended.len() {
            1 => String::new(),
            count => format!(" and {} others", count - 1),
        };
        message = format!(
            "{message}; job {id}{others} has ended, and the consequences are being applied to its dependents"
        );
        details["cascade"] = json!(true);
        details["ended"] = json!(first(&ended));
    }
    Ok(reason("dependencies_unmet", message, details))
}

fn first(jobs: &[Value]) -> &[Value] {
    &jobs[..jobs.len().min(NAMED_MAX)]
}

fn held_by(hold: &PauseRecord) -> Reason {
    let (code, what) = match &hold.scope {
        PauseScope::Queue { queue, .. } => ("queue_paused", format!("queue {queue} is paused")),
        PauseScope::Gate => ("gate_closed", "processing is paused".to_owned()),
        PauseScope::Tenant(tenant) => ("gate_closed", format!("processing is paused for tenant {tenant}")),
        PauseScope::Type { job_type, .. } => {
            ("gate_closed", format!("processing is paused for type {job_type}"))
        }
        PauseScope::Worker(worker) => ("queue_paused", format!("worker {worker} is paused")),
    };
    let until = hold.expires_at.map_or(String::new(), |at| format!(" until {at}"));
    let message = format!("{what} by {} since {}{until}", hold.by, hold.since);
    let details = json!({"by": hold.by, "since": hold.since.to_string(), "reason": hold.reason,
        "expires_at": hold.expires_at.map(|at| at.to_string()), "scope": hold.scope});
    reason(code, message, details)
}

/// Rate limits without tokens.
fn rate_reasons(tx: &mut ReadTx<'_>, config: &Config, job: &JobRecord) -> Result<Vec<Reason>, StoreError> {
    let mut found = Vec::new();
    let mut note = |what: String, rate: Rate, bucket: Bucket| {
        let until = bucket.next_at();
        let per = DurationText(rate.per).to_string();
        let message = format!("{what} starts no more than {} jobs in {per}: not before {until}", rate.count);
        let details = json!({"scope": what, "count": rate.count, "per": per, "until": until.to_string()});
        found.push(reason("rate_limited", message, details));
    };
    for (part, rate) in config.rates(&job.lane) {
        let bucket: Option<Bucket> = usage(tx, &part.bucket_key())?;
        let bucket = bucket.map(|bucket| bucket.at(tx.now).under(rate));
        if let Some(bucket) = bucket.filter(|bucket| bucket.tokens() == 0) {
            note(part.to_string(), rate, bucket);
        }
    }
    if let (Some(key), Some(rate)) = (job.concurrency, config.rate_per_key(&job.lane)) {
        let kept: Option<KeyBucket> = usage(tx, &key_bucket_key(&job.lane.queue, key))?;
        let bucket = kept.map(|kept| kept.bucket.at(tx.now).under(rate));
        if let Some(bucket) = bucket.filter(|bucket| bucket.tokens() == 0) {
            note("its concurrency key".to_owned(), rate, bucket);
        }
    }
    Ok(found)
}

/// The tenant has used up its budget.
fn budget_reason(
    tx: &mut ReadTx<'_>,
    config: &Config,
    job: &JobRecord,
) -> Result<Option<Reason>, StoreError> {
    let tenant = &job.lane.tenant;
    let own = config.tenant_settings(&job.lane);
    let Some(settings) = own.filter(|settings| settings.budget_cents.is_some()) else {
        return Ok(None);
    };
    let spent: Option<BudgetUsage> = usage(tx, &budget::spent_key(tenant))?;
    Ok(budget::overdrawn(settings, spent.as_ref(), tx.now).map(|over| {
        let period = over.period.as_str();
        let message = format!(
            "tenant {tenant} has spent {} of {} cents this {period}: not before {}",
            over.spent_cents, over.budget_cents, over.until
        );
        let details = json!({"tenant": tenant.as_str(), "budget_cents": over.budget_cents,
            "spent_cents": over.spent_cents, "period": period, "until": over.until.to_string()});
        reason("over_quota", message, details)
    }))
}

/// Current usage of a rate limit or budget.
fn usage<T: DeserializeOwned>(tx: &mut ReadTx<'_>, key: &str) -> Result<Option<T>, StoreError> {
    let document = tx.db.document(DocumentKind::Bucket, key)?;
    document.map(|document| parse(&document.body)).transpose()
}

/// Running limits that are reached.
fn limit_reasons(tx: &mut ReadTx<'_>, config: &Config, job: &JobRecord) -> Result<Vec<Reason>, StoreError> {
    let mut found = Vec::new();
    for (part, limit) in config.running_limits(&job.lane) {
        if tx.db.counts()?.running(&part) < limit {
            continue;
        }
        let what = part.to_string();
        let message = format!("{what} already runs {limit} jobs, its limit");
        found.push(reason("max_running", message, json!({"scope": what, "limit": limit})));
    }
    if let Some(key) = job.concurrency {
        let filter = Filter { concurrency: Some(key), states: vec![JobState::Running], ..Filter::default() };
        let allowed = config.running_per_key(&job.lane);
        let limit = usize::try_from(allowed).unwrap_or(usize::MAX);
        let holders = tx.db.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?;
        if holders.len() as u64 >= allowed {
            let ids: Vec<String> = holders.iter().take(NAMED_MAX).map(|job| job.id.to_string()).collect();
            let message = format!("its concurrency key is held by {}", ids.join(", "));
            found.push(reason("concurrency_key_held", message, json!({"jobs": ids})));
        }
    }
    Ok(found)
}
