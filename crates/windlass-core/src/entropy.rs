//! Randomness: the only module that generates it. Rules get the numbers they need as arguments.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

/// A source of random numbers for ids and jitter.
#[derive(Debug)]
pub struct Entropy(Mutex<Source>);

#[derive(Debug)]
struct Source {
    rng: StdRng,
    /// The numbers since the last mark, and those that come again. `None` for unpredictable numbers, which never come
    /// again.
    repeated: Option<Repeated>,
}

#[derive(Debug, Default)]
struct Repeated {
    /// `None` before the first mark.
    since_mark: Option<Vec<u128>>,
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
        Entropy(Mutex::new(Source { rng, repeated: Some(Repeated::default()) }))
    }

    /// Marks where a seeded source is now.
    pub fn mark(&self) {
        if let Some(repeated) = &mut self.lock().repeated {
            repeated.since_mark.get_or_insert_default().clear();
        }
    }

    /// A seeded source goes back to its mark: work that is done again gets the same numbers.
    pub fn back_to_mark(&self) {
        if let Some(repeated) = &mut self.lock().repeated {
            for bits in repeated.since_mark.iter_mut().flat_map(|numbers| numbers.drain(..).rev()) {
                repeated.next.push_front(bits);
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
        if let Some(numbers) = &mut repeated.since_mark {
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
    fn unpredictable_numbers_never_come_again() {
        let source = Entropy::from_system();
        source.mark();
        let first = source.bits();
        source.back_to_mark();
        assert_ne!(source.bits(), first);
    }
}
