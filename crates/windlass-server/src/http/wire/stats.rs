//! Counts, rates and histograms in the API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use windlass::clock::Timestamp;
use windlass::job::{JobType, Tenant};
use windlass::store::documents::minute_stats::{LatencyHistogram, Minute};
use windlass::store::query::stats::{ByState, Omitted, Stats};

use super::text::Text;
use super::time::{Moment, Span};

/// Number of jobs by state.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Counts with the states by name.
pub(crate) fn counts(by_state: &ByState) -> Counts {
    by_state.iter().map(|(state, count)| (state.as_str(), *count)).collect()
}

/// Counts and durations over some time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rates")]
pub(crate) struct RatesView {
    submitted: u64,
    /// Attempts started.
    claimed: u64,
    completed: u64,
    failed: u64,
    /// Attempts that failed and are retried.
    retried: u64,
    dead_letter: u64,
    cancelled: u64,
    /// Leases that expired.
    reaped: u64,
    /// Time from claimable to claimed.
    waited: HistogramView,
    /// Time from claimed to the end of the attempt.
    ran: HistogramView,
}

/// Quantiles of durations; null if there were none.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Spread")]
struct HistogramView {
    p50: Option<Span>,
    p95: Option<Span>,
    p99: Option<Span>,
}

impl From<&LatencyHistogram> for HistogramView {
    fn from(spread: &LatencyHistogram) -> HistogramView {
        let at = |share: f64| spread.percentile(share).map(Span);
        HistogramView { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

impl From<&Minute> for RatesView {
    fn from(minute: &Minute) -> RatesView {
        RatesView {
            submitted: minute.submitted,
            claimed: minute.claimed,
            completed: minute.completed,
            failed: minute.failed,
            retried: minute.retried,
            dead_letter: minute.dead_letter,
            cancelled: minute.cancelled,
            reaped: minute.reaped,
            waited: (&minute.waited).into(),
            ran: (&minute.ran).into(),
        }
    }
}

/// Rates of a queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueueRates {
    /// The last complete minute.
    last_minute: RatesView,
    /// The last hour.
    last_hour: RatesView,
}

impl QueueRates {
    /// The rates in these minutes, which are numbered since 1970; `now` is the current one.
    pub(crate) fn of(minutes: &BTreeMap<i64, Minute>, now: i64) -> QueueRates {
        let mut hour = Minute::default();
        for minute in minutes.values() {
            hour.merge(minute);
        }
        let last = minutes.get(&(now - 1)).cloned().unwrap_or_default();
        QueueRates { last_minute: (&last).into(), last_hour: (&hour).into() }
    }
}

/// One minute.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Minute")]
pub(crate) struct MinuteView {
    at: Moment,
    #[serde(flatten)]
    rates: RatesView,
}

/// Cost of a tenant's jobs of one type.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cost")]
pub(crate) struct CostView {
    tenant: Text<Tenant>,
    r#type: Text<JobType>,
    cost_cents: i64,
}

/// Counts and rates of jobs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
pub(crate) struct StatsView {
    states: Counts,
    queues: BTreeMap<String, Counts>,
    types: BTreeMap<String, Counts>,
    tenants: BTreeMap<String, Counts>,
    /// Counts per minute for the last hour.
    minutes: Vec<MinuteView>,
    costs: Vec<CostView>,
    /// Changes whose effects are not applied to all jobs yet, at most 1000; 0 for callers of one tenant.
    cascades: u64,
    /// How many of each are left out, if there are more than 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOutView>,
}

/// How many queues, types, tenants and costs are left out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LeftOut")]
struct LeftOutView {
    queues: u64,
    types: u64,
    tenants: u64,
    costs: u64,
}

impl From<&Stats> for StatsView {
    fn from(stats: &Stats) -> StatsView {
        fn named<N: ToString>(by_name: &BTreeMap<N, ByState>) -> BTreeMap<String, Counts> {
            by_name.iter().map(|(name, by_state)| (name.to_string(), counts(by_state))).collect()
        }
        let minute = |(number, minute): (&i64, &Minute)| MinuteView {
            at: Timestamp::from_millis(number * 60_000).into(),
            rates: minute.into(),
        };
        let cost = |((tenant, job_type), cents): (&(Tenant, JobType), &i64)| CostView {
            tenant: Text(tenant.clone()),
            r#type: Text(job_type.clone()),
            cost_cents: *cents,
        };
        let left_out = stats.left_out;
        StatsView {
            states: counts(&stats.states),
            queues: named(&stats.queues),
            types: named(&stats.types),
            tenants: named(&stats.tenants),
            minutes: stats.minutes.iter().map(minute).collect(),
            costs: stats.costs.iter().map(cost).collect(),
            cascades: stats.cascades,
            left_out: (left_out != Omitted::default()).then_some(LeftOutView {
                queues: left_out.queues,
                types: left_out.types,
                tenants: left_out.tenants,
                costs: left_out.costs,
            }),
        }
    }
}
