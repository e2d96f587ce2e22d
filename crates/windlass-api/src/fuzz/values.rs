//! Durations, against the parser of `jiff`; expiries, priorities.

use std::time::Duration;

use proptest::prelude::*;
use windlass_core::clock::Timestamp;
use windlass_core::limits;
use windlass_fuzz::Family;

use super::refused;
use crate::expires::Expiry;
use crate::priority::PriorityInput;
use crate::time::{Moment, QuerySpan, Span};

const SEEDS: [&str; 10] =
    ["0s", "250ms", "30s", "5m", "1h30m", "7d", "1d1h1m1s1ms", "36500d", "99999999999999999999d", "1.5h"];

/// What it means by `jiff`, whose days have 24 hours here. It takes many more spellings.
fn by_jiff(text: &str) -> Option<Duration> {
    let parser = jiff::fmt::friendly::SpanParser::new();
    let span = parser.parse_span(text).ok()?;
    let relative = jiff::SpanRelativeTo::days_are_24_hours();
    Duration::try_from(span.to_duration(relative).ok()?).ok()
}

fn check(text: &str) -> Result<(), String> {
    let Span(span) = match text.parse::<Span>() {
        Ok(span) => span,
        Err(problem) => return refused(&problem),
    };
    if span > limits::DURATION_MAX {
        return Err(format!("{span:?} is longer than allowed"));
    }
    // `jiff` bounds each unit by itself.
    match by_jiff(text) {
        Some(other) if other != span => return Err(format!("is read as {span:?}, and by jiff as {other:?}")),
        None if !text.contains("00000") && text.len() < 12 => return Err("jiff refuses it".to_owned()),
        Some(_) | None => {}
    }
    let shown = Span(span).to_string();
    match shown.parse::<Span>() {
        Ok(Span(again)) if again == span => Ok(()),
        other => Err(format!("is shown as {shown}, which is read as {other:?}")),
    }
}

#[test]
fn a_duration_means_what_jiff_says() {
    Family::new("duration")
        .seeds(SEEDS)
        .words(["d", "h", "m", "s", "ms", "1", "0", " ", "-", "w"])
        .cases(4_000)
        .text(check);
}

#[test]
fn any_units_mean_what_jiff_says() {
    let unit = |name: &'static str| prop::option::of((0..5_000_u32).prop_map(move |n| format!("{n}{name}")));
    let units = (unit("d"), unit("h"), unit("m"), unit("s"), unit("ms"));
    Family::new("duration").values(&units, |(d, h, m, s, ms)| {
        let text: String = [d, h, m, s, ms].into_iter().flatten().collect();
        match (text.is_empty(), text.parse::<Span>()) {
            (true, Err(_)) => Ok(()),
            (false, Ok(_)) => check(&text),
            (_, other) => Err(format!("{text:?} is read as {other:?}")),
        }
    });
}

/// A duration that is sent is not shorter than it was, and less than a millisecond longer.
#[test]
fn a_duration_is_sent_to_the_next_millisecond() {
    let nanos = 0..=u64::try_from(limits::DURATION_MAX.as_nanos()).unwrap();
    Family::new("duration").values(&nanos, |nanos| {
        let given = Duration::from_nanos(nanos);
        let sent: Span = Span(given).to_string().parse().map_err(|problem: String| problem)?;
        let is_near = sent.0 >= given && sent.0.saturating_sub(given) < Duration::from_millis(1);
        if is_near { Ok(()) } else { Err(format!("{given:?} is sent as {:?}", sent.0)) }
    });
}

#[test]
fn values_in_json_are_read_or_refused_in_words() {
    let seeds = [
        "\"1h30m\"",
        "90",
        "0.25",
        "-5",
        "1e300",
        "\"2030-01-31T12:00:00Z\"",
        "true",
        "\"high\"",
        "101",
        "[]",
    ];
    Family::new("json-values").seeds(seeds).words(["1e", "\"", "-", "Z", "+02:00"]).cases(4_000).text(
        |text| {
            let now = Timestamp::from_millis(1_800_000_000_000);
            match serde_json::from_str::<Expiry>(text) {
                Ok(expiry) => {
                    let within = expiry.counted_from("expires", now);
                    match within {
                        Ok(within) if within > Duration::from_secs(10_000 * 366 * 86_400) => {
                            return Err(format!("{within:?}"));
                        }
                        Ok(_) => {}
                        Err(problem) => refused(&problem)?,
                    }
                    let written = serde_json::to_string(&expiry).map_err(|problem| problem.to_string())?;
                    serde_json::from_str::<Expiry>(&written)
                        .map_err(|problem| format!("{written}: {problem}"))?;
                }
                Err(problem) => refused(&problem)?,
            }
            match serde_json::from_str::<Span>(text) {
                Ok(span) if span.0 > limits::DURATION_MAX => return Err(format!("{span:?}")),
                Ok(_) => {}
                Err(problem) => refused(&problem)?,
            }
            if let Err(problem) = serde_json::from_str::<QuerySpan>(text) {
                refused(&problem)?;
            }
            if let Err(problem) = serde_json::from_str::<Moment>(text) {
                refused(&problem)?;
            }
            match serde_json::from_str::<PriorityInput>(text) {
                Ok(priority) => {
                    let written = serde_json::to_string(&priority).map_err(|problem| problem.to_string())?;
                    let again: PriorityInput =
                        serde_json::from_str(&written).map_err(|problem| problem.to_string())?;
                    if again.0 == priority.0 { Ok(()) } else { Err(format!("{written} is another priority")) }
                }
                Err(problem) => refused(&problem),
            }
        },
    );
}
