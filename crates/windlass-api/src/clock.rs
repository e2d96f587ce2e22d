//! Store time and the wall clock in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Moment;

/// Store time and the wall clock, as seen by the responding node.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Clock")]
pub struct ClockView {
    /// The time that timers, leases and lifetimes go by.
    pub store_time: Moment,
    /// The database's clock on PostgreSQL, otherwise the machine's.
    pub wall_clock: Moment,
    /// Milliseconds by which the wall clock is ahead of store time; negative if it is behind.
    pub difference_ms: i64,
    /// False after the wall clock jumped by more than a minute: store time continues without it until it is accepted.
    pub believed: bool,
    /// Since when the wall clock is not trusted, in store time.
    pub not_believed_since: Option<Moment>,
    /// Until when no lifetime expires and nothing is pruned, because store time jumped at startup.
    pub lifetimes_wait_until: Option<Moment>,
}

/// The clock after it was accepted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-variant-of" = "Clock"))]
pub struct AcceptedClock {
    #[allow(missing_docs, reason = "it is named for what it is")]
    #[serde(flatten)]
    pub clock: ClockView,
    /// Whether it was not trusted before; only in the response to an action.
    pub changed: bool,
}
