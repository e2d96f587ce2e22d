//! Statistics over time in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{JobType, QueueName};
use windlass_core::skip_none;

use super::Rates;
use crate::text::Text;
use crate::time::{Moment, Span};

/// Which statistics are wanted. At most one of `queue` and `type`.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryQuery {
    /// How much time, from `5m` to `30d`; one hour if not given. Rounded up to whole steps.
    pub range: Option<Span>,
    /// The end; now if not given.
    pub until: Option<Moment>,
    /// Only jobs of this queue.
    #[schemars(with = "Option<String>")]
    pub queue: Option<Text<QueueName>>,
    /// Only jobs of this type.
    #[schemars(with = "Option<String>")]
    pub r#type: Option<Text<JobType>>,
}

/// Statistics over time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StatsHistory {
    /// Begin of the first point.
    pub from: Moment,
    /// End of the last point; the point that contains the current time is incomplete.
    pub until: Moment,
    /// The time from one point to the next: a minute within the last hour, ten minutes within four days, longer before.
    pub step: Span,
    /// The points in order, without gaps; at most 180.
    pub points: Vec<HistoryPoint>,
    /// All points together.
    pub total: Period,
    /// The same time before; null if nothing is known about it.
    pub previous: Option<Period>,
}

/// One step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPoint {
    /// Its beginning.
    pub at: Moment,
    /// Its statistics.
    #[serde(flatten)]
    pub period: Period,
}

/// Statistics of some time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Period {
    /// What happened.
    #[serde(flatten)]
    pub rates: Rates,
    /// Jobs that were ready to be claimed, sampled once a minute; null without samples.
    pub ready: Option<Level>,
    /// Jobs that were running.
    pub running: Option<Level>,
    /// The share of the live workers' slots in use, from 0 to 1; null for a queue, a type, a tenant's key or without workers.
    pub utilisation: Option<f64>,
}

/// A number that was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// The average of the samples.
    pub average: f64,
    /// The largest sample.
    pub max: u64,
}
