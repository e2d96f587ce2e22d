//! Which submissions share an append. An append costs the server about the same whatever is in it, and callers that are
//! answered together submit again together: so one appender waits for them for a moment, instead of going with the first.
//! While its append is on its way, the other one goes only if that is worth an append of its own. The one that was busy last
//! goes first: its thread, its connection and the server's process are not idle for long, which makes each append cheaper.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::limits;
use crate::store::engines::sql::task_queue::{TaskQueue, WaitingTask};

/// What the appenders of a node know of each other.
#[derive(Default)]
pub(in super::super) struct Gathering {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many submissions each appender's append has that is on its way, and since when.
    on_its_way: [Option<(usize, Stopwatch)>; limits::APPENDERS],
    /// How long the last append took.
    last: Duration,
    /// Submissions that may be there soon, and since when that is hoped for.
    hoped_for: Option<(usize, Stopwatch)>,
}

impl State {
    /// How long to wait for more while so many wait, and how many are enough; nothing if they are to be appended now.
    fn pause(&self, waiting: usize) -> Option<(Duration, usize)> {
        // The appender that asks has none on its way, so that there is one at most.
        let (enough, most, since) = if let Some((appended, since)) = self.on_its_way.iter().flatten().next() {
            if waiting == 0 {
                return None;
            }
            // A smaller group must not keep a larger one waiting, and no submission waits for a slow append.
            let most = limits::APPENDS_OVERLAP_AFTER.max(2 * self.last).min(limits::APPENDS_OVERLAP_MAX);
            (appended + 1, most, since)
        } else {
            let (count, since) = self.hoped_for.as_ref()?;
            let most = limits::APPENDS_GATHERED_FOR.min(self.last / limits::APPENDS_GATHERED_SHARE);
            (*count, most, since)
        };
        let enough = enough.min(limits::APPENDS_GATHERED_MAX);
        let left = most.saturating_sub(since.elapsed());
        (waiting < enough && !left.is_zero()).then_some((left, enough))
    }
}

impl Gathering {
    /// The next group of an appender, which is then on its way until it [`ended`](Gathering::ended); `None` once the queue is
    /// closed and empty.
    pub(in super::super) fn next<T: WaitingTask>(
        &self,
        place: usize,
        queue: &TaskQueue<T>,
    ) -> Option<Vec<T>> {
        if let Some((_, since)) = &mut self.state().hoped_for {
            // Answering their callers took time, too.
            *since = Stopwatch::start();
        }
        let begin = |count| {
            let mut state = self.state();
            state.hoped_for = None;
            state.on_its_way[place] = (count > 0).then(|| (count, Stopwatch::start()));
        };
        queue.gather(place, limits::APPENDS_PER_GROUP_MAX, |waiting| self.state().pause(waiting), begin)
    }

    /// The group's append has ended, and as many of its callers are about to be answered. The appender then asks for the
    /// [next](Gathering::next) group at once.
    pub(in super::super) fn ended<T: WaitingTask>(
        &self,
        place: usize,
        queue: &TaskQueue<T>,
        answered: usize,
        took: Duration,
    ) {
        let hoped_for = queue.expect_gatherer(place) + answered;
        let mut state = self.state();
        state.on_its_way[place] = None;
        if answered > 0 {
            state.last = took;
            state.hoped_for = Some((hoped_for, Stopwatch::start()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    impl WaitingTask for char {
        fn refuse(self, _: crate::error::StoreError) {}

        fn weight(&self) -> usize {
            1
        }
    }

    fn ended(answered: usize, took: Duration) -> State {
        State { last: took, hoped_for: Some((answered, Stopwatch::start())), ..State::default() }
    }

    /// How long a group waits, and for how many.
    fn pause(state: &State, waiting: usize) -> (Duration, usize) {
        state.pause(waiting).unwrap_or_default()
    }

    #[test]
    fn a_lone_caller_is_never_kept_waiting() {
        assert_eq!(State::default().pause(1), None, "the first of all");
        assert_eq!(ended(1, LONG).pause(1), None);
    }

    #[test]
    fn who_was_answered_together_is_waited_for_but_not_for_long() {
        let after = ended(4, LONG);
        let (most, enough) = pause(&after, 3);
        assert!(most > Duration::ZERO && most <= limits::APPENDS_GATHERED_FOR && enough == 4);
        assert_eq!(after.pause(4), None, "all are there");
        let quick = ended(4, Duration::from_micros(100));
        assert!(pause(&quick, 1).0 <= Duration::from_micros(10), "a tenth of what an append takes");
        let many = ended(limits::APPENDS_PER_GROUP_MAX, LONG);
        assert_eq!(many.pause(limits::APPENDS_GATHERED_MAX), None, "two appends of many overlap");
        assert_eq!(pause(&many, 1).1, limits::APPENDS_GATHERED_MAX);
    }

    #[test]
    fn beside_an_append_on_its_way_only_a_larger_group_or_a_late_one_goes() {
        let on_its_way =
            |last| State { on_its_way: [None, Some((2, Stopwatch::start()))], last, ..State::default() };
        assert_eq!(on_its_way(LONG).pause(3), None);
        assert_eq!(on_its_way(LONG).pause(0), None, "there is nothing to wait with");
        assert_eq!(on_its_way(LONG).pause(limits::APPENDS_GATHERED_MAX), None);
        let (after, enough) = pause(&on_its_way(LONG), 2);
        assert!(
            !after.is_zero() && after <= limits::APPENDS_OVERLAP_MAX && enough == 3,
            "nor does one after another that took long: {after:?}"
        );
        let (after, _) = pause(&on_its_way(Duration::ZERO), 2);
        assert!(after <= limits::APPENDS_OVERLAP_AFTER, "one that takes long delays no other: {after:?}");
    }

    /// Two callers that began one after the other are appended together from their second submission on.
    #[test]
    fn groups_that_went_one_after_the_other_become_one() {
        let (gathering, queue) = (Gathering::default(), TaskQueue::new(16));
        queue.put('a', false).unwrap();
        assert_eq!(gathering.next(0, &queue), Some(vec!['a']));
        queue.put('b', false).unwrap();
        // It would go alone only after a long time; instead the first caller is back before that.
        gathering.state().last = LONG;
        std::thread::scope(|scope| {
            let second = scope.spawn(|| gathering.next(1, &queue));
            gathering.ended(0, &queue, 1, LONG);
            queue.put('a', false).unwrap();
            let group = gathering.next(0, &queue).unwrap();
            queue.close();
            let rest = second.join().unwrap();
            // On a machine that is busy for longer than the pause the other one goes with the second.
            assert!(group == ['b', 'a'] && rest.is_none() || group == ['a'], "{group:?} {rest:?}");
        });
        queue.close();
        gathering.ended(0, &queue, 2, LONG);
        while gathering.next(0, &queue).is_some() {}
    }

    #[test]
    fn a_queue_that_is_closed_is_emptied_at_once() {
        let (gathering, queue) = (Gathering::default(), TaskQueue::new(16));
        queue.put('a', false).unwrap();
        gathering.ended(0, &queue, 4, LONG);
        queue.close();
        assert_eq!(gathering.next(0, &queue), Some(vec!['a']));
        assert_eq!(gathering.next(0, &queue), None);
    }
}
