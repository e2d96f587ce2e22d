//! Twenty years in fourteen zones against a computation that shares nothing with the one under test but the offsets: it
//! walks through the minutes of real time and looks at what the clocks show.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::*;

/// With midnight gaps (Cairo, Beirut, São Paulo, Asunción), half hours (Lord Howe), a skipped day (Apia), odd offsets
/// (Kathmandu, Chatham), changes a minute past midnight (St John's) and none at all (Kolkata).
const ZONES: [&str; 14] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Chatham",
];

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// What the clocks show, in minutes since 1970 as if they were set to UTC.
type Shown = i64;

/// An expression, and when it fits what the clocks show, in words of its own.
struct Case {
    expression: &'static str,
    is_hourly: bool,
    time: fn(minute: i64, hour: i64) -> bool,
    day: fn(date: DateTime) -> bool,
}

const fn daily(expression: &'static str, time: fn(i64, i64) -> bool) -> Case {
    Case { expression, is_hourly: false, time, day: |_| true }
}

const SPARSE: [Case; 7] = [
    daily("0 0 * * *", |minute, hour| (hour, minute) == (0, 0)),
    daily("30 0 * * *", |minute, hour| (hour, minute) == (0, 30)),
    daily("30 1 * * *", |minute, hour| (hour, minute) == (1, 30)),
    daily("15 2 * * *", |minute, hour| (hour, minute) == (2, 15)),
    Case { day: |date| date.weekday() == Weekday::Sunday, ..daily("45 2 * * sun", |m, h| (h, m) == (2, 45)) },
    Case { day: |date| date.day() == 30, ..daily("0 12 30 * *", |m, h| (h, m) == (12, 0)) },
    Case {
        day: |date| date.day() == 1 && matches!(date.month(), 4 | 10),
        ..daily("1 0 1 apr,oct *", |minute, hour| (hour, minute) == (0, 1))
    },
];

const DENSE: [Case; 5] = [
    Case { is_hourly: true, ..daily("*/15 * * * *", |minute, _| minute % 15 == 0) },
    Case { is_hourly: true, ..daily("7 0-23 * * *", |minute, _| minute == 7) },
    daily("*/7 1-3 * * *", |minute, hour| minute % 7 == 0 && (1..=3).contains(&hour)),
    daily("30 */2 * * *", |minute, hour| minute == 30 && hour % 2 == 0),
    daily("5,35 22-23,0-1 * * *", |minute, hour| matches!(minute, 5 | 35) && matches!(hour, 22 | 23 | 0 | 1)),
];

impl Case {
    fn is_at(&self, shown: Shown) -> bool {
        let date = || TimeZone::UTC.to_datetime(jiff::Timestamp::from_second(shown * MINUTE).unwrap());
        (self.time)(shown.rem_euclid(60), shown.div_euclid(60).rem_euclid(24)) && (self.day)(date())
    }
}

/// A zone's offsets from UTC in minutes.
struct Offsets(TimeZone);

impl Offsets {
    fn at(&self, second: i64) -> i64 {
        let moment = jiff::Timestamp::from_second(second).unwrap();
        i64::from(self.0.to_offset(moment).seconds()).div_euclid(MINUTE)
    }

    fn shown(&self, second: i64) -> Shown {
        second.div_euclid(MINUTE) + self.at(second)
    }

    /// Whether the clocks continue as they did through the day that begins here.
    fn is_plain_day(&self, second: i64) -> bool {
        let offset = self.at(second - MINUTE);
        second % DAY == 0 && offset == self.at(second) && offset == self.at(second + DAY)
    }
}

/// The moments, in seconds, at which a case comes from the minute after `from` up to `to`; no clocks were changed in the
/// hours before.
fn walk(case: &Case, offsets: &Offsets, from: i64, to: i64) -> Vec<i64> {
    // On a plain day only the minutes at which it can come need be looked at.
    let of_day: Vec<i64> = (0..DAY / MINUTE).filter(|minute| (case.time)(minute % 60, minute / 60)).collect();
    let mut highest = offsets.shown(from);
    let mut found = Vec::new();
    let mut second = from + MINUTE;
    while second <= to {
        let shown = offsets.shown(second);
        let is_plain = shown == highest + 1 && second + DAY <= to && offsets.is_plain_day(second);
        let minutes = if is_plain { DAY / MINUTE } else { 1 };
        // More than one at a time where the clocks skip; what they show again is new only to those who run every hour.
        let is_new = shown > highest;
        let first = if is_new && !case.is_hourly { highest + 1 } else { shown };
        if is_plain {
            let later = |minute: &i64| (minute - shown).rem_euclid(minutes);
            let mut later: Vec<i64> = of_day.iter().map(later).collect();
            later.sort_unstable();
            let fitting = later.into_iter().filter(|later| case.is_at(shown + later));
            found.extend(fitting.map(|later| second + later * MINUTE));
        } else if (is_new || case.is_hourly) && (first..=shown).any(|shown| case.is_at(shown)) {
            found.push(second);
        }
        highest = highest.max(shown + minutes - 1);
        second += minutes * MINUTE;
    }
    found
}

fn computed(case: &Case, zone: &str, from: i64, to: i64) -> Vec<i64> {
    let timing = in_zone(case.expression, zone);
    let next = |after: Timestamp| timing.next_after(after, after);
    let start = Timestamp::from_millis(from * 1000);
    std::iter::successors(next(start), |run| next(*run))
        .map(|run| run.as_millis() / 1000)
        .take_while(|run| *run <= to)
        .collect()
}

fn compare(case: &Case, zone: &str, offsets: &Offsets, from: i64, to: i64) {
    let (walked, computed) = (walk(case, offsets, from, to), computed(case, zone, from, to));
    let first_difference = walked.iter().zip(&computed).find(|(walked, computed)| walked != computed);
    assert!(
        walked == computed,
        "{} in {zone}: {} runs walked, {} computed, the first that differ: {first_difference:?}",
        case.expression,
        walked.len(),
        computed.len()
    );
}

fn rules(zone: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(zone).unwrap()
}

fn second(text: &str) -> i64 {
    at(text).as_millis() / 1000
}

/// Model: schedule-runs. Twenty years, day by day.
#[test]
fn twenty_years_of_days_are_as_walked_through() {
    let (from, to) = (second("2010-01-01T00:00:00Z"), second("2030-01-01T00:00:00Z"));
    for zone in ZONES {
        for case in &SPARSE {
            compare(case, zone, &Offsets(rules(zone)), from, to);
        }
    }
}

/// Model: schedule-runs. Every change of the clocks in twenty years, with whatever runs often.
#[test]
fn every_change_of_the_clocks_is_as_walked_through() {
    let (from, to) = (second("2010-01-01T00:00:00Z"), second("2030-01-01T00:00:00Z"));
    let mut changes = 0;
    for zone in ZONES {
        let offsets = Offsets(rules(zone));
        let start = jiff::Timestamp::from_second(from).unwrap();
        let later = offsets.0.following(start).map(|change| change.timestamp().as_second());
        for change in later.take_while(|change| *change < to) {
            changes += 1;
            let around = change.div_euclid(HOUR) * HOUR;
            for case in &DENSE {
                compare(case, zone, &offsets, around - 5 * HOUR, around + 5 * HOUR);
            }
        }
    }
    assert!(changes > 300, "{changes} changes were looked at");
}
