//! Why a job does not run: every reason at once, each with who and until when (M102).

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::clock::whole_millis;
use crate::error::StoreError;
use crate::job::{Bucket, Job, Rate, State, Wait};
use crate::store::budget::{self, Spent};
use crate::store::command::throttle::{KeyBucket, key_bucket_key};
use crate::store::config::{Config, Hold, Scope, parse};
use crate::store::engine::{DocumentKind, Side};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::view::View;

/// One reason why a job does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    /// A stable word for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// Everything known about it.
    pub details: Value,
}

/// How many reasons are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The first; nothing is looked up that it does not need.
    First,
    /// All of them.
    All,
}

/// How many jobs are named in one reason.
const NAMED_MAX: usize = 10;

fn reason(code: &'static str, message: impl Into<String>, details: Value) -> Reason {
    Reason { code, message: message.into(), details }
}

/// Why this job does not run now; empty for one that is final, running, or about to be claimed.
pub(crate) fn reasons(view: &mut View<'_>, job: &Job, depth: Depth) -> Result<Vec<Reason>, StoreError> {
    if job.state.is_final() || job.state == State::Running {
        return Ok(Vec::new());
    }
    let mut found = own_reasons(view, job, depth)?;
    if depth == Depth::First && !found.is_empty() {
        return Ok(found);
    }
    let config = view.config()?;
    let holds: Vec<Hold> = config.holds_on(&job.lane, view.now).cloned().collect();
    found.extend(holds.iter().map(held_by));
    if depth == Depth::First && !found.is_empty() {
        return Ok(found);
    }
    if job.state == State::Scheduled {
        found.extend(limit_reasons(view, &config, job)?);
        found.extend(rate_reasons(view, &config, job)?);
        found.extend(budget_reason(view, &config, job)?);
    }
    found.extend(without_workers(view, &config, job));
    Ok(found)
}

/// Nobody who could take it is alive and at work (M104).
fn without_workers(view: &View<'_>, config: &Config, job: &Job) -> Option<Reason> {
    let (lane, now) = (&job.lane, view.now);
    let live = config
        .workers
        .values()
        .filter(|worker| worker.takes(lane) && !worker.is_lost && !worker.is_silent(now));
    let (paused, at_work): (Vec<_>, Vec<_>) =
        live.partition(|worker| config.hold_on_worker(worker.id, now).is_some());
    if !at_work.is_empty() {
        return None;
    }
    let what = format!("{} from queue {}", lane.job_type, lane.queue);
    let message = if paused.is_empty() {
        format!("no live worker takes {what}")
    } else {
        format!("every live worker that takes {what} is paused")
    };
    let ids: Vec<String> = paused.iter().map(|worker| worker.id.to_string()).take(NAMED_MAX).collect();
    let details = json!({"type": lane.job_type.as_str(), "queue": lane.queue.as_str(), "paused": ids});
    Some(reason("no_worker", message, details))
}

/// What lies in the job itself.
fn own_reasons(view: &mut View<'_>, job: &Job, depth: Depth) -> Result<Vec<Reason>, StoreError> {
    let mut found = Vec::new();
    if let Some(suspension) = &job.details.suspension {
        let until = suspension.expires_at.map_or(String::new(), |at| format!(" until {at}"));
        let message = format!("suspended by {}{until}", suspension.by);
        let since = job.details.suspended_at.map(|at| at.to_string());
        let details = json!({"by": suspension.by, "since": since, "reason": suspension.reason,
            "expires_at": suspension.expires_at.map(|at| at.to_string())});
        found.push(reason("suspended", message, details));
    }
    if job.details.is_held {
        found.push(reason("held", "held by its submitter: submit it to let it run", json!({})));
    }
    if let Some(wait) = &job.details.wait {
        found.push(waiting_for(wait));
    }
    if job.has_unmet_dependencies() {
        found.push(unmet_dependencies(view, job, depth)?);
    }
    let runs_at = job.next_run_at();
    if runs_at > view.now {
        let what = if job.retry_at.is_some() { "its retry" } else { "it" };
        let message = format!("{what} is not due until {runs_at}");
        found.push(reason("not_due", message, json!({"run_at": runs_at.to_string()})));
    }
    Ok(found)
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
    }
}

fn unmet_dependencies(view: &mut View<'_>, job: &Job, depth: Depth) -> Result<Reason, StoreError> {
    let mut open = Vec::new();
    if depth == Depth::All {
        let edges = view.db.edges(&[job.seq], Side::Dependent)?;
        let seqs: Vec<_> = edges.iter().map(|edge| edge.dependency).collect();
        for dependency in view.db.load(&seqs)?.into_iter().flatten().filter(|job| !job.state.is_final()) {
            if open.len() < NAMED_MAX {
                open.push(json!({"id": dependency.id.to_string(), "state": dependency.state.as_str()}));
            }
        }
    }
    let count = job.after_unmet + u32::from(job.any_unmet);
    let message = match count {
        1 => "waits for another job".to_owned(),
        count => format!("waits for {count} other jobs"),
    };
    Ok(reason("dependencies_unmet", message, json!({"unmet": count, "jobs": open})))
}

