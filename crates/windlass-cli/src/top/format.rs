//! Formats numbers, ages and text for table cells.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use windlass_server::number::scaled;

pub(super) use crate::output::table::cut_end as cut;

/// The display width of a text.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// A duration in at most seven characters.
pub(super) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{}.{}s", seconds, duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A number in at most five characters.
pub(super) fn count(number: u64) -> String {
    scaled(number).unwrap_or_else(|| number.to_string())
}

/// Like [`count`], but `·` for zero.
pub(super) fn count_or_dot(number: u64) -> String {
    if number == 0 { "·".to_owned() } else { count(number) }
}

/// A rate per second.
pub(super) fn per_second(rate: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no rate is negative or beyond that"
    )]
    match rate {
        0.0 => "0/s".to_owned(),
        rate if rate < 10.0 => format!("{rate:.1}/s"),
        rate => format!("{}/s", count(rate.round() as u64)),
    }
}

/// The number with a singular or plural noun.
pub(super) fn several(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", count(number)) }
}

/// The end of an id. The beginning is the submission time; the end distinguishes jobs submitted together.
pub(super) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ages_are_short() {
        assert_eq!(
            (count(9_999), count(12_345), count(1_000_000)),
            ("9999".into(), "12.3k".into(), "1.0M".into())
        );
        assert_eq!(
            (per_second(0.0), per_second(0.25), per_second(12_345.0)),
            ("0/s".into(), "0.2/s".into(), "12.3k/s".into())
        );
        let ages = [40, 1_900, 59_000, 61_000, 3_700_000, 90_000_000];
        let shown: Vec<String> = ages.into_iter().map(|millis| age(Duration::from_millis(millis))).collect();
        assert_eq!(shown, ["40ms", "1.9s", "59s", "1m01s", "1h01m", "1d01h"]);
    }
}
