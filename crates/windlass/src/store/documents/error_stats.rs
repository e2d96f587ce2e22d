//! Statistics of errors by their fingerprint: when one was first and last seen, how often, in which types and by which
//! versions of workers. They outlive the jobs: what is retried, deleted or pruned stays counted. Their size is bounded in
//! errors, names and time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{
    Category, ErrorRecord, JobId, JobRecord, JobType, Lane, QueueName, Tenant, error_pattern, fingerprint,
};
use crate::limits;

/// An error, as often as it was counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorCount {
    /// Its category.
    pub category: Category,
    /// Its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What its messages have in common.
    pub pattern: String,
    /// Attempts that failed with it.
    pub count: u64,
    /// When it was first seen.
    pub first: Timestamp,
    /// When it was last seen.
    pub last: Timestamp,
    /// The job that failed with it last; it may be gone.
    pub example: JobId,
    /// Types of the jobs, with when each was last seen; the latest few.
    pub types: BTreeMap<JobType, Timestamp>,
    /// Versions of the workers, with when each was last seen; the latest few.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, Timestamp>,
}

impl ErrorCount {
    fn new(job: &JobRecord, error: &ErrorRecord, version: Option<String>) -> ErrorCount {
        let at = error.at;
        ErrorCount {
            category: error.category,
            code: error.code.clone(),
            pattern: error_pattern(&error.message),
            count: 1,
            first: at,
            last: at,
            example: job.id,
            types: [(job.lane.job_type.clone(), at)].into(),
            versions: version.map(|version| (version, at)).into_iter().collect(),
        }
    }

    fn merge(&mut self, other: &ErrorCount) {
        self.count += other.count;
        self.first = self.first.min(other.first);
        if other.last >= self.last {
            (self.last, self.example) = (other.last, other.example);
        }
        latest(&mut self.types, &other.types);
        latest(&mut self.versions, &other.versions);
    }
}

/// Adds names with their times, and keeps those with the latest times.
fn latest<Name: Ord + Clone>(names: &mut BTreeMap<Name, Timestamp>, others: &BTreeMap<Name, Timestamp>) {
    for (name, at) in others {
        let known = names.entry(name.clone()).or_insert(*at);
        *known = (*known).max(*at);
    }
    keep_latest(names, limits::ERROR_NAMES_MAX, |at| *at);
}

/// Removes the entries with the oldest times until at most `most` are left.
fn keep_latest<Name: Ord + Clone, Value>(
    entries: &mut BTreeMap<Name, Value>,
    most: usize,
    at: impl Fn(&Value) -> Timestamp,
) {
    if entries.len() > most {
        let mut times: Vec<Timestamp> = entries.values().map(&at).collect();
        times.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
        let oldest = times[most - 1];
        entries.retain(|_, value| at(value) >= oldest);
        // Of equally old ones the last by name.
        while entries.len() > most {
            entries.pop_last();
        }
    }
}

/// The error that a change of a job adds, if it adds one. A cancelled job has not failed.
pub(crate) fn new_error<'a>(before: &JobRecord, after: &'a JobRecord) -> Option<&'a ErrorRecord> {
    let error = after.details.error.as_ref()?;
    let is_new = error.category != Category::Cancelled && before.details.error.as_ref() != Some(error);
    is_new.then_some(error)
}

/// Errors that were counted in some time, by fingerprint; a bounded number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ErrorCounts(BTreeMap<String, ErrorCount>);

impl ErrorCounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().map(|error| error.count).sum()
    }

    /// Counts the failure of a job.
    pub(crate) fn count(&mut self, job: &JobRecord, error: &ErrorRecord, version: Option<String>) {
        self.add(fingerprint(error), &ErrorCount::new(job, error, version));
    }

    /// Adds counts. Beyond the bound, errors that are not known yet are left out: those that come often are among the first.
    pub(crate) fn merge(&mut self, other: &ErrorCounts) {
        for (fingerprint, error) in &other.0 {
            self.add(fingerprint.clone(), error);
        }
    }

    fn add(&mut self, fingerprint: String, error: &ErrorCount) {
        if let Some(known) = self.0.get_mut(&fingerprint) {
            known.merge(error);
        } else if self.0.len() < limits::ERRORS_KEPT {
            self.0.insert(fingerprint, error.clone());
        }
    }
}

/// An error with how often it was seen over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorStats {
    /// The error since it was first seen.
    pub seen: ErrorCount,
    /// How often it was seen in each of the last [`limits::ERROR_HOURS_KEPT`] hours, by the number of the hour since 1970;
    /// hours without it are left out.
    pub hours: BTreeMap<i64, u64>,
    /// The same for the last [`limits::ERROR_DAYS_KEPT`] days.
    pub days: BTreeMap<i64, u64>,
}

/// The errors of a tenant, or of all, by fingerprint: those that were seen last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ErrorHistory(pub(crate) BTreeMap<String, ErrorStats>);

const HOUR: i64 = 60;
const DAY: i64 = 24 * HOUR;

impl ErrorHistory {
    /// Adds what was counted around a minute, and drops what is old or too much.
    pub(crate) fn add(&mut self, counts: &ErrorCounts, minute: i64) {
        for (fingerprint, error) in &counts.0 {
            let known = self.0.entry(fingerprint.clone()).and_modify(|known| known.seen.merge(error));
            let fresh = || ErrorStats { seen: error.clone(), hours: BTreeMap::new(), days: BTreeMap::new() };
            let stats = known.or_insert_with(fresh);
            *stats.hours.entry(minute.div_euclid(HOUR)).or_default() += error.count;
            *stats.days.entry(minute.div_euclid(DAY)).or_default() += error.count;
        }
    }

