//! Counts and rates. Durations are sent as percentiles only, from which no histogram can be restored; histograms of
//! clients of a server stay empty.

use std::collections::BTreeMap;

use windlass_api::stats::history::{HistoryPoint, Level, Period, StatsHistory};
use windlass_api::stats::{self as shown, Cost, Counts, LeftOut, Quantiles, QueueRates, Rates};
use windlass_api::text::Text;
use windlass_api::time::Span;

use crate::clock::Timestamp;
use crate::job::{JobType, Tenant};
use crate::ordered::CollectOrdered;
use crate::store::documents::history::{Gauge, Point};
use crate::store::documents::latency::LatencyHistogram;
use crate::store::documents::minute_stats::{Minute, minute_of};
use crate::store::query::history::History;
use crate::store::query::stats::{ByState, OmittedCounts, Stats};

/// Counts by state.
pub fn counts(by_state: &ByState) -> Counts {
    by_state.iter().map(|(state, count)| (*state, *count)).collect()
}

fn by_state(counts: &Counts) -> ByState {
    counts.iter().collect()
}

impl From<&LatencyHistogram> for Quantiles {
    fn from(spread: &LatencyHistogram) -> Quantiles {
        let at = |share: f64| spread.percentile(share).map(Span);
        Quantiles { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

impl From<&Minute> for Rates {
    fn from(minute: &Minute) -> Rates {
        Rates {
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

impl From<&Rates> for Minute {
    fn from(shown: &Rates) -> Minute {
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

fn level(gauge: &Gauge) -> Option<Level> {
    gauge.average().map(|average| Level { average, max: gauge.max })
}

impl From<&Point> for Period {
    fn from(point: &Point) -> Period {
        Period {
            rates: (&point.counts).into(),
            ready: level(&point.ready),
            running: level(&point.running),
            utilisation: point.utilisation(),
        }
    }
}

impl From<&History> for StatsHistory {
    fn from(history: &History) -> StatsHistory {
        let begins = std::iter::successors(Some(history.from), |at| Some(at.plus(history.step)));
        let points = begins.zip(&history.points);
        StatsHistory {
            from: history.from.into(),
            until: history.until.into(),
            step: Span(history.step),
            points: points.map(|(at, point)| HistoryPoint { at: at.into(), period: point.into() }).collect(),
            total: (&history.total).into(),
            previous: history.previous.as_ref().map(Period::from),
        }
    }
}

/// The rates in these minutes, which are numbered since 1970; `now` is the current one.
pub fn queue_rates(minutes: &BTreeMap<i64, Minute>, now: i64) -> QueueRates {
    let mut hour = Minute::default();
    for minute in minutes.values() {
        hour.merge(minute);
    }
    let last = minutes.get(&(now - 1)).cloned().unwrap_or_default();
    QueueRates { last_minute: (&last).into(), last_hour: (&hour).into() }
}

impl From<&Stats> for shown::Stats {
    fn from(stats: &Stats) -> shown::Stats {
        fn named<N: Ord + Clone>(by_name: &BTreeMap<N, ByState>) -> BTreeMap<Text<N>, Counts> {
            by_name.iter().map(|(name, by_state)| (Text(name.clone()), counts(by_state))).collect_ordered()
        }
        let minute = |(number, minute): (&i64, &Minute)| shown::Minute {
            at: Timestamp::from_millis(number * 60_000).into(),
            rates: minute.into(),
        };
        let cost = |((tenant, job_type), cents): (&(Tenant, JobType), &i64)| Cost {
            tenant: Text(tenant.clone()),
            r#type: Text(job_type.clone()),
            cost_cents: *cents,
        };
        let OmittedCounts { queues, types, tenants, costs } = stats.left_out;
        shown::Stats {
            states: counts(&stats.states),
            queues: named(&stats.queues),
            types: named(&stats.types),
            tenants: named(&stats.tenants),
            minutes: stats.minutes.iter().map(minute).collect(),
            costs: stats.costs.iter().map(cost).collect(),
            cascades: stats.cascades,
            unresolved: None,
            left_out: (stats.left_out != OmittedCounts::default()).then_some(LeftOut {
                queues,
                types,
                tenants,
                costs,
            }),
        }
    }
}

impl From<shown::Stats> for Stats {
    fn from(shown: shown::Stats) -> Stats {
        fn named<N: Ord>(shown: BTreeMap<Text<N>, Counts>) -> BTreeMap<N, ByState> {
            shown.into_iter().map(|(name, counts)| (name.0, by_state(&counts))).collect_ordered()
        }
        let minute = |minute: shown::Minute| (minute_of(minute.at.0), (&minute.rates).into());
        let cost = |cost: Cost| ((cost.tenant.0, cost.r#type.0), cost.cost_cents);
        let left_out = shown.left_out.map(|LeftOut { queues, types, tenants, costs }| OmittedCounts {
            queues,
            types,
            tenants,
            costs,
        });
        Stats {
            states: by_state(&shown.states),
            queues: named(shown.queues),
            types: named(shown.types),
            tenants: named(shown.tenants),
            minutes: shown.minutes.into_iter().map(minute).collect_ordered(),
            costs: shown.costs.into_iter().map(cost).collect_ordered(),
            cascades: shown.cascades,
            left_out: left_out.unwrap_or_default(),
            paused: 0,
            spent: BTreeMap::new(),
        }
    }
}
