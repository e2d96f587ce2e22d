//! Formats the API's values for people: durations, times, counts.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use windlass::clock::Timestamp;

use windlass_api::time::Moment;

/// A duration in its two largest units: `15s`, `2m3s`, `3h5m`, `4d2h`.
pub(crate) fn short_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |large: u64, unit: &str, small: u64, below: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{below}"),
    };
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// A measured duration: like [`short_span`], with tenths below ten seconds.
pub(crate) fn measured(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 1..10 => format!("{seconds}.{}s", span.subsec_millis() / 100),
        _ => short_span(span),
    }
}

/// Cents as an amount without a currency.
pub(crate) fn spent(cents: impl Into<i128>) -> String {
    let cents: i128 = cents.into();
    let sign = if cents < 0 { "-" } else { "" };
    let cents = u64::try_from(cents.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{sign}{}.{:02}", windlass_server::number::grouped(cents / 100), cents % 100)
}

/// How long ago a time was, or how soon it will be.
pub(crate) fn ago(Moment(at): Moment, now: Timestamp) -> String {
    if at > now {
        let ahead = at.since(now);
        return format!("in {}", short_span(ahead.max(Duration::from_secs(1))));
    }
    let past = now.since(at);
    if past < Duration::from_secs(1) { "now".to_owned() } else { format!("{} ago", short_span(past)) }
}

/// A time to the second: `2030-01-31 12:00:00`, in UTC.
pub(crate) fn moment(Moment(at): Moment) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, time)) if time.len() >= 8 => format!("{day} {}", &time[..8]),
        _ => text,
    }
}

/// A value as text, or `-` if there is none.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A word of the API, such as an outcome or a mode.
pub(crate) fn api_name(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `1 job`, `2 jobs`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", windlass_server::number::grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (250, "250ms"),
            (15_999, "15s"),
            (60_000, "1m"),
            (123_000, "2m3s"),
            (11_100_000, "3h5m"),
            (352_800_000, "4d2h"),
        ] {
            assert_eq!(short_span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn what_was_measured_has_tenths_of_few_seconds() {
        let shown =
            [250, 1_000, 2_560, 9_999, 15_999, 61_000].map(|millis| measured(Duration::from_millis(millis)));
        assert_eq!(shown, ["250ms", "1.0s", "2.5s", "9.9s", "15s", "1m1s"]);
    }

    #[test]
    fn amounts_have_two_digits_after_the_point() {
        for (cents, text) in [(0, "0.00"), (5, "0.05"), (-1_234, "-12.34"), (123_456_789, "1,234,567.89")] {
            assert_eq!(spent(cents), text);
        }
    }

    #[test]
    fn moments_are_shown_relative_to_now() {
        let at = |text: &str| text.parse::<Moment>().unwrap();
        let now = at("2030-01-31T12:00:00Z").0;
        assert_eq!(ago(at("2030-01-31T11:58:00.000Z"), now), "2m ago");
        assert_eq!(ago(at("2030-01-31T12:00:30.000Z"), now), "in 30s");
        assert_eq!(ago(at("2030-01-31T12:00:00.000Z"), now), "now");
        assert_eq!(moment(at("2030-01-31T12:00:00.123Z")), "2030-01-31 12:00:00");
        assert_eq!((or_dash(Some(1)), or_dash(None::<u8>)), ("1".to_owned(), "-".to_owned()));
    }
}
