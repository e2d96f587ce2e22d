//! Randomness: the only module that generates it. Rules get the numbers they need as arguments.

use std::sync::Mutex;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

/// A source of random numbers for ids and jitter.
#[derive(Debug)]
pub struct Entropy(Mutex<StdRng>);

impl Entropy {
    /// Unpredictable numbers, seeded by the operating system.
    pub fn from_system() -> Entropy {
        let seeded = StdRng::try_from_rng(&mut SysRng).expect("the operating system has random numbers");
        Entropy(Mutex::new(seeded))
    }

    /// The same numbers every time for the same seed; for tests and simulations.
    pub fn seeded(seed: u64) -> Entropy {
        Entropy(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// The next 128 random bits.
    pub fn bits(&self) -> u128 {
        let mut rng = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64())
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
