//! What a limit would have held back: an estimate from the statistics of past minutes. It spreads the starts of a minute
//! evenly, and takes every run to be as long as the mean; bursts within a minute are not seen. Of a key there are no
//! statistics: its runs are played again, each as long as it was.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Rate;

const MINUTE_MS: u128 = 60_000;
/// Starts are counted in thousandths, so that a limit of less than one start per minute counts as well.
const PART: u128 = 1_000;

/// A limit on starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProposedLimit {
    /// Jobs that may run at once.
    pub max_running: Option<u64>,
    /// Starts within a time.
    pub rate: Option<Rate>,
}

/// What a limit would have done to the starts of past minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitPreview {
    /// Starts in these minutes.
    pub started: u64,
    /// Starts that would have been later.
    pub delayed: u64,
    /// Starts that would still be waiting after the last of these minutes.
    pub waiting: u64,
    /// The longest delay; `None` if the limit lets nothing start.
    pub longest: Option<Duration>,
}

impl LimitPreview {
    /// Adds what the same limit would have done to other starts.
    pub fn merge(&mut self, other: &LimitPreview) {
        self.started += other.started;
        self.delayed += other.delayed;
        self.waiting += other.waiting;
        self.longest = self.longest.zip(other.longest).map(|(one, two)| one.max(two));
    }
}

/// A past run, in milliseconds since any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PastRun {
    /// When it started.
    pub started: u64,
    /// How long it took.
    pub length: u64,
}

impl ProposedLimit {
    /// The effect on the runs of one key, in any order, up to the moment `end`.
    pub fn preview_key(&self, runs: &mut [PastRun], end: u64) -> LimitPreview {
        runs.sort_unstable();
        let mut preview = LimitPreview {
            started: runs.len() as u64,
            longest: Some(Duration::ZERO),
            ..LimitPreview::default()
        };
        let is_shut = self.max_running == Some(0) || self.rate.is_some_and(|rate| rate.count == 0);
        if is_shut {
            let started = preview.started;
            return LimitPreview { delayed: started, waiting: started, longest: None, ..preview };
        }
        let slots = self.max_running.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        // When each slot is free again, and when the rate's allowance would be full again, in millionths.
        let (mut busy, mut full_at) = (BinaryHeap::new(), 0_u128);
        for run in runs {
            let mut start = run.started;
            if slots.is_some_and(|slots| busy.len() >= slots)
                && let Some(Reverse(free)) = busy.pop()
            {
                start = start.max(free);
            }
            if let Some(rate) = self.rate {
                let per = rate.per.as_millis() * 1_000_000;
                let one = per / u128::from(rate.count);
                let allowed = full_at.saturating_sub(per - one).div_ceil(1_000_000);
                start = start.max(u64::try_from(allowed).unwrap_or(u64::MAX));
                full_at = full_at.max(u128::from(start) * 1_000_000) + one;
            }
            busy.push(Reverse(start.saturating_add(run.length)));
            let late = Duration::from_millis(start - run.started);
            preview.delayed += u64::from(!late.is_zero());
            preview.waiting += u64::from(start > end);
            preview.longest = preview.longest.max(Some(late));
        }
        preview
    }

    /// Starts per minute that it allows, in thousandths; `None` if it does not limit them.
    fn capacity(&self, mean_run: Option<Duration>) -> Option<u128> {
        let by_rate = self.rate.map(|rate| {
            u128::from(rate.count).saturating_mul(MINUTE_MS * PART) / rate.per.as_millis().max(1)
        });
        let running = self.max_running.map(u128::from);
        let by_running = match (running, mean_run.map(|run| run.as_millis()).filter(|millis| *millis > 0)) {
            (Some(0), _) => Some(0),
            (Some(running), Some(millis)) => Some(running.saturating_mul(MINUTE_MS * PART) / millis),
            _ => None,
        };
        by_rate.into_iter().chain(by_running).min()
    }

