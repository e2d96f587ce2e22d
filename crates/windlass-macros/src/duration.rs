//! Durations such as `1h30m`, as the HTTP API writes them.

/// The units, largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The milliseconds of numbers with units, the largest first, each at most once; `None` for anything else, and for zero.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let (mut rest, mut units, mut millis) = (text, UNITS.iter(), 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, size) = units.find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(number.parse::<u64>().ok()?.checked_mul(*size)?)?;
        rest = tail;
    }
    (millis > 0).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn durations_are_read_as_the_api_writes_them() {
        for (text, expected) in [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("7d", 604_800_000)] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for bad in ["", "30", "s", "1m1h", "1m1m", "1.5h", "5 s", "0s", "99999999999999999999d", "1w"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }
}
