//! Tasks that wait for a thread: two bounded lines, of which the urgent one goes first. A full line refuses; adding
//! never blocks.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "postgres")]
use std::time::Duration;

#[cfg(feature = "postgres")]
use tokio::sync::Notify;

use super::round_robin::RoundRobin;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::{ReadTask, WriteTask};
use crate::store::read_source::ReadSource;

/// A task that can wait for a thread.
pub(crate) trait WaitingTask: Sized {
    /// Answers the caller of a task that is not done.
    fn refuse(self, refusal: StoreError);

    /// The approximate number of jobs it changes.
    fn weight(&self) -> usize;

    /// The source of the task, if sources are served in turns.
    fn made_for(&self) -> Option<ReadSource> {
        None
    }
}

impl WaitingTask for Box<dyn WriteTask> {
    fn refuse(self, refusal: StoreError) {
        self.done(Err(refusal));
    }

    fn weight(&self) -> usize {
        WriteTask::weight(self.as_ref())
    }
}

impl WaitingTask for Box<dyn ReadTask> {
    fn refuse(self, refusal: StoreError) {
        self.done(Err(refusal));
    }

    fn weight(&self) -> usize {
        0
    }

    fn made_for(&self) -> Option<ReadSource> {
        ReadTask::made_for(self.as_ref()).cloned()
    }
}

/// A queue of waiting tasks.
pub(crate) struct TaskQueue<T> {
    lines: Mutex<Lines<T>>,
    arrived: Condvar,
    /// The same for a thread that waits for something else, too.
    #[cfg(feature = "postgres")]
    arrival: Notify,
    /// The same for each of the threads that [gather](TaskQueue::gather).
    #[cfg(feature = "postgres")]
    gathered: [Condvar; limits::APPENDERS],
    /// Signals threads that only do urgent work.
    urgent_arrived: Condvar,
    waiting_max: usize,
}

struct Lines<T> {
    urgent: VecDeque<T>,
    normal: VecDeque<T>,
    /// Tasks of sources that are served in turns.
    turns: RoundRobin<T>,
    /// Whether the next ordinary task is one of those.
    is_turn: bool,
    /// The error for new tasks once the queue is closed.
    refusal: Option<StoreError>,
    /// The threads that wait in [`gather`](TaskQueue::gather), or are about to. The last is the one that was busy last, and is
    /// given the next tasks.
    #[cfg(feature = "postgres")]
    gatherers: Vec<usize>,
    /// So many tasks must wait before a thread that gathers them is woken.
    #[cfg(feature = "postgres")]
    wanted: usize,
}

impl<T> Lines<T> {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.urgent.len() + self.normal.len() + self.turns.len()
    }

    fn next(&mut self) -> Option<T> {
        self.urgent.pop_front().or_else(|| self.normal.pop_front()).or_else(|| self.turns.pop())
    }

    /// See [`TaskQueue::take`].
    fn take(&mut self, max: usize) -> Vec<T>
    where
        T: WaitingTask,
    {
        let urgent = self.urgent.len().min(max);
        let mut taken: Vec<T> = self.urgent.drain(..urgent).collect();
        if taken.len() < max {
            taken.extend(self.next_turn());
        }
        let mut room =
            if taken.is_empty() { limits::GROUP_JOBS_MAX } else { limits::GROUP_JOBS_BESIDE_URGENT };
        while taken.len() < max
            && let Some(next) = self.normal.front()
            && (taken.is_empty() || next.weight() <= room)
        {
            room = room.saturating_sub(next.weight());
            taken.extend(self.normal.pop_front());
        }
        taken
    }

    /// The next task of the sources served in turns, if it is their turn: tasks without a source count as one more
    /// source.
    fn next_turn(&mut self) -> Option<T> {
        if self.turns.len() == 0 {
            return None;
        }
        self.is_turn = self.normal.is_empty() || !self.is_turn;
        if self.is_turn { self.turns.pop() } else { None }
    }
}

