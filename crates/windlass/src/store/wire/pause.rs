//! Pauses, of one scope and of all processing.

use windlass_api::pause::{self as shown, Gate, GateScope, PauseBody};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::clock::Timestamp;
use crate::error::FieldError;
use crate::settings::PauseMode;
use crate::store::command::pause::Pause;
use crate::store::documents::config::{Config, PauseRecord, PauseScope, Resumption};

/// The pause that a request asks for at this time.
///
/// # Errors
/// [`FieldError`] if it ends in the past.
pub fn pause_request(body: PauseBody, now: Timestamp) -> Result<Pause, FieldError> {
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", now)).transpose()?;
    Ok(Pause { mode: body.mode.unwrap_or_default(), reason: body.reason, expires })
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
