//! Counts and rates as sent by a server. Durations are sent as percentiles only, from which no histogram can be
//! restored; histograms stay empty.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::text::Moment;
use crate::job::{JobType, QueueName, Tenant};
use crate::store::documents::minute_stats::{Minute, minute_of};
use crate::store::query::stats::{ByState, Omitted, Stats};

/// Statistics of a period.
#[derive(Deserialize)]
pub(super) struct ShownRates {
    submitted: u64,
    claimed: u64,
    completed: u64,
    failed: u64,
    retried: u64,
    dead_letter: u64,
    cancelled: u64,
    reaped: u64,
}

impl From<ShownRates> for Minute {
    fn from(shown: ShownRates) -> Minute {
        Minute {
            submitted: shown.submitted,
            claimed: shown.claimed,
            completed: shown.completed,
            failed: shown.failed,
            retried: shown.retried,
            dead_letter: shown.dead_letter,
            cancelled: shown.cancelled,
            reaped: shown.reaped,
            ..Minute::default()
        }
    }
}

/// Job counts and rates.
#[derive(Deserialize)]
pub(super) struct ShownStats {
    states: ByState,
    queues: BTreeMap<QueueName, ByState>,
    types: BTreeMap<JobType, ByState>,
    tenants: BTreeMap<Tenant, ByState>,
    #[serde(default)]
    minutes: Vec<ShownMinute>,
    #[serde(default)]
    costs: Vec<ShownCost>,
    #[serde(default)]
    cascades: u64,
    #[serde(default)]
    left_out: ShownLeftOut,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ShownLeftOut {
    queues: u64,
    types: u64,
    tenants: u64,
    costs: u64,
}

#[derive(Deserialize)]
struct ShownMinute {
    at: Moment,
    #[serde(flatten)]
    rates: ShownRates,
}

#[derive(Deserialize)]
struct ShownCost {
    tenant: Tenant,
    r#type: JobType,
    cost_cents: i64,
}

impl From<ShownStats> for Stats {
    fn from(shown: ShownStats) -> Stats {
        let minute = |shown: ShownMinute| (minute_of(shown.at.0), shown.rates.into());
        let cost = |shown: ShownCost| ((shown.tenant, shown.r#type), shown.cost_cents);
        Stats {
            states: shown.states,
            queues: shown.queues,
            types: shown.types,
            tenants: shown.tenants,
            minutes: shown.minutes.into_iter().map(minute).collect(),
            costs: shown.costs.into_iter().map(cost).collect(),
            cascades: shown.cascades,
            left_out: Omitted {
                queues: shown.left_out.queues,
                types: shown.left_out.types,
                tenants: shown.left_out.tenants,
                costs: shown.left_out.costs,
            },
            paused: 0,
            spent: BTreeMap::new(),
        }
    }
}
