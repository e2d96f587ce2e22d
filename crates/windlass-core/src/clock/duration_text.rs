//! A duration as text, the form in which people and clients see it.

use std::fmt;
use std::time::Duration;

/// A duration as `1h30m`: whole milliseconds, rounded up, in units of days to milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct DurationText(pub Duration);

/// The units, largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl DurationText {
    /// The units, largest first, with their lengths in milliseconds.
    pub fn units() -> impl Iterator<Item = (&'static str, u64)> {
        UNITS.into_iter()
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded up: a wait of half a millisecond must not become zero.
        let mut rest = u64::try_from(self.0.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, size) in UNITS {
            let count = rest / size;
            rest %= size;
            if count > 0 {
                write!(f, "{count}{name}")?;
            }
        }
        Ok(())
    }
}