impl<T: WaitingTask> TaskQueue<T> {
    /// A queue with a capacity of `waiting_max` in each line, so that bulk work cannot crowd out heartbeats.
    pub(crate) fn new(waiting_max: usize) -> TaskQueue<T> {
        let (urgent, normal) = (VecDeque::new(), VecDeque::new());
        let turns = RoundRobin::default();
        let lines = Lines {
            urgent,
            normal,
            turns,
            is_turn: false,
            refusal: None,
            #[cfg(feature = "postgres")]
            gatherers: Vec::with_capacity(limits::APPENDERS),
            #[cfg(feature = "postgres")]
            wanted: 0,
        };
        TaskQueue {
            lines: Mutex::new(lines),
            arrived: Condvar::new(),
            #[cfg(feature = "postgres")]
            arrival: Notify::new(),
            #[cfg(feature = "postgres")]
            gathered: Default::default(),
            urgent_arrived: Condvar::new(),
            waiting_max,
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines<T>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task, or answers its caller with the reason.
    pub(crate) fn put_or_refuse(&self, item: T, is_urgent: bool) {
        if let Err((item, refusal)) = self.put(item, is_urgent) {
            item.refuse(refusal);
        }
    }

    /// Adds a task, or returns it with the reason.
    pub(crate) fn put(&self, item: T, is_urgent: bool) -> Result<(), (T, StoreError)> {
        let mut lines = self.lines();
        if let Some(refusal) = &lines.refusal {
            let refusal = refusal.clone();
            return Err((item, refusal));
        }
        let waiting = if is_urgent { lines.urgent.len() } else { lines.normal.len() + lines.turns.len() };
        if waiting >= self.waiting_max {
            let retry_after = limits::OVERLOADED_RETRY_AFTER;
            return Err((item, StoreError::Overloaded { waiting, retry_after }));
        }
        if is_urgent {
            lines.urgent.push_back(item);
        } else if let Some(source) = item.made_for() {
            if let Some(refusal) = lines.turns.refusal(&source) {
                return Err((item, refusal));
            }
            lines.turns.push(source, item);
        } else {
            lines.normal.push_back(item);
        }
        #[cfg(feature = "postgres")]
        if let Some(gatherer) = lines.gatherers.last()
            && lines.len() >= lines.wanted
        {
            self.gathered[*gatherer].notify_one();
        }
        drop(lines);
        self.arrived.notify_one();
        #[cfg(feature = "postgres")]
        self.arrival.notify_one();
        if is_urgent {
            self.urgent_arrived.notify_one();
        }
        Ok(())
    }

    /// Up to `max` waiting tasks; empty if there are none. Together they are not too heavy for one commit, unless it is
    /// a single one; next to urgent tasks they are light, so that a heartbeat does not wait for a bulk commit.
    pub(crate) fn take(&self, max: usize) -> Vec<T> {
        self.lines().take(max)
    }

    /// Returns when a task waits; false once the queue is closed and empty.
    pub(crate) fn wait(&self) -> bool {
        let mut lines = self.lines();
        while lines.is_empty() {
            if lines.refusal.is_some() {
                return false;
            }
            lines = self.arrived.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Returns when a task was added since this last returned.
    #[cfg(feature = "postgres")]
    pub(crate) async fn arrival(&self) {
        self.arrival.notified().await;
    }

    /// The thread in this place is about to [gather](TaskQueue::gather) again: no other is woken for tasks that arrive until it
    /// does. Returns how many wait.
    #[cfg(feature = "postgres")]
    pub(crate) fn expect_gatherer(&self, place: usize) -> usize {
        let mut lines = self.lines();
        lines.gatherers.retain(|waiting| *waiting != place);
        lines.gatherers.push(place);
        lines.len()
    }

    /// Waits for tasks, and then for more as long as `pause` of their number wants to; `None` once the queue is closed and
    /// empty. `pause` also says how many are enough, and is asked again once they are there: who waits is not woken for each of
    /// them. `begin` gets the number of taken tasks, before another thread asks how long to wait.
    ///
    /// Several threads can wait, each in a place of its own. The tasks are for the one that came last: it was busy last, and so
    /// was its connection, and no other is woken as long as it keeps up.
    #[cfg(feature = "postgres")]
    pub(crate) fn gather(
        &self,
        place: usize,
        max: usize,
        pause: impl Fn(usize) -> Option<(Duration, usize)>,
        begin: impl FnOnce(usize),
    ) -> Option<Vec<T>> {
        let (mut lines, arrived) = (self.lines(), &self.gathered[place]);
        if !lines.gatherers.contains(&place) {
            lines.gatherers.push(place);
        }
        while lines.refusal.is_none() {
            let is_first = lines.gatherers.last() == Some(&place);
            let pause = if is_first { pause(lines.len()) } else { None };
            if is_first && pause.is_none() && !lines.is_empty() {
                break;
            }
            if is_first {
                lines.wanted = pause.map_or(1, |(_, enough)| enough);
            }
            lines = match pause {
                None => arrived.wait(lines).unwrap_or_else(PoisonError::into_inner),
                Some((most, _)) => {
                    arrived.wait_timeout(lines, most).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        lines.gatherers.retain(|waiting| *waiting != place);
        let taken = lines.take(max);
        begin(taken.len());
        // The next one wants to hear of every task, and of those that are left.
        lines.wanted = 0;
        if let Some(next) = lines.gatherers.last().filter(|_| !lines.is_empty()) {
            self.gathered[*next].notify_one();
        }
        (!taken.is_empty()).then_some(taken)
    }

    /// Returns the next urgent task once there is one; `None` once the queue is closed and empty. For a thread that is
    /// reserved for urgent work.
    pub(crate) fn next_urgent(&self) -> Option<T> {
        let mut lines = self.lines();
        loop {
            if let Some(next) = lines.urgent.pop_front() {
                return Some(next);
            }
            if lines.refusal.is_some() {
                return None;
            }
            lines = self.urgent_arrived.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether no more tasks are accepted.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_closed(&self) -> bool {
        self.lines().refusal.is_some()
    }

    fn notify_all(&self) {
        self.arrived.notify_all();
        self.urgent_arrived.notify_all();
        #[cfg(feature = "postgres")]
        self.gathered.iter().for_each(Condvar::notify_all);
    }

    /// Accepts no more tasks; the waiting ones are still done.
    pub(crate) fn close(&self) {
        self.lines().refusal.get_or_insert(StoreError::Closed);
        self.notify_all();
    }

    /// Accepts no more tasks and returns the waiting ones, to be refused.
    pub(crate) fn stop(&self, refusal: &StoreError) -> Vec<T> {
        let mut lines = self.lines();
        lines.refusal = Some(refusal.clone());
        self.notify_all();
        std::iter::from_fn(|| lines.next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::caller::{Caller, Role};

    impl WaitingTask for usize {
        fn refuse(self, _: StoreError) {}

        fn weight(&self) -> usize {
            *self
        }
    }

    /// A task of a source that is served in turns.
    #[derive(Debug, PartialEq)]
    struct For(&'static str, usize);

    impl WaitingTask for For {
        fn refuse(self, _: StoreError) {}

        fn weight(&self) -> usize {
            0
        }

        fn made_for(&self) -> Option<ReadSource> {
            let caller = Caller::new(self.0, Role::Viewer, None);
            (!self.0.is_empty()).then(|| ReadSource::from_caller(&caller))
        }
    }

    #[test]
    fn one_caller_with_many_reads_does_not_hold_up_the_others() {
        let inbox = TaskQueue::new(5_000);
        let put = |who, numbers: std::ops::Range<usize>| {
            for number in numbers {
                inbox.put(For(who, number), false).unwrap();
            }
        };
        put("ada", 0..1_000);
        put("bob", 0..1);
        put("", 0..1_000);
        let first: Vec<For> = (0..5).flat_map(|_| inbox.take(1)).collect();
        assert_eq!(first, [For("ada", 0), For("", 0), For("bob", 0), For("", 1), For("ada", 1)]);
        put("ada", 1_000..limits::READS_WAITING_PER_KEY_MAX + 2);
        let (_, refusal) = inbox.put(For("ada", 0), false).unwrap_err();
        assert!(matches!(refusal, StoreError::TooManyReads { of: "key", .. }), "{refusal}");
        inbox.put(For("eve", 0), false).unwrap();
        inbox.put(For("ada", 0), true).unwrap();
        let left = inbox.stop(&StoreError::Full).len();
        assert_eq!(left, limits::READS_WAITING_PER_KEY_MAX + 998 + 2);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn who_gathers_is_woken_once_enough_wait_and_not_for_each() {
        let (queue, asked) = (TaskQueue::<usize>::new(16), Mutex::new(Vec::new()));
        let pause = |waiting: usize| {
            asked.lock().unwrap().push(waiting);
            (waiting < 3).then_some((Duration::from_secs(3600), 3))
        };
        std::thread::scope(|scope| {
            let gathering = scope.spawn(|| queue.gather(0, 2, pause, |taken| assert_eq!(taken, 2)));
            while queue.lines().wanted != 3 {
                std::thread::yield_now();
            }
            (0..3).for_each(|item| queue.put(item, false).unwrap());
            assert_eq!(gathering.join().unwrap(), Some(vec![0, 1]));
        });
        assert_eq!(*asked.lock().unwrap(), [0, 3]);
        queue.close();
        assert_eq!(queue.gather(0, 2, |_| None, |_| {}), Some(vec![2]), "what waits is still done");
        assert_eq!(queue.gather(0, 2, |_| None, |_| {}), None);
    }

    /// The other one is woken for what is left, and when the first is busy.
    #[cfg(feature = "postgres")]
    #[test]
    fn tasks_are_for_the_thread_that_was_busy_last_and_for_the_other_while_it_is_busy() {
        let queue = TaskQueue::<usize>::new(16);
        let waits = |places: &[usize]| {
            while queue.lines().gatherers != places {
                std::thread::yield_now();
            }
        };
        let gather = |place| queue.gather(place, 1, |_| None, |_| {});
        std::thread::scope(|scope| {
            let other = scope.spawn(move || gather(1));
            waits(&[1]);
            for item in [3, 4] {
                let last = scope.spawn(move || gather(0));
                waits(&[1, 0]);
                queue.put(item, false).unwrap();
                assert_eq!(last.join().unwrap(), Some(vec![item]));
            }
            queue.put(5, false).unwrap();
            assert_eq!(other.join().unwrap(), Some(vec![5]));
            let both = [0, 1].map(|place| scope.spawn(move || gather(place)));
            while queue.lines().gatherers.len() < 2 {
                std::thread::yield_now();
            }
            let mut lines = queue.lines();
            lines.normal.extend([6, 7]);
            queue.gathered[*lines.gatherers.last().unwrap()].notify_one();
            drop(lines);
            let mut all: Vec<_> = both.into_iter().map(|one| one.join().unwrap().unwrap()[0]).collect();
            all.sort_unstable();
            assert_eq!(all, [6, 7]);
        });
    }

    fn inbox(urgent: &[usize], normal: &[usize]) -> TaskQueue<usize> {
        let inbox = TaskQueue::new(16);
        for item in normal {
            inbox.put(*item, false).unwrap();
        }
        for item in urgent {
            inbox.put(*item, true).unwrap();
        }
        inbox
    }

    /// Model: leases-and-heartbeats
    #[test]
    fn a_heartbeat_does_not_share_its_commit_with_bulk_work() {
        let inbox = inbox(&[1], &[1, limits::BATCH_JOBS_MAX]);
        assert_eq!(inbox.take(10), [1, 1]);
        assert_eq!(inbox.take(10), [limits::BATCH_JOBS_MAX]);
    }

    #[test]
    fn a_group_is_not_heavier_than_one_batch() {
        let half = limits::GROUP_JOBS_MAX / 2;
        let inbox = inbox(&[], &[half, half, 1, 1]);
        assert_eq!(inbox.take(10), [half, half]);
        assert_eq!(inbox.take(10), [1, 1]);
        assert!(inbox.take(10).is_empty());
    }

    #[test]
    fn a_thread_that_is_kept_free_gets_what_is_urgent_and_nothing_else() {
        let inbox = std::sync::Arc::new(inbox(&[], &[1, 2]));
        let kept_free = std::thread::spawn({
            let inbox = inbox.clone();
            move || std::iter::from_fn(|| inbox.next_urgent()).collect::<Vec<_>>()
        });
        inbox.put(3, true).unwrap();
        // No other consumer takes anything, so only the thread can have taken it.
        while !inbox.lines().urgent.is_empty() {
            std::thread::yield_now();
        }
        inbox.close();
        assert_eq!(kept_free.join().unwrap(), [3]);
        assert_eq!(inbox.take(10), [1, 2]);
    }

    #[test]
    fn one_that_is_too_heavy_goes_alone() {
        let heavy = limits::GROUP_JOBS_MAX + 1;
        let inbox = inbox(&[], &[heavy, 1]);
        assert_eq!(inbox.take(10), [heavy]);
        assert_eq!(inbox.take(10), [1]);
    }
}
