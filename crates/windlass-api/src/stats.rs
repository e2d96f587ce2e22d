//! Counts, rates and histograms in the API.

pub mod history;

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use windlass_core::job::{JobState, JobType, QueueName, Tenant};
use windlass_core::skip_none;

use crate::text::Text;
use crate::time::{Moment, Span};

/// Number of jobs by state. A state that only a later version knows is left out while it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Counts(pub BTreeMap<Text<JobState>, u64>);

impl Counts {
    /// The number of jobs in these states.
    pub fn sum(&self, states: &[JobState]) -> u64 {
        self.iter().filter(|(state, _)| states.contains(state)).map(|(_, count)| count).sum()
    }

    /// States and their numbers, in the order of a job's life.
    pub fn iter(&self) -> impl Iterator<Item = (JobState, u64)> {
        self.0.iter().map(|(state, count)| (state.0, *count))
    }
}

impl FromIterator<(JobState, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (JobState, u64)>>(counts: I) -> Counts {
        Counts(counts.into_iter().map(|(state, count)| (Text(state), count)).collect())
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Counts, D::Error> {
        let all = BTreeMap::<String, u64>::deserialize(deserializer)?;
        Ok(all.into_iter().filter_map(|(state, count)| Some((state.parse().ok()?, count))).collect())
    }
}

/// Open: a later version may know more states.
impl JsonSchema for Counts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, u64>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

/// Counts and durations over some time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
    pub waited: Quantiles,
    /// Time from claimed to the end of the attempt.
    pub ran: Quantiles,
}

impl Rates {
    /// Number of attempts that failed, whether they are retried or not.
    pub fn failed_attempts(&self) -> u64 {
        self.failed + self.retried + self.dead_letter
    }
}

/// Quantiles of durations; null if there were none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Half of them were not longer.
    pub p50: Option<Span>,
    /// 95 % of them were not longer.
    pub p95: Option<Span>,
    /// 99 % of them were not longer.
    pub p99: Option<Span>,
}

/// Rates of a queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueueRates {
    /// The last complete minute.
    pub last_minute: Rates,
    /// The last hour.
    pub last_hour: Rates,
}

/// One minute.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Minute {
    /// Beginning of the minute.
    pub at: Moment,
    /// Its rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Cost of a tenant's jobs of one type.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Tenant.
    pub tenant: Text<Tenant>,
    /// Job type.
    pub r#type: Text<JobType>,
    /// Total cost.
    pub cost_cents: i64,
}

/// Counts and rates of jobs.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Number of jobs by state.
    pub states: Counts,
    /// By queue.
    #[schemars(with = "BTreeMap<String, Counts>")]
    pub queues: BTreeMap<Text<QueueName>, Counts>,
    /// By job type.
    #[schemars(with = "BTreeMap<String, Counts>")]
    pub types: BTreeMap<Text<JobType>, Counts>,
    /// By tenant.
    #[schemars(with = "BTreeMap<String, Counts>")]
    pub tenants: BTreeMap<Text<Tenant>, Counts>,
    /// Counts per minute for the last hour.
    pub minutes: Vec<Minute>,
    /// Costs by tenant and type.
    pub costs: Vec<Cost>,
    /// Changes whose effects are not applied to all jobs yet, at most 1000; 0 for callers of one tenant.
    pub cascades: u64,
    /// Jobs that failed and were not redriven.
    pub unresolved: Option<Unresolved>,
    /// How many of each are left out, if there are more than 1000.
    pub left_out: Option<LeftOut>,
}

/// Jobs that failed and were not redriven, which need attention. The counts by state include those that were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unresolved {
    /// Jobs in `failed`.
    pub failed: u64,
    /// Dead letters.
    pub dead_letter: u64,
    /// False if there are more than were counted: each up to 499.
    pub complete: bool,
}

/// How many queues, types, tenants and costs are left out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_only_a_later_version_knows_is_left_out() {
        let counts: Counts =
            serde_json::from_str(r#"{"running": 2, "paused_by_moon": 3, "failed": 4}"#).unwrap();
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(JobState::Running, 2), (JobState::Failed, 4)]);
        assert_eq!(counts.sum(&[JobState::Failed, JobState::Running, JobState::Created]), 6);
    }
}