fn held_by(hold: &Hold) -> Reason {
    let (code, what) = match &hold.scope {
        Scope::Queue { queue, .. } => ("queue_paused", format!("queue {queue} is paused")),
        Scope::Gate => ("gate_closed", "the gate is closed".to_owned()),
        Scope::Tenant(tenant) => ("gate_closed", format!("the gate is closed for tenant {tenant}")),
        Scope::Type { job_type, .. } => ("gate_closed", format!("the gate is closed for type {job_type}")),
        Scope::Worker(worker) => ("queue_paused", format!("worker {worker} is paused")),
    };
    let until = hold.expires_at.map_or(String::new(), |at| format!(" until {at}"));
    let message = format!("{what} by {} since {}{until}", hold.by, hold.since);
    let details = json!({"by": hold.by, "since": hold.since.to_string(), "reason": hold.reason,
        "expires_at": hold.expires_at.map(|at| at.to_string())});
    reason(code, message, details)
}

/// Rates that have no token left (M111).
fn rate_reasons(view: &mut View<'_>, config: &Config, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let mut found = Vec::new();
    let mut note = |what: String, rate: Rate, bucket: Bucket| {
        let until = bucket.next_at();
        let message =
            format!("{what} starts no more than {} jobs in {:?}: not before {until}", rate.count, rate.per);
        let details = json!({"scope": what, "count": rate.count, "per_ms": whole_millis(rate.per),
            "until": until.to_string()});
        found.push(reason("rate_limited", message, details));
    };
    for (part, rate) in config.rates(&job.lane) {
        let bucket: Option<Bucket> = tally(view, &part.bucket_key())?;
        let bucket = bucket.map(|bucket| bucket.at(view.now).under(rate));
        if let Some(bucket) = bucket.filter(|bucket| bucket.tokens() == 0) {
            note(part.to_string(), rate, bucket);
        }
    }
    if let (Some(key), Some(rate)) = (job.concurrency, config.rate_per_key(&job.lane)) {
        let kept: Option<KeyBucket> = tally(view, &key_bucket_key(&job.lane.queue, key))?;
        let bucket = kept.map(|kept| kept.bucket.at(view.now).under(rate));
        if let Some(bucket) = bucket.filter(|bucket| bucket.tokens() == 0) {
            note("its concurrency key".to_owned(), rate, bucket);
        }
    }
    Ok(found)
}

/// Its tenant has spent its budget.
fn budget_reason(view: &mut View<'_>, config: &Config, job: &Job) -> Result<Option<Reason>, StoreError> {
    let tenant = &job.lane.tenant;
    let own = config.tenant_settings(&job.lane);
    let Some(settings) = own.filter(|settings| settings.budget_cents.is_some()) else {
        return Ok(None);
    };
    let spent: Option<Spent> = tally(view, &budget::spent_key(tenant))?;
    Ok(budget::overdrawn(settings, spent.as_ref(), view.now).map(|over| {
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

/// How far a rate or budget is used.
fn tally<T: DeserializeOwned>(view: &mut View<'_>, key: &str) -> Result<Option<T>, StoreError> {
    let document = view.db.document(DocumentKind::Bucket, key)?;
    document.map(|document| parse(&document.body)).transpose()
}

/// Limits that are used up (M110).
fn limit_reasons(view: &mut View<'_>, config: &Config, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let mut found = Vec::new();
    for (part, limit) in config.running_limits(&job.lane) {
        if view.db.counts()?.running(&part) < limit {
            continue;
        }
        let what = part.to_string();
        let message = format!("{what} runs {limit} jobs already, its limit");
        found.push(reason("max_running", message, json!({"scope": what, "limit": limit})));
    }
    if let Some(key) = job.concurrency {
        let filter = Filter { concurrency: Some(key), states: vec![State::Running], ..Filter::default() };
        let allowed = config.running_per_key(&job.lane);
        let limit = usize::try_from(allowed).unwrap_or(usize::MAX);
        let holders = view.db.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?;
        if holders.len() as u64 >= allowed {
            let ids: Vec<String> = holders.iter().take(NAMED_MAX).map(|job| job.id.to_string()).collect();
            let message = format!("its concurrency key is held by {}", ids.join(", "));
            found.push(reason("concurrency_key_held", message, json!({"jobs": ids})));
        }
    }
    Ok(found)
}
