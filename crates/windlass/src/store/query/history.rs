//! Statistics over time: minutes of the last hour, ten minutes of the last days, hours of the last month. What is not
//! rolled up yet is added from the minutes, so that the newest point is as new as the counters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stats::minutes_by_lane;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::limits;
use crate::store::caller::Caller;
use crate::store::command::maintenance::roll_up::{error_history, errors_by_minute, progress, samples};
use crate::store::documents::config::parse;
use crate::store::documents::error_stats::ErrorStats;
use crate::store::documents::history::{HistoryScope, HistorySubject, Periods, Point, Resolution};
use crate::store::documents::minute_stats::minute_of;
use crate::store::engine::{DocumentKind, DocumentRange};
use crate::store::tx::read_tx::ReadTx;

/// Which statistics are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Of which jobs.
    pub part: HistorySubject,
    /// For how long, from [`limits::HISTORY_RANGE_MIN`] to [`limits::HISTORY_RANGE_MAX`]; other values are taken for the
    /// nearer of them.
    pub range: Duration,
    /// The end; now if not given.
    pub until: Option<Timestamp>,
}

/// Statistics over time. The times are rounded to whole steps.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// Begin of the first point.
    pub from: Timestamp,
    /// End of the last point. The point that contains the current time is incomplete.
    pub until: Timestamp,
    /// The time from one point to the next.
    pub step: Duration,
    /// The points in order, without gaps; a point without events is empty.
    pub points: Vec<Point>,
    /// The sum of all points.
    pub total: Point,
    /// The sum over the same time before; `None` if nothing is known about it.
    pub previous: Option<Point>,
}

/// The minutes from the first to before the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: i64,
    before: i64,
}

impl Span {
    /// The finest statistics that are kept for the whole time: minutes, or longer periods.
    fn resolution(self, now: i64) -> Option<Resolution> {
        if self.from > now - limits::RATE_MINUTES_KEPT {
            return None;
        }
        let is_kept = |resolution: &Resolution| self.from >= now - resolution.kept();
        Some(Resolution::ALL.into_iter().find(is_kept).unwrap_or(Resolution::Hours))
    }
}

/// Lengths of the steps of a chart in minutes, each a multiple of the one before.
const STEPS: [i64; 6] = [1, 10, 30, 60, 180, 360];

/// Whole steps that contain the time of `length` minutes that ends at `until`, and the minutes of a step.
fn steps(length: i64, until: i64, now: i64) -> (Span, i64) {
    let base = Span { from: until - length, before: until }.resolution(now).map_or(1, Resolution::minutes);
    let fits = |step: &i64| *step >= base && (length + step - 1) / step <= limits::HISTORY_POINTS_MAX;
    let step = STEPS.into_iter().find(fits).unwrap_or(STEPS[STEPS.len() - 1]);
    let before = (until + step - 1).div_euclid(step) * step;
    let length = (length + step - 1) / step * step;
    (Span { from: before - length, before }, step)
}

/// Statistics of what this caller can see.
pub(crate) fn history(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    wanted: &HistoryRequest,
) -> Result<History, StoreError> {
    let now = minute_of(tx.now);
    let scope = HistoryScope { tenant: caller.tenant.clone(), part: wanted.part.clone() };
    let range = wanted.range.clamp(limits::HISTORY_RANGE_MIN, limits::HISTORY_RANGE_MAX);
    let length = i64::try_from(range.as_secs().div_ceil(60)).unwrap_or(i64::MAX);
    // The minute that has begun belongs to it; nothing is known about later ones.
    let until = wanted.until.map_or(now + 1, |at| minute_of(at.plus(Duration::from_millis(59_999))));
    let (span, step) = steps(length, until.clamp(now + 1 - limits::HISTORY_HOURS_KEPT, now + 1), now);
    let mut points = vec![Point::default(); usize::try_from((span.before - span.from) / step).unwrap_or(0)];
    let mut total = Point::default();
    for (minute, point) in load(tx, &scope, span, now)? {
        total.merge(&point);
        let place = usize::try_from((minute - span.from) / step).unwrap_or(0);
        if let Some(sum) = points.get_mut(place) {
            sum.merge(&point);
        }
    }
    let before = Span { from: 2 * span.from - span.before, before: span.from };
    let mut previous = Point::default();
    if before.from >= now - limits::HISTORY_HOURS_KEPT {
        for point in load(tx, &scope, before, now)?.values() {
            previous.merge(point);
        }
    }
    let at = |minute: i64| Timestamp::from_millis(minute * 60_000);
    Ok(History {
        from: at(span.from),
        until: at(span.before),
        step: Duration::from_secs(u64::try_from(step * 60).unwrap_or(0)),
        points,
        total,
        previous: Some(previous).filter(|previous| !previous.is_empty()),
    })
}

