//! Which time a page shows, and the links to other times: presets, earlier and later, and narrower parts of it.

use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::limits::{HISTORY_RANGE_MAX, HISTORY_RANGE_MIN};
use windlass::store::History;

use crate::dashboard::page::PageError;
use crate::dashboard::parts::format::{exact, local, span, zone_at};
use crate::dashboard::requests::form::{Fields, address};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The ranges to choose from, in seconds.
const PRESETS: [(u64, &str); 7] = [
    (15 * MINUTE, "15 min"),
    (HOUR, "1 h"),
    (6 * HOUR, "6 h"),
    (DAY, "24 h"),
    (2 * DAY, "2 d"),
    (7 * DAY, "7 d"),
    (30 * DAY, "30 d"),
];

/// Lengths that a part of a range may have to be offered for zooming, in seconds.
const PARTS: [u64; 12] = [
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    4 * HOUR,
    6 * HOUR,
    8 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    7 * DAY,
];

/// The time that an address names.
pub(in crate::dashboard) struct ShownRange {
    pub(super) range: Duration,
    pub(super) until: Option<Timestamp>,
    pub(super) compare: Compare,
}

/// What a time is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    /// The time of the same length before.
    Before,
    /// The same time so many seconds earlier: a day or a week.
    Earlier(u64),
}

/// What a time can be compared with, as a URL names it and in words.
const COMPARED: [(&str, Compare, &str); 3] = [
    ("", Compare::Before, "the time before"),
    ("day", Compare::Earlier(DAY), "a day before"),
    ("week", Compare::Earlier(7 * DAY), "a week before"),
];

impl Compare {
    fn as_str(self) -> &'static str {
        COMPARED.iter().find(|(_, compare, _)| *compare == self).map_or("", |(word, ..)| word)
    }

    fn from_query(query: &Fields) -> Result<Compare, PageError> {
        let word = query.get("compare").unwrap_or_default();
        let found = COMPARED.iter().find(|(known, ..)| *known == word).map(|(_, compare, _)| *compare);
        found.ok_or_else(|| PageError::invalid("compare: must be day or week"))
    }
}

impl ShownRange {
    /// The fields `range` and `until`; the last hour without them.
    pub(super) fn from_query(query: &Fields) -> Result<ShownRange, PageError> {
        let range = query.duration("range")?.unwrap_or(Duration::from_secs(HOUR));
        if !(HISTORY_RANGE_MIN..=HISTORY_RANGE_MAX).contains(&range) {
            return Err(PageError::invalid("range: must be between 5m and 30d"));
        }
        let until = query.get("until").map(str::parse::<Timestamp>).transpose();
        let until = until.map_err(|problem| PageError::invalid(format!("until: {problem}")))?;
        Ok(ShownRange { range, until, compare: Compare::from_query(query)? })
    }
}

/// A link to another time.
pub(in crate::dashboard) struct RangeLink {
    pub(in crate::dashboard) text: String,
    pub(in crate::dashboard) link: String,
    pub(in crate::dashboard) is_current: bool,
}

/// A part of the range that can be shown alone.
pub(in crate::dashboard) struct Zoom {
    /// Where it begins.
    pub(in crate::dashboard) text: String,
    pub(in crate::dashboard) label: String,
    pub(in crate::dashboard) link: String,
}

/// What is shown, and links to other times.
pub(in crate::dashboard) struct Ranges {
    pub(in crate::dashboard) presets: Vec<RangeLink>,
    pub(in crate::dashboard) earlier: String,
    pub(in crate::dashboard) later: Option<String>,
    /// Back to the present, if the range ends before it.
    pub(in crate::dashboard) present: Option<String>,
    pub(in crate::dashboard) zoom: Vec<Zoom>,
    /// `last 24h`, or from when to when.
    pub(in crate::dashboard) what: String,
    /// `per minute`, `per 10m`.
    pub(in crate::dashboard) step: String,
    /// What it can be compared with.
    pub(in crate::dashboard) compare: Vec<RangeLink>,
    /// For links to other times.
    to: Links,
}

/// Makes links to other times of a page.
struct Links {
    path: String,
    compare: &'static str,
}

