//! Formats numbers, times, sizes and names of workers for people.

use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::job::WorkerId;
use windlass::schedule::Zone;
use windlass::store::Config;

pub(in crate::dashboard) use crate::number::grouped as count;
use crate::number::scaled;

/// A time relative to now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) struct Moment {
    /// In full, for machines.
    pub(in crate::dashboard) iso: String,
    /// In full, in the visitor's time zone.
    pub(in crate::dashboard) full: String,
    /// For people: `3m ago`, `in 2h`.
    pub(in crate::dashboard) text: String,
}

impl Moment {
    pub(in crate::dashboard) fn new(at: Timestamp, now: Timestamp) -> Moment {
        let text = if at > now {
            format!("in {}", span(at.since(now)))
        } else if now.since(at) < Duration::from_secs(1) {
            "just now".to_owned()
        } else {
            format!("{} ago", span(now.since(at)))
        };
        let iso = at.to_string();
        let full = zoned(|zone| zone.full_at(at)).unwrap_or_else(|| iso.clone());
        Moment { iso, full, text }
    }
}

tokio::task_local! {
    /// The time zone of the visitor whose page is made; UTC without one.
    static ZONE: Option<Zone>;
}

/// Makes a page with times in this zone.
pub(in crate::dashboard) async fn in_zone<T>(zone: Option<Zone>, page: impl Future<Output = T>) -> T {
    ZONE.scope(zone, page).await
}

/// What the visitor's zone says; `None` for UTC.
fn zoned<T>(say: impl FnOnce(&Zone) -> Option<T>) -> Option<T> {
    ZONE.try_with(|zone| zone.as_ref().and_then(say)).ok().flatten()
}

/// A time of day, with the date unless it is today: `15:53:44 UTC`, or in the visitor's time zone.
pub(in crate::dashboard) fn clock(at: Timestamp, now: Timestamp) -> String {
    let own = |at: Timestamp| zoned(|zone| zone.full_at(at));
    if let Some((at, now)) = own(at).zip(own(now)) {
        let day = at.get(..10).unwrap_or_default();
        let is_today = now.starts_with(day);
        return if is_today { at.get(11..).unwrap_or_default().to_owned() } else { at };
    }
    let (at, now) = (at.to_string(), now.to_string());
    let (day, time) = (at.get(..10).unwrap_or_default(), at.get(11..19).unwrap_or_default());
    if now.starts_with(day) { format!("{time} UTC") } else { format!("{day} {time} UTC") }
}

/// A date and a time of day in the visitor's time zone, to the second: `2030-01-31 12:00:00`.
pub(in crate::dashboard) fn local(at: Timestamp) -> String {
    let full = zoned(|zone| zone.full_at(at)).unwrap_or_else(|| at.to_string().replace('T', " "));
    full.get(..19).unwrap_or_default().to_owned()
}

/// The short name of the visitor's time zone at a time: `UTC`, `CET`.
pub(in crate::dashboard) fn zone_at(at: Timestamp) -> String {
    let full = zoned(|zone| zone.full_at(at));
    full.and_then(|full| full.get(20..).map(str::to_owned)).unwrap_or_else(|| "UTC".to_owned())
}

/// A date and time without a zone, as a browser's date field writes them: taken in the visitor's time zone. None if it
/// cannot be read, or if times are in UTC.
pub(in crate::dashboard) fn from_local(text: &str) -> Option<Timestamp> {
    zoned(|zone| zone.time_of(text))
}

/// A message of the store with its times reformatted: time of day, and how far away.
pub(in crate::dashboard) fn with_moments(text: &str, now: Timestamp) -> String {
    let shown = |word: &str| {
        let bare = word.trim_end_matches([',', ';', ':', '.']);
        // Only full timestamps.
        let at = (bare.len() == 24 && bare.ends_with('Z')).then(|| bare.parse::<Timestamp>().ok())??;
        let rest = &word[bare.len()..];
        Some(format!("{} ({}){rest}", clock(at, now), Moment::new(at, now).text))
    };
    let words = text.split(' ').map(|word| shown(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// A duration in its two largest units at most.
pub(in crate::dashboard) fn span(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{}.{} s", seconds, millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// An upper bound of a duration, rounded up.
pub(in crate::dashboard) fn at_most(bound: Duration) -> String {
    let step = match bound.as_secs() {
        0 => 1,
        1..10 => 100,
        10..3600 => 1_000,
        3600..86_400 => 60_000,
        _ => 3_600_000,
    };
    let millis = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX - step);
    format!("≤ {}", span(Duration::from_millis(millis.div_ceil(step).saturating_mul(step))))
}

/// A duration as a form takes it, to the millisecond: `250ms`, `90s`, `2h`.
pub(in crate::dashboard) fn exact(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{}{name}", millis / unit)
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit} {small}{small_unit}")
    }
}

/// A number in at most four characters and a unit.
pub(in crate::dashboard) fn compact(number: u64) -> String {
    scaled(number).unwrap_or_else(|| count(number))
}

/// A size in bytes.
pub(in crate::dashboard) fn bytes(size: usize) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{:.1} KiB", real(size as u64) / 1024.0),
        _ => format!("{:.1} MiB", real(size as u64) / 1_048_576.0),
    }
}

