//! What operators see: the clock, pauses, queues, types, tenants, workers.

use std::collections::BTreeMap;

use windlass_api::clock::ClockView;
use windlass_api::known::Known;
use windlass_api::pause::{self as shown, Gate, GateScope, PauseBody};
use windlass_api::queue::{self, TenantView, Type};
use windlass_api::text::Text;
use windlass_api::time::Moment;
use windlass_api::worker;

use super::stats::{counts, queue_rates};
use crate::clock::{ClockReport, Timestamp};
use crate::error::Invalid;
use crate::job::{JobType, Tenant};
use crate::store::command::pause::Pause;
use crate::store::documents::config::{Config, PauseMode, PauseRecord, PauseScope, Resumption, Worker};
use crate::store::documents::minute_stats::minute_of;
use crate::store::query::job_types::TypeInfo;
use crate::store::query::queues::QueueInfo;
use crate::store::query::stats::Stats;

/// The pause that a request asks for at this time.
///
/// # Errors
/// [`Invalid`] if it ends in the past.
pub fn pause_request(body: PauseBody, now: Timestamp) -> Result<Pause, Invalid> {
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", now)).transpose()?;
    Ok(Pause { mode: body.mode.unwrap_or_default(), reason: body.reason, expires })
}

impl From<&ClockReport> for ClockView {
    fn from(report: &ClockReport) -> ClockView {
        ClockView {
            store_time: report.now.into(),
            wall_clock: report.wall.into(),
            difference_ms: report.ahead_ms,
            believed: report.is_believed,
            not_believed_since: report.doubted_since.map(Moment),
            lifetimes_wait_until: report.lifetimes_from.map(Moment),
        }
    }
}

impl From<&PauseRecord> for shown::Pause {
    fn from(hold: &PauseRecord) -> shown::Pause {
        shown::Pause {
            by: hold.by.clone(),
            at: hold.since.into(),
            reason: hold.reason.clone(),
            mode: hold.mode,
            expires_at: hold.expires_at.map(Moment),
        }
    }
}

/// The pause of this scope.
pub fn pause_record(shown: shown::Pause, scope: PauseScope) -> PauseRecord {
    let expires_at = shown.expires_at.map(|moment| moment.0);
    PauseRecord { scope, mode: shown.mode, reason: shown.reason, by: shown.by, since: shown.at.0, expires_at }
}

impl From<&Resumption> for shown::Resumption {
    fn from(end: &Resumption) -> shown::Resumption {
        shown::Resumption { by: end.by.clone(), at: end.at.into(), reason: end.reason.clone() }
    }
}

/// A queue at this time.
pub fn queue(info: &QueueInfo, known: Known, now: Timestamp) -> queue::Queue {
    queue::Queue {
        name: Text(info.name.clone()),
        known,
        depth: counts(&info.depth),
        oldest_age: info.oldest.map(|since| now.since(since).into()),
        rates: queue_rates(&info.minutes, minute_of(now)),
        paused: info.paused.as_ref().map(Into::into),
        resumed: info.resumed.as_ref().map(Into::into),
        settings: (&info.settings).into(),
    }
}

/// A server's queue; only the rates of the last whole minute are available.
pub fn queue_info(shown: queue::Queue, now: Timestamp) -> QueueInfo {
    let scope = PauseScope::Queue { queue: shown.name.0.clone(), tenant: None };
    let resumed = shown.resumed.map(|end| Resumption {
        scope: scope.clone(),
        by: end.by,
        at: end.at.0,
        reason: end.reason,
    });
    QueueInfo {
        name: shown.name.0,
        depth: shown.depth.iter().collect(),
        oldest: shown.oldest_age.map(|age| now.minus(age.0)),
        minutes: BTreeMap::from([(minute_of(now) - 1, (&shown.rates.last_minute).into())]),
        paused: shown.paused.map(|pause| pause_record(pause, scope)),
        resumed,
        settings: shown.settings.into(),
    }
}

/// A job type at this time.
pub fn job_type(info: &TypeInfo, known: Known, now: Timestamp) -> Type {
    Type {
        r#type: Text(info.name.clone()),
        known,
        depth: counts(&info.depth),
        rates: queue_rates(&info.minutes, minute_of(now)),
        paused: info.paused.as_ref().map(Into::into),
        settings: (&info.settings).into(),
    }
}