    /// Drops what is old at this minute, and the errors that were not seen for longest if there are too many.
    pub(crate) fn trim(&mut self, minute: i64) {
        let (hour, day) = (minute.div_euclid(HOUR), minute.div_euclid(DAY));
        self.0.retain(|_, stats| {
            stats.hours.retain(|number, _| *number > hour - limits::ERROR_HOURS_KEPT);
            stats.days.retain(|number, _| *number > day - limits::ERROR_DAYS_KEPT);
            !stats.days.is_empty()
        });
        keep_latest(&mut self.0, limits::ERRORS_KEPT, |stats| stats.seen.last);
    }

    /// The document key of a tenant's errors, or of all tenants'. No tenant is called `*`.
    pub(crate) fn key(tenant: Option<&Tenant>) -> String {
        format!("{ERROR_HISTORY}{}", tenant.map_or("*", |tenant| tenant.as_str()))
    }
}

/// Begins the keys of errors of tenants.
pub(crate) const ERROR_HISTORY: &str = "e ";

/// The document key of what one node counted in one lane and minute.
pub(crate) fn minute_key(minute: i64, node: &str, lane: &Lane) -> String {
    format!("f {minute:012} {node} {} {} {}", lane.tenant, lane.queue, lane.job_type)
}

/// Where the keys of a minute begin.
pub(crate) fn minute_start(minute: i64) -> String {
    format!("f {minute:012}")
}

/// The minute and the lane of such a key.
pub(crate) fn lane_of(key: &str) -> Option<(i64, Lane)> {
    let mut words = key.split(' ').skip(1);
    let (minute, _node) = (words.next()?.parse().ok()?, words.next()?);
    let (tenant, queue, job_type) = (words.next()?, words.next()?, words.next()?);
    let names = (Tenant::new(tenant).ok()?, QueueName::new(queue).ok()?, JobType::new(job_type).ok()?);
    Some((minute, Lane::new(names.0, names.1, names.2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: usize) -> JobId {
        JobId::from_bytes((number as u128).to_be_bytes())
    }

    fn error(number: usize, at: i64) -> ErrorCount {
        let at = Timestamp::from_millis(at);
        ErrorCount {
            category: Category::Temporary,
            code: None,
            pattern: format!("error {}", char::from(b'a' + u8::try_from(number % 26).unwrap())),
            count: 1,
            first: at,
            last: at,
            example: job(number),
            types: [(JobType::new(&format!("t{number}")).unwrap(), at)].into(),
            versions: [(format!("v{number}"), at)].into(),
        }
    }

    fn counts(errors: impl IntoIterator<Item = (String, ErrorCount)>) -> ErrorCounts {
        ErrorCounts(errors.into_iter().collect())
    }

    #[test]
    fn an_error_keeps_its_first_and_last_time_and_its_latest_names() {
        let mut sum = error(7, 7_000);
        for number in [9, 3, 30, 12, 4, 5, 6, 8, 10, 11] {
            sum.merge(&error(number, i64::try_from(number).unwrap() * 1_000));
        }
        assert_eq!((sum.count, sum.first.as_millis(), sum.last.as_millis()), (11, 3_000, 30_000));
        assert_eq!(sum.example, job(30));
        assert_eq!((sum.types.len(), sum.versions.len()), (limits::ERROR_NAMES_MAX, limits::ERROR_NAMES_MAX));
        assert!(sum.versions.contains_key("v30") && !sum.versions.contains_key("v3"));
    }

    #[test]
    fn errors_are_bounded_in_number_and_time() {
        let many = limits::ERRORS_KEPT + 20;
        let mut history = ErrorHistory::default();
        for number in 0..many {
            let minute = i64::try_from(number).unwrap();
            history.add(&counts([(format!("{number:016x}"), error(number, minute * 60_000))]), minute);
        }
        let end = i64::try_from(many).unwrap();
        history.trim(end);
        assert_eq!(history.0.len(), limits::ERRORS_KEPT);
        assert!(!history.0.contains_key(&format!("{:016x}", 0)), "the one that was not seen for longest");
        let mut all = ErrorCounts::default();
        all.merge(&counts((0..many).map(|number| (format!("{number:016x}"), error(number, 0)))));
        assert_eq!(all.0.len(), limits::ERRORS_KEPT);
        history.trim(end + 3 * DAY);
        assert!(history.0.values().all(|stats| stats.hours.is_empty() && stats.days.len() == 1));
        history.trim(end + (limits::ERROR_DAYS_KEPT + 1) * DAY);
        assert!(history.0.is_empty());
    }

    #[test]
    fn a_lane_is_read_back_from_its_key() {
        let names = (Tenant::new("acme").unwrap(), QueueName::new("mail").unwrap());
        let lane = Lane::new(names.0, names.1, JobType::new("mail.send").unwrap());
        let key = minute_key(17, "node-1", &lane);
        assert_eq!(lane_of(&key), Some((17, lane)));
        assert!(key > minute_start(17) && key < minute_start(18));
        assert_eq!(lane_of("e *"), None);
    }
}
