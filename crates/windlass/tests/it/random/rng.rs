//! Chance that is the same every time: a small generator of its own, so that a seed means the same walk whatever happens
//! to the crates around it.

use std::time::Duration;

/// A stream of numbers that a seed decides (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).expect("a length fits 64 bits");
        usize::try_from(self.next() % end).expect("it is below a length")
    }

    /// True so often in a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// One of these so often in a hundred, else none.
    pub(crate) fn maybe<T: Clone>(&mut self, percent: usize, from: &[T]) -> Option<T> {
        self.chance(percent).then(|| self.pick(from))
    }

    /// One of the latest so often in a hundred, else any; none if there are none.
    pub(crate) fn recent<T: Clone>(&mut self, from: &[T], latest: usize) -> Option<T> {
        let start = if self.chance(75) { from.len().saturating_sub(latest) } else { 0 };
        (!from.is_empty()).then(|| self.pick(&from[start..]))
    }

    /// One of these many milliseconds.
    pub(crate) fn time(&mut self, millis: &[u64]) -> Duration {
        Duration::from_millis(self.pick(millis))
    }
}
