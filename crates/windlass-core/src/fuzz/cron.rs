//! Cron expressions and time zones, against an evaluation that asks every second of every day.

use proptest::prelude::*;
use windlass_fuzz::Family;

use super::{refused, same};
use crate::clock::Timestamp;
use crate::limits;
use crate::schedule::{Cron, ScheduleSpec, Zone};

/// First and last number of each field, seconds first.
const RANGES: [(u32, u32); 6] = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];
const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
const DAYS: &str = "sun mon tue wed thu fri sat";
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The numbers of each field, and whether one of the two fields of days is enough.
struct Meaning {
    numbers: [Vec<u32>; 6],
    is_either_day: bool,
}

fn number(text: &str, field: usize) -> Option<u32> {
    let words = [(4, MONTHS, 1), (5, DAYS, 0)].into_iter().find(|(of, ..)| *of == field);
    let lower = text.to_ascii_lowercase();
    let word = words.and_then(|(_, words, first)| {
        words.split(' ').position(|word| word == lower).map(|at| u32::try_from(at).unwrap() + first)
    });
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let (first, last) = RANGES[field];
    word.or_else(|| text.parse().ok().filter(|_| is_number)).filter(|n| (first..=last).contains(n))
}

/// The numbers that a part of a list names: one question per number.
fn part(text: &str, field: usize) -> Option<Vec<u32>> {
    let (first, last) = RANGES[field];
    let pieces: Vec<&str> = text.splitn(2, '/').collect();
    let step = match pieces.get(1) {
        Some(step) if step.chars().all(|c| c.is_ascii_digit()) => {
            Some(step.parse::<u32>().ok().filter(|step| (1..=last).contains(step))?)
        }
        Some(_) => return None,
        None => None,
    };
    let ends: Vec<&str> = pieces[0].splitn(2, '-').collect();
    // Only a range that names it reaches the second number of Sunday.
    let open_end = if field == 5 && step.is_some() { 6 } else { last };
    let (from, to) = match ends[..] {
        ["*" | "?"] => (first, open_end),
        [single] if step.is_some() => (number(single, field)?, open_end.max(number(single, field)?)),
        [single] => (number(single, field)?, number(single, field)?),
        [from, to] => (number(from, field)?, number(to, field)?),
        _ => return None,
    };
    (from <= to).then(|| (from..=to).filter(|n| (n - from) % step.unwrap_or(1) == 0).collect())
}

fn meaning(text: &str) -> Option<Meaning> {
    let text = text.trim();
    let named = NAMES.iter().find(|(name, _)| *name == text.to_ascii_lowercase());
    let mut fields: Vec<&str> = named.map_or(text, |(_, meaning)| meaning).split_ascii_whitespace().collect();
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    let fields: [&str; 6] = fields.try_into().ok()?;
    let mut numbers: [Vec<u32>; 6] = Default::default();
    for (at, field) in fields.iter().enumerate() {
        for text in field.split(',') {
            numbers[at].extend(part(text, at)?);
        }
    }
    let is_open = |field: &str| field.starts_with('*') || field.starts_with('?');
    Some(Meaning { numbers, is_either_day: !is_open(fields[3]) && !is_open(fields[5]) })
}

impl Meaning {
    fn is_day(&self, date: jiff::civil::Date) -> bool {
        let has = |field: usize, number: i8| self.numbers[field].contains(&u32::try_from(number).unwrap());
        let weekday = date.weekday().to_sunday_zero_offset();
        let (day, weekday) = (has(3, date.day()), has(5, weekday) || (weekday == 0 && has(5, 7)));
        has(4, date.month()) && if self.is_either_day { day || weekday } else { day && weekday }
    }

    /// The first seconds after `after` in UTC: every day of the years that are searched, every second of a day that fits.
    fn runs(&self, after: i64, count: usize) -> Vec<i64> {
        let mut found = Vec::new();
        let mut date = jiff::Timestamp::from_second(after).unwrap().to_zoned(jiff::tz::TimeZone::UTC).date();
        let mut last = date.year() + limits::CRON_YEARS_SEARCHED;
        while date.year() <= last && found.len() < count {
            if self.is_day(date) {
                let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_second();
                let hours = (0..24_u32).filter(|hour| self.numbers[2].contains(hour));
                let minutes = hours.flat_map(|hour| (0..60).map(move |minute| hour * 60 + minute));
                let minutes = minutes.filter(|minute| self.numbers[1].contains(&(minute % 60)));
                for second in minutes.flat_map(|minute| (0..60).map(move |second| minute * 60 + second)) {
                    if self.numbers[0].contains(&(second % 60)) && midnight + i64::from(second) > after {
                        found.push(midnight + i64::from(second));
                        last = date.year() + limits::CRON_YEARS_SEARCHED;
                        if found.len() == count {
                            break;
                        }
                    }
                }
            }
            date = date.tomorrow().unwrap();
        }
        found
    }
}

