//! Formats the API's values for people: durations, times, counts.

use std::time::Duration;

use serde_json::Value;
use windlass::clock::Timestamp;

use windlass_api::time::Span;

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

/// A duration from the API, in its two largest units; `-` for null.
pub(crate) fn short_text(span: &Value) -> String {
    let read = span.as_str().and_then(|text| text.parse::<Span>().ok());
    read.map_or_else(|| field(span), |span| short_span(span.0))
}

/// Cents as an amount without a currency.
pub(crate) fn spent(cents: &Value) -> String {
    let cents = cents.as_i64().unwrap_or(0);
    let sign = if cents < 0 { "-" } else { "" };
    let whole = windlass_server::number::grouped(cents.unsigned_abs() / 100);
    format!("{sign}{whole}.{:02}", cents.unsigned_abs() % 100)
}

/// How long ago a time was, or how soon it will be.
pub(crate) fn ago(at: &str, now: Timestamp) -> String {
    let Ok(at) = at.parse::<Timestamp>() else { return at.to_owned() };
    if at > now {
        let ahead = at.since(now);
        return format!("in {}", short_span(ahead.max(Duration::from_secs(1))));
    }
    let past = now.since(at);
    if past < Duration::from_secs(1) { "now".to_owned() } else { format!("{} ago", short_span(past)) }
}

/// Like [`ago`], for a field that may be null.
pub(crate) fn ago_field(at: &Value, now: Timestamp) -> String {
    at.as_str().map_or_else(|| "-".to_owned(), |at| ago(at, now))
}

/// A time to the second: `2030-01-31 12:00:00`, in UTC.
pub(crate) fn moment(at: &str) -> String {
    match at.split_once('T') {
        Some((day, time)) if time.len() >= 8 && time.is_char_boundary(8) => format!("{day} {}", &time[..8]),
        _ => at.to_owned(),
    }
}

/// The duration between two times.
pub(crate) fn between(from: &Value, to: &Value) -> Option<Duration> {
    let read = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    Some(read(to)?.since(read(from)?))
}

/// A field as text: strings as they are, null as `-`, anything else as JSON.
pub(crate) fn field(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
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
    fn fields_of_the_api_are_told_as_people_would() {
        for (span, text) in [("8s678ms", "8s"), ("678ms", "678ms"), ("1h30m5s", "1h30m")] {
            assert_eq!(short_text(&span.into()), text);
        }
        assert_eq!(short_text(&Value::Null), "-");
        for (cents, text) in [(0, "0.00"), (5, "0.05"), (-1_234, "-12.34"), (123_456_789, "1,234,567.89")] {
            assert_eq!(spent(&cents.into()), text);
        }
    }

    #[test]
    fn moments_are_told_from_now() {
        let now: Timestamp = "2030-01-31T12:00:00Z".parse().unwrap();
        assert_eq!(ago("2030-01-31T11:58:00.000Z", now), "2m ago");
        assert_eq!(ago("2030-01-31T12:00:30.000Z", now), "in 30s");
        assert_eq!(ago("2030-01-31T12:00:00.000Z", now), "now");
        assert_eq!(ago("nonsense", now), "nonsense");
        assert_eq!(moment("2030-01-31T12:00:00.123Z"), "2030-01-31 12:00:00");
    }
}