/// Cents as an amount.
pub(in crate::dashboard) fn cents(amount: i64) -> String {
    let sign = if amount < 0 { "−" } else { "" };
    format!("{sign}{}.{:02}", count(amount.unsigned_abs() / 100), amount.unsigned_abs() % 100)
}

/// A share in percent; None if the whole is zero.
pub(in crate::dashboard) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| real(part) * 100.0 / real(whole))
}

/// A number for drawing; precision beyond 2^53 is not visible.
#[allow(clippy::cast_precision_loss, reason = "drawings need no more precision")]
pub(in crate::dashboard) fn real(number: u64) -> f64 {
    number as f64
}

/// A short form of an id, which distinguishes jobs on a page.
pub(in crate::dashboard) fn short(id: &str) -> String {
    // The first twelve digits are the submission time; the next ones distinguish jobs submitted together.
    match (id.get(..8), id.get(24..28)) {
        (Some(head), Some(tail)) => format!("{head}…{tail}"),
        _ => id.to_owned(),
    }
}

/// The first line of a text, cut to a length.
pub(in crate::dashboard) fn line(text: &str, chars_max: usize) -> String {
    let first = text.lines().next().unwrap_or_default();
    let mut cut: String = first.chars().take(chars_max).collect();
    if cut.len() < text.trim_end().len() {
        cut.push('…');
    }
    cut
}

/// The name of a worker; the end of its id if it has no name or is no longer known; any other text unchanged.
pub(in crate::dashboard) fn worker_name(config: &Config, id: &str) -> String {
    let Ok(worker) = id.parse::<WorkerId>() else { return id.to_owned() };
    match config.workers.get(&worker).map(|worker| worker.name.as_str()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        // The beginning is the registration time; the end distinguishes workers.
        _ => id.get(24..).unwrap_or(id).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_their_two_largest_units() {
        let shown = |millis| span(Duration::from_millis(millis));
        assert_eq!(shown(7), "7 ms");
        assert_eq!(shown(1_250), "1.2 s");
        assert_eq!(shown(59_999), "59 s");
        assert_eq!(shown(60_000), "1m");
        assert_eq!(shown(3_725_000), "1h 2m");
        assert_eq!(shown(90_000_000), "1d 1h");
    }

    #[test]
    fn a_bound_is_never_shown_smaller_than_it_is() {
        let shown = |millis| at_most(Duration::from_millis(millis));
        assert_eq!(shown(256), "≤ 256 ms");
        assert_eq!(shown(8_192), "≤ 8.2 s");
        assert_eq!(shown(16_384), "≤ 17 s");
        assert_eq!(shown(65_536), "≤ 1m 6s");
        assert_eq!(shown(4_194_304), "≤ 1h 10m");
    }

    #[test]
    fn a_duration_in_a_form_is_exact() {
        let shown = |millis| exact(Duration::from_millis(millis));
        assert_eq!(
            [250, 1_500, 90_000, 7_200_000, 86_400_000].map(shown),
            ["250ms", "1500ms", "90s", "2h", "1d"]
        );
    }

    #[test]
    fn numbers_have_their_thousands_apart_and_shrink_when_space_is_short() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(compact(9_999), "9,999");
        assert_eq!(compact(12_345), "12.3k");
        assert_eq!(compact(123_456), "123k");
        assert_eq!(compact(7_654_321), "7.6M");
        assert_eq!(cents(-123_456), "−1,234.56");
        assert_eq!(cents(5), "0.05");
    }

    #[test]
    fn a_moment_knows_past_from_future() {
        let now = Timestamp::from_millis(10_000_000);
        let shown = |at| Moment::new(Timestamp::from_millis(at), now).text;
        assert_eq!(shown(10_000_000), "just now");
        assert_eq!(shown(9_400_000), "10m ago");
        assert_eq!(shown(10_300_000), "in 5m");
    }

    #[test]
    fn a_moment_is_shown_as_time_of_day_with_its_day_unless_that_is_today() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-15T15:53:44.516Z");
        assert_eq!(clock(at("2026-11-15T09:00:01.000Z"), now), "09:00:01 UTC");
        assert_eq!(clock(at("2026-11-14T09:00:01.000Z"), now), "2026-11-14 09:00:01 UTC");
        let shown =
            with_moments("paused by ada since 2026-11-15T15:53:34.516Z, until 2026-11-15T16:53:44.516Z", now);
        assert_eq!(shown, "paused by ada since 15:53:34 UTC (10 s ago), until 16:53:44 UTC (in 1h)");
        assert_eq!(with_moments("no time  here Z", now), "no time  here Z");
    }

    #[test]
    fn a_line_ends_where_the_text_continues() {
        assert_eq!(line("one\ntwo", 80), "one…");
        assert_eq!(line("abcdef", 3), "abc…");
        assert_eq!(line("abc", 3), "abc");
    }

    #[test]
    fn a_forgotten_worker_is_named_by_the_end_of_its_id() {
        let config = Config::default();
        assert_eq!(worker_name(&config, "019a8f3c-1234-7abc-8def-0123456789ab"), "0123456789ab");
        assert_eq!(worker_name(&config, "ada"), "ada");
    }
}