fn check(text: &str) -> Result<(), String> {
    let (read, meant) = (text.parse::<Cron>(), meaning(text));
    let cron = match (&read, &meant) {
        (Ok(cron), Some(_)) => cron,
        (Ok(_), None) => return Err("means nothing, and is taken".to_owned()),
        (Err(problem), Some(meant)) => {
            let says_never = problem.to_string().contains("no valid date") && meant.runs(0, 1).is_empty();
            let is_long = text.chars().count() > limits::CRON_CHARS_MAX;
            return if says_never || is_long {
                refused(problem)
            } else {
                Err(format!("is refused: {problem}"))
            };
        }
        (Err(problem), None) => return refused(problem),
    };
    same("read again", cron.to_string().parse::<Cron>(), Ok(cron.clone()))?;
    let timing = ScheduleSpec::Cron { cron: cron.clone(), timezone: Zone::default() };
    let meant = meant.expect("both are there");
    for start in [1_798_761_600, 1_835_395_199] {
        let after = Timestamp::from_millis(start * 1_000);
        let runs: Vec<i64> =
            timing.next_runs(after, after, 3).iter().map(|run| run.as_millis() / 1000).collect();
        same("runs", runs, meant.runs(start, 3))?;
    }
    Ok(())
}

fn expressions() -> impl Strategy<Value = String> {
    let field = |at: usize| {
        let (first, last) = RANGES[at];
        let number = move || (first..=last).prop_map(|n| n.to_string()).boxed();
        let part = prop_oneof![
            3 => Just("*".to_owned()),
            3 => number(),
            2 => (1..=last).prop_map(|step| format!("*/{step}")),
            1 => (first..=last, 1..=last).prop_map(|(from, step)| format!("{from}/{step}")),
            2 => (first..=last, first..=last).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => (first..=last, first..=last, 1..=last)
                .prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
        ];
        prop::collection::vec(part, 1..3).prop_map(|parts| parts.join(","))
    };
    let with_seconds = (prop::option::of(field(0)), [field(1), field(2), field(3), field(4), field(5)]);
    with_seconds.prop_map(|(seconds, fields)| seconds.into_iter().chain(fields).collect::<Vec<_>>().join(" "))
}

/// Model: schedule-runs. What an expression means is what every second of every day says.
#[test]
fn an_expression_means_what_every_second_says() {
    Family::new("cron").cases(300).values(&expressions(), |text| check(&text));
}

/// Model: schedule-runs
#[test]
fn a_changed_expression_is_refused_or_means_what_it_says() {
    let words =
        ["*", "/", "-", ",", "?", "7", "mon", "SUN", "dec", "*/7", "0-7", "@weekly", "\t", "31", "29 2"];
    Family::new("cron").words(words).text(check);
}

/// Model: schedule-runs
#[test]
fn a_zone_is_read_as_it_is_written() {
    let seeds =
        ["UTC", "Europe/Berlin", "america/new_york", "Etc/GMT+12", "Pacific/Kiritimati", "Antarctica/Troll"];
    Family::new("zone").seeds(seeds).words(["/", "Etc/", "+14", "posix/", "../../etc/passwd"]).text(|text| {
        match text.parse::<Zone>() {
            Ok(zone) => same("read again", zone.to_string().parse(), Ok(zone.clone())),
            Err(problem) => refused(&problem),
        }
    });
}

/// Every zone, at every moment near a change of its clocks: the next run is later, and no run is skipped between two.
#[test]
fn runs_of_any_zone_come_one_after_the_other() {
    let zones: Vec<String> =
        jiff::tz::TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect();
    let inputs = (expressions(), any::<prop::sample::Index>(), 0..Timestamp::MAX.as_millis());
    Family::new("zone").cases(300).values(&inputs, |(text, zone, after)| {
        let Ok(cron) = text.parse() else { return Ok(()) };
        let timezone: Zone = zones[zone.index(zones.len())].parse().unwrap();
        let timing = ScheduleSpec::Cron { cron, timezone };
        let after = Timestamp::from_millis(after);
        let runs = timing.next_runs(after, after, 5);
        let is_ordered = std::iter::once(&after).chain(&runs).is_sorted_by(|a, b| a < b);
        if !is_ordered {
            return Err(format!("after {after}: {runs:?}"));
        }
        let Some(last) = runs.last() else { return Ok(()) };
        let before = last.minus(std::time::Duration::from_millis(1));
        same("asked just before", timing.next_after(after, before), Some(*last))
    });
}
