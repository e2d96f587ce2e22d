//! Time zones: converts local times to points in time, including daylight saving changes. The rules are compiled into
//! the program, so that all nodes and machines agree.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as Instant};
use serde::{Deserialize, Serialize};

use super::Cron;
use crate::clock::Timestamp;
use crate::error::FieldProblem;

/// A time zone by its IANA name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { name: "UTC".into(), rules: TimeZone::UTC }
    }
}

/// The rules of all zones. Never the machine's own: those may differ between machines, or be missing.
fn all_zones() -> &'static TimeZoneDatabase {
    static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
    ZONES.get_or_init(TimeZoneDatabase::bundled)
}

impl FromStr for Zone {
    type Err = FieldProblem;

    fn from_str(name: &str) -> Result<Zone, FieldProblem> {
        let unknown = || FieldProblem::Unknown {
            value: name.chars().take(64).collect(),
            allowed: "the IANA time zones, such as `UTC` or `Europe/Berlin`",
        };
        let rules = all_zones().get(name).map_err(|_| unknown())?;
        Ok(Zone { name: rules.iana_name().unwrap_or(name).to_owned(), rules })
    }
}

impl Zone {
    /// The IANA name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The weekday and local time at a point in time, such as `Mon 02:00`.
    pub fn shown_at(&self, at: Timestamp) -> Option<String> {
        let at = Instant::from_millisecond(at.as_millis()).ok()?;
        Some(self.rules.to_datetime(at).strftime("%a %H:%M").to_string())
    }

    /// The local date and time at a point in time with the zone's abbreviation, such as `2030-01-31 12:00:00 CET`.
    pub fn full_at(&self, at: Timestamp) -> Option<String> {
        let at = Instant::from_millisecond(at.as_millis()).ok()?;
        let at = at.to_zoned(self.rules.clone());
        Some(at.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    }

    /// The point in time of a local date and time such as `2030-01-31T12:00`. Of a time that occurs twice the first; a time
    /// that is skipped is moved behind the gap. `None` if it cannot be read.
    pub fn time_of(&self, local: &str) -> Option<Timestamp> {
        let local: DateTime = local.parse().ok()?;
        let found = self.rules.to_ambiguous_timestamp(local).compatible().ok()?;
        Some(Timestamp::from_millis(found.as_millisecond()))
    }

    /// The first time after `after` that matches the expression.
    ///
    /// A local time that is skipped matches once, at the first valid time after the gap; a local time that occurs twice
    /// matches once, the first time. An expression that matches every hour runs by elapsed time: it neither runs twice
    /// at the end of a gap nor pauses for an hour when clocks go back.
    pub(super) fn next_after(&self, cron: &Cron, after: Timestamp) -> Option<Timestamp> {
        let after = Instant::from_millisecond(after.as_millis()).ok()?;
        let found =
            if cron.is_hourly() { self.next_elapsed(cron, after) } else { self.next_shown(cron, after) };
        let millis = found?.as_millisecond();
        (millis <= Timestamp::MAX.as_millis()).then(|| Timestamp::from_millis(millis))
    }

    /// Matches times of the day, each once. Later times of the day never map to earlier points in time, so no match is
    /// missed by starting at the current local time.
    fn next_shown(&self, cron: &Cron, after: Instant) -> Option<Instant> {
        let mut from = self.rules.to_datetime(after);
        loop {
            let shown = cron.first_from(from)?;
            let moment = self.first_moment(shown)?;
            if moment > after {
                return Some(moment);
            }
            from = shown.checked_add(SignedDuration::from_secs(1)).ok()?;
        }
    }

    /// The first point in time with this local time, or, if it is skipped, the first one after the gap.
    fn first_moment(&self, shown: DateTime) -> Option<Instant> {
        match self.rules.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(shown).ok()
            }
            AmbiguousOffset::Gap { after, .. } => {
                // Converted with the offset after the change, a skipped time lies just before the change.
                let before_change = after.to_timestamp(shown).ok()?;
                self.rules.following(before_change).next().map(|change| change.timestamp())
            }
        }
    }

    /// Matches by elapsed time, from one clock change to the next.
    fn next_elapsed(&self, cron: &Cron, after: Instant) -> Option<Instant> {
        let mut from = after.checked_add(SignedDuration::from_millis(1)).ok()?;
        loop {
            let offset = self.rules.to_offset(from);
            let found = offset.to_timestamp(cron.first_from(offset.to_datetime(from))?).ok()?;
            match self.rules.following(from).next() {
                Some(change) if change.timestamp() <= found => from = change.timestamp(),
                Some(_) | None => return Some(found),
            }
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl TryFrom<String> for Zone {
    type Error = FieldProblem;

    fn try_from(name: String) -> Result<Zone, FieldProblem> {
        name.parse()
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> String {
        zone.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_time_is_a_point_in_time_also_where_clocks_change() {
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        let read = |text: &str| berlin.time_of(text).map(|at| at.to_string());
        assert_eq!(read("2030-01-31T12:00").as_deref(), Some("2030-01-31T11:00:00.000Z"));
        assert_eq!(read("2030-03-31T02:30").as_deref(), Some("2030-03-31T01:30:00.000Z"), "skipped");
        assert_eq!(read("2030-10-27T02:30").as_deref(), Some("2030-10-27T00:30:00.000Z"), "the first of two");
        assert_eq!([read("yesterday"), read("2030-01-31T12:00:00Z")], [None, None]);
    }
}
