//! Randomness: the only module that generates it. Rules get the numbers they need as arguments.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

/// A source of random numbers for ids and jitter.
#[derive(Debug)]
pub struct Entropy(Mutex<Source>);

#[derive(Debug)]
struct Source {
    rng: StdRng,
    /// The numbers since the last marks, and those that come again. `None` for unpredictable numbers, which never come
    /// again.
    repeated: Option<Repetition>,
}

#[derive(Debug, Default)]
struct Repetition {
    /// By thread, from its first mark on: several threads of a store try something and may have to do it again, and
    /// what another one has drawn meanwhile must not come again.
    since_mark: HashMap<ThreadId, Vec<u128>>,
    next: VecDeque<u128>,
}

impl Entropy {
    /// Unpredictable numbers, seeded by the operating system.
    pub fn from_system() -> Entropy {
        let rng = StdRng::try_from_rng(&mut SysRng).expect("the operating system has random numbers");
        Entropy(Mutex::new(Source { rng, repeated: None }))
    }

    /// The same numbers every time for the same seed; for tests and simulations.
    pub fn seeded(seed: u64) -> Entropy {
        let rng = StdRng::seed_from_u64(seed);
        Entropy(Mutex::new(Source { rng, repeated: Some(Repetition::default()) }))
    }

    /// Marks where a seeded source is now, for the calling thread.
    pub fn mark(&self) {
        if let Some(repeated) = &mut self.lock().repeated {
            repeated.since_mark.entry(thread::current().id()).or_default().clear();
        }
    }

    /// Gives back the numbers that the calling thread has drawn from a seeded source since its mark: work that is done
    /// again gets the same ones, unless another thread was faster.
    pub fn back_to_mark(&self) {
        if let Some(Repetition { since_mark, next }) = &mut self.lock().repeated {
            let drawn = since_mark.get_mut(&thread::current().id());
            for bits in drawn.into_iter().flat_map(|numbers| numbers.drain(..).rev()) {
                next.push_front(bits);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Source> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next 128 random bits.
    pub fn bits(&self) -> u128 {
        let Source { rng, repeated } = &mut *self.lock();
        let mut draw = || (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
        let Some(repeated) = repeated else { return draw() };
        let bits = repeated.next.pop_front().unwrap_or_else(draw);
        if let Some(numbers) = repeated.since_mark.get_mut(&thread::current().id()) {
            numbers.push(bits);
        }
        bits
    }

    /// 64 random bits: the upper half of the next 128, so that every call advances the source by the same step.
    pub fn next_u64(&self) -> u64 {
        u64::try_from(self.bits() >> 64).expect("64 bits are left after the shift")
    }

    /// A number from 0 up to, not including, 1.
    pub fn fraction(&self) -> f64 {
        let high_bits = u32::try_from(self.bits() >> 96).expect("32 bits are left after the shift");
        f64::from(high_bits) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_source_repeats_the_numbers_since_its_mark() {
        let (source, other) = (Entropy::seeded(7), Entropy::seeded(7));
        let numbers: Vec<u128> = (0..6).map(|_| other.bits()).collect();
        let take = |count: usize| -> Vec<u128> { (0..count).map(|_| source.bits()).collect() };
        assert_eq!(take(1), numbers[..1]);
        source.mark();
        assert_eq!(take(3), numbers[1..4]);
        source.back_to_mark();
        assert_eq!(take(1), numbers[1..2]);
        source.back_to_mark();
        assert_eq!(take(5), numbers[1..6]);
    }

    #[test]
    fn a_thread_gives_back_only_what_it_has_drawn_itself() {
        let source = Entropy::seeded(7);
        source.mark();
        let first = source.bits();
        let draw = || {
            source.mark();
            source.bits()
        };
        let other = thread::scope(|scope| scope.spawn(draw).join().expect("it draws a number"));
        source.back_to_mark();
        assert_eq!(source.bits(), first);
        assert_ne!(source.bits(), other);
    }

    #[test]
    fn unpredictable_numbers_never_come_again() {
        let source = Entropy::from_system();
        source.mark();
        let first = source.bits();
        source.back_to_mark();
        assert_ne!(source.bits(), first);
    }
}