impl Links {
    fn to(&self, range: Duration, until: Option<Timestamp>) -> String {
        let until = until.map(|until| ("until", until.to_string()));
        let compare = (!self.compare.is_empty()).then(|| ("compare", self.compare.to_owned()));
        address(&self.path, [("range", exact(range))].into_iter().chain(until).chain(compare))
    }
}

impl Ranges {
    pub(super) fn new(history: &History, shown: &ShownRange, path: &str, now: Timestamp) -> Ranges {
        let length = history.until.since(history.from);
        let is_past = history.until <= now;
        let links = Links { path: path.to_owned(), compare: shown.compare.as_str() };
        let to = |range: Duration, until: Option<Timestamp>| links.to(range, until);
        let compare = COMPARED.map(|(word, compare, text)| RangeLink {
            text: text.to_owned(),
            link: Links { path: path.to_owned(), compare: word }
                .to(shown.range, is_past.then_some(history.until)),
            is_current: compare == shown.compare,
        });
        let presets = PRESETS.map(|(seconds, text)| {
            let range = Duration::from_secs(seconds);
            let is_current = range == shown.range && !is_past;
            RangeLink { text: text.to_owned(), link: to(range, None), is_current }
        });
        let after = history.until.plus(length);
        let what = if is_past {
            format!(
                "{} to {} {}",
                short(history.from, length),
                short(history.until, length),
                zone_at(history.until)
            )
        } else {
            format!("last {}", span(shown.range))
        };
        let step = match history.step.as_secs() {
            60 => "per minute".to_owned(),
            HOUR => "per hour".to_owned(),
            _ => format!("per {}", exact(history.step)),
        };
        Ranges {
            presets: presets.into(),
            earlier: to(shown.range, Some(history.from)),
            later: is_past.then(|| to(shown.range, (after < now).then_some(after))),
            present: is_past.then(|| to(shown.range, None)),
            zoom: zoom(history, &links, now),
            what,
            step,
            compare: compare.into(),
            to: links,
        }
    }

    /// Whether something else than the time before was chosen to compare with.
    pub(in crate::dashboard) fn is_chosen(&self) -> bool {
        !self.to.compare.is_empty()
    }

    /// The link that shows the time around one step, or the step alone if it is long enough. None for a short range, which
    /// shows no more than that.
    pub(super) fn zoom_link(&self, begin: Timestamp, history: &History, now: Timestamp) -> Option<String> {
        let least = Duration::from_secs(15 * MINUTE);
        let (step, length) = (history.step, history.until.since(history.from));
        let range = step.max(least);
        let until = if step >= Duration::from_secs(10 * MINUTE) {
            begin.plus(range)
        } else {
            begin.plus(step / 2).plus(range / 2)
        };
        (range < length).then(|| self.to.to(range, (until < now).then_some(until)))
    }
}

/// A time within a range of this length: the time of day, or the day.
pub(super) fn short(at: Timestamp, length: Duration) -> String {
    let text = local(at);
    let (day, time) = (text.get(5..10).unwrap_or_default(), text.get(11..16).unwrap_or_default());
    if length <= Duration::from_secs(DAY) { time.to_owned() } else { format!("{day} {time}") }
}

/// The parts of a range: three to seven of a round length. None for a short range.
fn zoom(history: &History, links: &Links, now: Timestamp) -> Vec<Zoom> {
    let length = history.until.since(history.from);
    let seconds = length.as_secs();
    let is_round = |parts: &u64| seconds.is_multiple_of(*parts) && PARTS.contains(&(seconds / parts));
    let Some(parts) = [6, 7, 5, 4, 3].into_iter().find(is_round) else { return Vec::new() };
    let part = Duration::from_secs(seconds / parts);
    let begins = std::iter::successors(Some(history.from), |at| Some(at.plus(part)));
    let begins = begins.take_while(|at| *at < history.until && *at <= now);
    let parts = begins.map(|at| {
        let end = at.plus(part);
        Zoom {
            text: short(at, length),
            label: format!("Zoom to {} to {} {}", short(at, length), short(end, length), zone_at(end)),
            link: links.to(part, (end < now).then_some(end)),
        }
    });
    parts.collect()
}