/// Errors by fingerprint: what is stored, and the minutes that are not rolled up yet.
pub(crate) fn errors(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
) -> Result<BTreeMap<String, ErrorStats>, StoreError> {
    let (now, next) = (minute_of(tx.now), progress(tx.db)?.next_minute());
    let mut history = error_history(tx.db, caller.tenant.as_ref())?;
    for (minute, _, counts) in errors_by_minute(tx.db, (next, now + 1), |tenant| caller.can_see(tenant))? {
        history.add(&counts, minute);
    }
    history.trim(now);
    Ok(history.0)
}

/// What is stored about some time, by the minute in which each period begins.
fn load(
    tx: &mut ReadTx<'_>,
    scope: &HistoryScope,
    span: Span,
    now: i64,
) -> Result<BTreeMap<i64, Point>, StoreError> {
    let mut found: BTreeMap<i64, Point> = BTreeMap::new();
    let mut unrolled = span.from;
    if let Some(resolution) = span.resolution(now) {
        let (start, end) = (resolution.key(scope, span.from), resolution.key(scope, span.before) + "~");
        let range = DocumentRange { before: Some(&end), ..DocumentRange::from(&start) };
        for document in tx.db.documents_in(DocumentKind::History, range)? {
            let periods: Periods = parse(&document.body)?;
            for (number, point) in periods {
                let minute = number * resolution.minutes();
                if (span.from..span.before).contains(&minute) {
                    found.entry(minute).or_default().merge(&point);
                }
            }
        }
        unrolled = progress(tx.db)?.next_minute().max(span.from);
    }
    if unrolled < span.before && span.before > now - limits::RATE_MINUTES_KEPT {
        for one in minutes_by_lane(tx, |lane| scope.has(lane))? {
            if (unrolled..span.before).contains(&one.minute) {
                found.entry(one.minute).or_default().counts.merge(&one.counts);
            }
        }
        for (minute, sample) in samples(tx.db, unrolled, span.before)? {
            found.entry(minute).or_default().merge(&sample.get(scope));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60;
    const DAY: i64 = 24 * HOUR;

    #[test]
    fn a_range_has_whole_steps_of_what_is_kept_and_few_enough_to_draw() {
        let now = 1_000 * DAY + 13;
        let lengths = [15, HOUR, 6 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY];
        let steps_of = lengths.map(|length| steps(length, now + 1, now).1);
        assert_eq!(steps_of, [1, 1, 10, 10, 30, 60, 360]);
        for length in lengths {
            let (span, step) = steps(length, now + 1, now);
            assert_eq!((span.before % step, span.from % step), (0, 0));
            assert!(span.before > now && span.before - span.from >= length);
            assert!((span.before - span.from) / step <= limits::HISTORY_POINTS_MAX);
        }
        assert_eq!(steps(15, now - 3 * DAY, now).1, 10, "minutes are gone after an hour");
        assert_eq!(steps(15, now - 9 * DAY, now).1, 60);
    }
}
