//! Histograms of durations with fine buckets, and exemplars: runs that show where durations come from.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::TraceId;

/// Durations, counted in buckets that are at most a twentieth wider than where they begin: by the millisecond up to
/// 100 ms, and in 75 steps per decade above that, up to more than a day. 1, 2 and 5 of every decade are edges.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencyHistogram(BTreeMap<u16, u64>);

/// Up to here every millisecond has a bucket.
const EXACT_MS: u64 = 100;
/// The parts of a decade that begins at 100: where each begins, the width of its buckets, and how many are before it.
const STEPS: [(u64, u64, u64); 3] = [(100, 5, 0), (200, 10, 20), (500, 20, 50)];
/// The buckets of a decade.
const STEPS_PER_DECADE: u64 = 75;
/// Decades above [`EXACT_MS`]. One more bucket takes everything above them.
const DECADES: u32 = 6;

/// The bucket of a duration.
fn bucket_of(millis: u64) -> u64 {
    let mut rest = millis;
    for decade in 0..u64::from(DECADES) {
        if rest <= EXACT_MS {
            return if decade == 0 { rest } else { EXACT_MS + STEPS_PER_DECADE * decade };
        }
        if rest <= 10 * EXACT_MS {
            let (from, width, before) = *STEPS.iter().rfind(|(from, ..)| rest > *from).unwrap_or(&STEPS[0]);
            return EXACT_MS + STEPS_PER_DECADE * decade + before + (rest - from).div_ceil(width);
        }
        rest = rest.div_ceil(10);
    }
    EXACT_MS + STEPS_PER_DECADE * u64::from(DECADES) + 1
}

/// The longest duration in a bucket, in milliseconds.
fn edge_of(bucket: u64) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT_MS).filter(|above| *above > 0) else { return bucket };
    let (decade, step) = ((above - 1) / STEPS_PER_DECADE, (above - 1) % STEPS_PER_DECADE + 1);
    let (from, width, before) = *STEPS.iter().rfind(|(.., before)| step > *before).unwrap_or(&STEPS[0]);
    let decade = u32::try_from(decade).unwrap_or(DECADES);
    if decade >= DECADES {
        return EXACT_MS * 10_u64.pow(DECADES);
    }
    (from + (step - before) * width) * 10_u64.pow(decade)
}

/// The edges that are shown to monitoring systems, in milliseconds: 1, 2 and 5 of every decade.
fn shown_edges() -> impl Iterator<Item = u64> {
    let decades = DECADES + EXACT_MS.ilog10();
    let steps = (0..decades).flat_map(|decade| [1, 2, 5].map(|step| step * 10_u64.pow(decade)));
    steps.chain(std::iter::once(10_u64.pow(decades)))
}

impl LatencyHistogram {
    pub(super) fn add(&mut self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        *self.0.entry(u16::try_from(bucket_of(millis)).unwrap_or(u16::MAX)).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &LatencyHistogram) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// How many durations were not above 1, 2, 5, 10 ms and so on, in order.
    pub fn up_to(&self) -> Vec<(Duration, u64)> {
        let (mut seen, mut left) = (0, self.0.iter().peekable());
        let counts = shown_edges().map(|edge| {
            while let Some((_, count)) = left.next_if(|(bucket, _)| u64::from(**bucket) <= bucket_of(edge)) {
                seen += count;
            }
            (Duration::from_millis(edge), seen)
        });
        counts.collect()
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The quantile `share` (0 to 1), at most a twentieth too long; `None` without durations.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let (bucket, _) = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        })?;
        Some(Duration::from_millis(edge_of(u64::from(*bucket))))
    }
}

/// A run that shows where the durations of a bucket come from, by its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// The trace that the job belongs to.
    pub trace: TraceId,
    /// The measured duration.
    pub duration: Duration,
    /// When it was measured.
    pub at: Timestamp,
}

/// The newest exemplar up to each edge that is shown to monitoring systems, the last for durations above all of them. Not
/// stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exemplars(pub Vec<Option<Exemplar>>);

impl Exemplars {
    pub(super) fn set(&mut self, exemplar: Exemplar) {
        let millis = exemplar.duration.as_millis();
        let bucket = shown_edges().take_while(|edge| u128::from(*edge) < millis).count();
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, None);
        }
        self.0[bucket] = Some(exemplar);
    }

    pub(super) fn merge(&mut self, newer: &Exemplars) {
        for exemplar in newer.0.iter().flatten() {
            self.set(*exemplar);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_at_most_a_twentieth_wider_than_where_it_begins() {
        let mut last = 0;
        for bucket in 1..=bucket_of(u64::MAX) {
            let edge = edge_of(bucket);
            if bucket < bucket_of(u64::MAX) {
                assert_eq!((bucket_of(edge), bucket_of(last + 1)), (bucket, bucket), "{edge} ms");
                assert!(edge - last <= 1.max(last / 20), "from {last} to {edge} ms");
            }
            last = edge;
        }
        assert_eq!(last, 100_000_000, "the last edge stands for all above");
        for edge in shown_edges() {
            assert_eq!(edge_of(bucket_of(edge)), edge);
        }
    }

    #[test]
    fn a_time_on_an_edge_counts_below_it_and_percentiles_are_edges() {
        let mut spread = LatencyHistogram::default();
        for millis in [0, 1, 2, 3, 100, 101, 400_000_000] {
            spread.add(Duration::from_millis(millis));
        }
        let below = |millis| {
            let edge = Duration::from_millis(millis);
            spread.up_to().into_iter().find(|(at, _)| *at == edge).map(|(_, count)| count)
        };
        assert_eq!(
            (below(1), below(2), below(5), below(100), below(200), below(100_000_000)),
            (Some(2), Some(3), Some(4), Some(5), Some(6), Some(6))
        );
        assert_eq!(spread.count(), 7);
        assert_eq!(spread.percentile(0.5), Some(Duration::from_millis(3)));
        assert_eq!(spread.percentile(0.8), Some(Duration::from_millis(105)));
        assert_eq!(spread.percentile(1.0), Some(Duration::from_secs(100_000)));
        assert_eq!(LatencyHistogram::default().percentile(0.5), None);
    }
}
