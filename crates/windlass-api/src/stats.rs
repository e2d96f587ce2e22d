//! Counts, rates and histograms in the API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{JobState, JobType, QueueName, Tenant};

use crate::text::Text;
use crate::time::{Moment, Span};

/// Number of jobs by state.
pub type Counts = BTreeMap<Text<JobState>, u64>;

/// Counts and durations over some time.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Jobs submitted.
    pub submitted: u64,
    /// Attempts started.
    pub claimed: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs failed.
    pub failed: u64,
    /// Attempts that failed and are retried.
    pub retried: u64,
    /// Jobs that became dead letters.
    pub dead_letter: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Leases that expired.
    pub reaped: u64,
    /// Time from claimable to claimed.
    pub waited: Spread,
    /// Time from claimed to the end of the attempt.
    pub ran: Spread,
}

/// Quantiles of durations; null if there were none.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Half of them were not longer.
    pub p50: Option<Span>,
    /// 95 % of them were not longer.
    pub p95: Option<Span>,
    /// 99 % of them were not longer.
    pub p99: Option<Span>,
}

/// Rates of a queue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueueRates {
    /// The last complete minute.
    pub last_minute: Rates,
    /// The last hour.
    pub last_hour: Rates,
}

/// One minute.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Minute {
    /// Beginning of the minute.
    pub at: Moment,
    /// Its rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Cost of a tenant's jobs of one type.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Tenant.
    pub tenant: Text<Tenant>,
    /// Job type.
    pub r#type: Text<JobType>,
    /// Total cost.
    pub cost_cents: i64,
}

/// Counts and rates of jobs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Number of jobs by state.
    pub states: Counts,
    /// By queue.
    pub queues: BTreeMap<Text<QueueName>, Counts>,
    /// By job type.
    pub types: BTreeMap<Text<JobType>, Counts>,
    /// By tenant.
    pub tenants: BTreeMap<Text<Tenant>, Counts>,
    /// Counts per minute for the last hour.
    pub minutes: Vec<Minute>,
    /// Costs by tenant and type.
    pub costs: Vec<Cost>,
    /// Changes whose effects are not applied to all jobs yet, at most 1000; 0 for callers of one tenant.
    pub cascades: u64,
    /// How many of each are left out, if there are more than 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// How many queues, types, tenants and costs are left out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Queues.
    pub queues: u64,
    /// Job types.
    pub types: u64,
    /// Tenants.
    pub tenants: u64,
    /// Costs.
    pub costs: u64,
}
