//! Cron expressions: five fields, or six with seconds first; lists, ranges, steps and names. They match dates and times
//! of day; `zone.rs` converts these to points in time.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;
use crate::limits;

/// A cron expression.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    seconds: Set,
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    /// Whether a day matches if either of its two fields does: the case if both are restricted.
    is_either_day: bool,
}

/// Numbers from 0 to 59, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Set(u64);

impl Set {
    fn has(self, number: i8) -> bool {
        self.first_from(number) == Some(number)
    }

    /// The smallest number of the set that is at least `number`.
    fn first_from(self, number: i8) -> Option<i8> {
        let shift = u32::try_from(number).ok().filter(|shift| *shift < 64)?;
        let rest = self.0 >> shift << shift;
        (rest != 0).then(|| i8::try_from(rest.trailing_zeros()).expect("a bit's place is below 64"))
    }

    fn first(self) -> i8 {
        self.first_from(0).expect("a field that was read names at least one number")
    }
}

/// A field's name, its range, and the names of its numbers from the first on.
struct Field {
    name: &'static str,
    first: u8,
    last: u8,
    words: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", first: 0, last: 59, words: &[] };
const MINUTE: Field = Field { name: "minute", first: 0, last: 59, words: &[] };
const HOUR: Field = Field { name: "hour", first: 0, last: 23, words: &[] };
const DAY: Field = Field { name: "day of month", first: 1, last: 31, words: &[] };
const MONTH: Field = Field {
    name: "month",
    first: 1,
    last: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is both 0 and 7.
const WEEKDAY: Field = Field {
    name: "day of week",
    first: 0,
    last: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// Nicknames of common expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl FromStr for Cron {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<Cron, FieldProblem> {
        let length = text.chars().count();
        if length > limits::CRON_CHARS_MAX {
            return Err(FieldProblem::TooLong { length, limit: limits::CRON_CHARS_MAX });
        }
        let text = text.trim();
        let nickname = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let fields: Vec<&str> =
            nickname.map_or(text, |(_, expression)| expression).split_ascii_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = match fields[..] {
            [minute, hour, day, month, weekday] => ["0", minute, hour, day, month, weekday],
            [second, minute, hour, day, month, weekday] => [second, minute, hour, day, month, weekday],
            _ => {
                let found = fields.len();
                return Err(bad(format!("`{text}` has {found} fields; use 5, or 6 with seconds first")));
            }
        };
        let weekdays = WEEKDAY.read(weekday)?;
        let cron = Cron {
            text: text.to_owned(),
            seconds: SECOND.read(second)?,
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays: Set((weekdays.0 | weekdays.0 >> 7) & 0x7f),
            is_either_day: !is_any(day) && !is_any(weekday),
        };
        if cron.first_from(DateTime::MIN).is_none() {
            return Err(bad(format!("`{text}` matches no valid date")));
        }
        Ok(cron)
    }
}

/// Whether a field of days is unrestricted, so that the other one decides, as in every cron.
fn is_any(field: &str) -> bool {
    field.starts_with(['*', '?'])
}

fn bad(message: String) -> FieldProblem {
    FieldProblem::Contradiction(message)
}

impl Field {
    fn read(&self, text: &str) -> Result<Set, FieldProblem> {
        let mut set = Set::default();
        for part in text.split(',') {
            set.0 |= self.part(part)?.0;
        }
        Ok(set)
    }

    /// `*`, a number, a range, or any of them with a step.
    fn part(&self, part: &str) -> Result<Set, FieldProblem> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            None if range == "*" || range == "?" => (self.first, self.last),
            // With a step, a single number is the start of the range.
            None if step.is_some() => (self.number(range)?, self.last),
            None => (self.number(range)?, self.number(range)?),
        };
        if first > last {
            return Err(bad(format!("{} `{range}` ends before it begins", self.name)));
        }
        // Steps use only 0 for Sunday; 7 counts only if written explicitly.
        let is_open = self.last == WEEKDAY.last && step.is_some() && !range.contains('-');
        let last = if is_open { first.max(6) } else { last };
        let numbers = (first..=last).step_by(step.unwrap_or(1));
        Ok(Set(numbers.fold(0, |bits, number| bits | 1 << number)))
    }

    fn step(&self, text: &str) -> Result<usize, FieldProblem> {
        let step = digits(text).filter(|step| (1..=u32::from(self.last)).contains(step));
        let step = step.ok_or_else(|| bad(format!("{} has no step `{text}`", self.name)))?;
        Ok(usize::try_from(step).expect("a step is small"))
    }

    fn number(&self, text: &str) -> Result<u8, FieldProblem> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let number = word
            .map_or_else(|| digits(text), |at| u32::try_from(at).ok().map(|at| at + u32::from(self.first)));
        let number = number.and_then(|number| u8::try_from(number).ok());
        number
            .filter(|number| (self.first..=self.last).contains(number))
            .ok_or_else(|| bad(format!("{} `{text}` is not from {} to {}", self.name, self.first, self.last)))
    }
}

/// Parses a number without a sign.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl Cron {
    /// Whether it runs in every hour of the day, and so by elapsed time rather than at times of the day.
    pub(super) fn is_hourly(&self) -> bool {
        (0..24).all(|hour| self.hours.has(hour))
    }

    /// The first matching date and time that is not before `from`.
    pub(super) fn first_from(&self, from: DateTime) -> Option<DateTime> {
        // Matches are on whole seconds.
        let from = if from.subsec_nanosecond() == 0 {
            from
        } else {
            from.with()
                .subsec_nanosecond(0)
                .build()
                .ok()?
                .checked_add(jiff::SignedDuration::from_secs(1))
                .ok()?
        };
        let last_year = from.year().saturating_add(limits::CRON_YEARS_SEARCHED);
        let (mut date, mut time) = (from.date(), from.time());
        while date.year() <= last_year {
            if !self.months.has(date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if let Some(found) = self.time_from(time).filter(|_| self.has_day(date)) {
                return Some(date.to_datetime(found));
            } else {
                date = date.tomorrow().ok()?;
            }
            time = Time::midnight();
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        if self.is_either_day { day || weekday } else { day && weekday }
    }

    /// The first matching time of day that is not before `from`.
    fn time_from(&self, from: Time) -> Option<Time> {
        let time = |hour, minute, second| Time::new(hour, minute, second, 0).ok();
        let hour = self.hours.first_from(from.hour())?;
        if hour > from.hour() {
            return time(hour, self.minutes.first(), self.seconds.first());
        }
        if let Some(minute) = self.minutes.first_from(from.minute()) {
            if minute > from.minute() {
                return time(hour, minute, self.seconds.first());
            }
            if let Some(second) = self.seconds.first_from(from.second()) {
                return time(hour, minute, second);
            }
            if let Some(minute) = self.minutes.first_from(from.minute() + 1) {
                return time(hour, minute, self.seconds.first());
            }
        }
        let hour = self.hours.first_from(from.hour() + 1)?;
        time(hour, self.minutes.first(), self.seconds.first())
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl TryFrom<String> for Cron {
    type Error = FieldProblem;

    fn try_from(text: String) -> Result<Cron, FieldProblem> {
        text.parse()
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> String {
        cron.text
    }
}
