//! Time zones: which moment a time on somebody's clock is, on days when clocks are changed too. The rules are those that
//! the program was built with, so that every node of a fleet and every machine agrees.

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

/// The rules of all zones. Never the machine's: another one's might differ, and some have none.
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
    /// Its IANA name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The day of the week and the time that its clocks show at a moment, such as `Mon 02:00`.
    pub fn shown_at(&self, at: Timestamp) -> Option<String> {
        let at = Instant::from_millisecond(at.as_millis()).ok()?;
        Some(self.rules.to_datetime(at).strftime("%a %H:%M").to_string())
    }

    /// The first moment after another at which an expression's time comes (M80).
    ///
    /// A time that the clocks skip comes once, at the first moment after the gap; one that they show twice comes once, the
    /// first time. But what runs every hour runs by elapsed time: it neither runs twice at the end of a gap nor rests for
    /// an hour when clocks go back.
    pub(super) fn next_after(&self, cron: &Cron, after: Timestamp) -> Option<Timestamp> {
        let after = Instant::from_millisecond(after.as_millis()).ok()?;
        let found =
            if cron.is_hourly() { self.next_elapsed(cron, after) } else { self.next_shown(cron, after) };
        let millis = found?.as_millisecond();
        (millis <= Timestamp::MAX.as_millis()).then(|| Timestamp::from_millis(millis))
    }

    /// Times of the day, each once. Later times of the day never come at earlier moments, so none that fits is missed by
    /// beginning at what the clocks show now.
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

    /// The moment at which the clocks first show this time, or, if they skip it, the first one after.
    fn first_moment(&self, shown: DateTime) -> Option<Instant> {
        match self.rules.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(shown).ok()
            }
            AmbiguousOffset::Gap { after, .. } => {
                // Read as if the clocks had been changed already, a skipped time lies just before the change.
                let before_change = after.to_timestamp(shown).ok()?;
                self.rules.following(before_change).next().map(|change| change.timestamp())
            }
        }
    }

    /// Whatever the clocks show, whenever they show it: from one change of the clocks to the next.
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