    /// The effect on these minutes, oldest first, with the number of starts in each and the mean time of a run.
    pub fn preview(&self, minutes: &[u64], mean_run: Option<Duration>) -> LimitPreview {
        let started = minutes.iter().sum();
        let Some(capacity) = self.capacity(mean_run) else {
            return LimitPreview { started, longest: Some(Duration::ZERO), ..LimitPreview::default() };
        };
        let (mut backlog, mut highest, mut delayed) = (0_u128, 0_u128, 0_u128);
        for starts in minutes {
            let starts = u128::from(*starts) * PART;
            // Those that waited go first.
            let room = capacity.saturating_sub(backlog);
            delayed += starts.saturating_sub(room);
            backlog = (backlog + starts).saturating_sub(capacity);
            highest = highest.max(backlog);
        }
        let whole = |parts: u128| u64::try_from(parts.div_ceil(PART)).unwrap_or(u64::MAX);
        let longest = match (highest, capacity) {
            (0, _) => Some(Duration::ZERO),
            (_, 0) => None,
            (highest, capacity) => {
                let millis = highest.saturating_mul(MINUTE_MS) / capacity;
                Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
            }
        };
        LimitPreview { started, delayed: whole(delayed), waiting: whole(backlog), longest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(count: u64, per: Duration) -> ProposedLimit {
        ProposedLimit { rate: Some(Rate::new(count, per)), ..ProposedLimit::default() }
    }

    #[test]
    fn runs_of_a_key_are_played_again() {
        let run = |started: u64, length: u64| PastRun { started: started * 1_000, length: length * 1_000 };
        let mut runs = [run(2, 10), run(0, 10), run(1, 10), run(100, 1)];
        let one = ProposedLimit { max_running: Some(1), rate: None };
        let held = one.preview_key(&mut runs, 15_000);
        assert_eq!((held.started, held.delayed, held.longest), (4, 2, Some(SECOND * 18)));
        assert_eq!(held.waiting, 2, "one that starts after 20 s, and the one after 100 s");
        let two = ProposedLimit { max_running: Some(2), rate: None };
        assert_eq!(two.preview_key(&mut runs, 200_000).longest, Some(SECOND * 8));
        assert_eq!(ProposedLimit::default().preview_key(&mut runs, 200_000).delayed, 0);
        // Two at once, then one in five seconds.
        let held = rate(2, SECOND * 10).preview_key(&mut runs, 200_000);
        assert_eq!((held.delayed, held.longest), (1, Some(SECOND * 3)));
        let shut = ProposedLimit { max_running: Some(0), rate: None }.preview_key(&mut runs, 200_000);
        assert_eq!((shut.delayed, shut.waiting, shut.longest), (4, 4, None));
        let mut sum = held;
        sum.merge(&shut);
        assert_eq!((sum.started, sum.delayed, sum.longest), (8, 5, None));
        let vast = ProposedLimit { max_running: Some(u64::MAX), rate: Some(Rate::new(u64::MAX, SECOND)) };
        assert_eq!(vast.preview_key(&mut [PastRun { started: u64::MAX, length: u64::MAX }], 0).delayed, 0);
    }

    #[test]
    fn a_limit_above_the_past_holds_nothing_back() {
        let none = LimitPreview { started: 9, longest: Some(Duration::ZERO), ..LimitPreview::default() };
        assert_eq!(ProposedLimit::default().preview(&[4, 5], Some(SECOND)), none);
        assert_eq!(rate(5, SECOND * 60).preview(&[4, 5], None), none);
        // 10 at once, each for 2 s, are 300 a minute.
        let at_once = ProposedLimit { max_running: Some(10), rate: None };
        assert_eq!(at_once.preview(&[300, 300], Some(SECOND * 2)).delayed, 0);
        assert_eq!(at_once.preview(&[9], None).delayed, 0, "without runs nothing is known");
    }

    #[test]
    fn what_does_not_fit_moves_on_and_delays_the_next() {
        // 6 a minute: of 10 starts 4 move on; of the next 6, 4 wait for them.
        let held = rate(1, SECOND * 10).preview(&[10, 6, 0], None);
        assert_eq!((held.started, held.delayed, held.waiting), (16, 8, 0));
        assert_eq!(held.longest, Some(SECOND * 40), "4 starts at 6 a minute");
        let still = rate(1, SECOND * 10).preview(&[0, 18], None);
        assert_eq!((still.delayed, still.waiting, still.longest), (12, 12, Some(SECOND * 120)));
    }

    #[test]
    fn the_stricter_of_two_limits_counts_and_zero_holds_everything() {
        let both = ProposedLimit { max_running: Some(1), rate: Some(Rate::new(100, SECOND * 60)) };
        assert_eq!(both.preview(&[12], Some(SECOND * 10)).delayed, 6, "one at a time is 6 a minute");
        let nothing = ProposedLimit { max_running: Some(0), rate: None };
        let held = nothing.preview(&[2, 3], Some(SECOND));
        assert_eq!((held.delayed, held.waiting, held.longest), (5, 5, None));
        let rare = rate(1, SECOND * 3600).preview(&[1, 0, 0], None);
        assert_eq!(rare.waiting, 1, "less than one start a minute");
        let large = ProposedLimit { max_running: Some(u64::MAX), rate: Some(Rate::new(u64::MAX, SECOND)) };
        assert_eq!(large.preview(&[u64::MAX / 2], Some(SECOND)).delayed, 0);
    }
}