/// A tenant at this time.
pub fn tenant(tenant: &Tenant, known: Known, stats: &Stats, config: &Config, now: Timestamp) -> TenantView {
    let hold = config.pauses.get(&PauseScope::Tenant(tenant.clone())).filter(|hold| hold.is_active(now));
    // Costs are sorted by tenant, and there may be many.
    let first = JobType::new("A").expect("it is a name, and sorts before all others");
    let costs = stats.costs.range((tenant.clone(), first)..);
    let costs = costs.take_while(|((whose, _), _)| whose == tenant);
    TenantView {
        tenant: Text(tenant.clone()),
        known,
        depth: counts(&stats.tenants.get(tenant).cloned().unwrap_or_default()),
        cost_cents: costs.map(|(_, cents)| cents).sum(),
        paused: hold.map(Into::into),
        settings: (&config.tenants.get(tenant).cloned().unwrap_or_default()).into(),
    }
}

/// A worker at this time.
pub fn worker(worker: &Worker, config: &Config, now: Timestamp) -> worker::Worker {
    worker::Worker {
        id: Text(worker.id),
        name: worker.name.clone(),
        tenant: worker.tenant.clone().map(Text),
        queues: worker.queues.iter().cloned().map(Text).collect(),
        types: worker.types.iter().cloned().map(Text).collect(),
        concurrency: worker.concurrency,
        version: worker.version.clone(),
        heartbeats: worker.heartbeats,
        registered_at: worker.registered_at.into(),
        seen_at: worker.seen_at.into(),
        alive: !worker.is_lost && !worker.is_silent(now),
        paused: config.worker_pause(worker.id, now).map(Into::into),
    }
}

/// A server's worker, and its pause.
pub fn stored_worker(shown: worker::Worker) -> (Worker, Option<PauseRecord>) {
    let id = shown.id.0;
    let hold = shown.paused.map(|pause| pause_record(pause, PauseScope::Worker(id)));
    let worker = Worker {
        id,
        name: shown.name,
        tenant: shown.tenant.map(|tenant| tenant.0),
        queues: shown.queues.into_iter().map(|queue| queue.0).collect(),
        types: shown.types.into_iter().map(|name| name.0).collect(),
        concurrency: shown.concurrency,
        version: shown.version,
        heartbeats: shown.heartbeats,
        registered_at: shown.registered_at.0,
        seen_at: shown.seen_at.0,
        is_lost: !shown.alive,
        is_paused: false,
        key: None,
    };
    (worker, hold)
}

/// Whether jobs are processed at this time.
pub fn gate(config: &Config, now: Timestamp) -> Gate {
    let whole = config.pauses.get(&PauseScope::Gate).filter(|hold| hold.is_active(now));
    let active = config.pauses.values().filter(|hold| hold.is_active(now));
    Gate {
        online: whole.is_none(),
        reason: whole.and_then(|hold| hold.reason.clone()),
        by: whole.map(|hold| hold.by.clone()),
        since: whole.map(|hold| hold.since.into()),
        expires_at: whole.and_then(|hold| hold.expires_at).map(Moment),
        scopes: active.filter_map(gate_scope).collect(),
    }
}

fn gate_scope(hold: &PauseRecord) -> Option<GateScope> {
    let (tenant, job_type) = match &hold.scope {
        PauseScope::Tenant(tenant) => (Some(tenant.clone()), None),
        PauseScope::Type { job_type, tenant } => (tenant.clone(), Some(job_type.clone())),
        PauseScope::Gate | PauseScope::Queue { .. } | PauseScope::Worker(_) => return None,
    };
    Some(GateScope {
        tenant: tenant.map(Text),
        r#type: job_type.map(Text),
        reason: hold.reason.clone(),
        by: hold.by.clone(),
        since: hold.since.into(),
        expires_at: hold.expires_at.map(Moment),
    })
}

/// The pauses of a server's processing.
pub fn gate_pauses(gate: Gate) -> Vec<PauseRecord> {
    let whole = (!gate.online).then(|| PauseRecord {
        scope: PauseScope::Gate,
        mode: PauseMode::Graceful,
        reason: gate.reason,
        by: gate.by.unwrap_or_default(),
        since: gate.since.map_or(Timestamp::MIN, |moment| moment.0),
        expires_at: gate.expires_at.map(|moment| moment.0),
    });
    let part = |shown: GateScope| {
        let scope = match (shown.r#type, shown.tenant) {
            (Some(name), tenant) => {
                PauseScope::Type { job_type: name.0, tenant: tenant.map(|tenant| tenant.0) }
            }
            (None, Some(tenant)) => PauseScope::Tenant(tenant.0),
            (None, None) => return None,
        };
        let (mode, expires_at) = (PauseMode::Graceful, shown.expires_at.map(|moment| moment.0));
        Some(PauseRecord {
            scope,
            mode,
            reason: shown.reason,
            by: shown.by,
            since: shown.since.0,
            expires_at,
        })
    };
    whole.into_iter().chain(gate.scopes.into_iter().filter_map(part)).collect()
}
