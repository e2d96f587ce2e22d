//! Statistics of longer periods: sums of minutes over ten minutes and over an hour, for everything, each queue, each type
//! and each tenant, with samples of how many jobs were ready and running. Their size is bounded by time and by names, so
//! that a chart of 30 days reads a few dozen documents, whatever the number of jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::minute_stats::Minute;
use crate::job::{JobType, Lane, QueueName, Tenant};
use crate::limits;
use crate::ordered::CollectOrdered;

/// What statistics are about, within a tenant or all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HistorySubject {
    /// All jobs.
    All,
    /// The jobs of a queue.
    Queue(QueueName),
    /// The jobs of a type.
    Type(JobType),
}

impl HistorySubject {
    fn has(&self, lane: &Lane) -> bool {
        match self {
            HistorySubject::All => true,
            HistorySubject::Queue(queue) => lane.queue == *queue,
            HistorySubject::Type(job_type) => lane.job_type == *job_type,
        }
    }
}

/// Jobs whose statistics are kept together; of all tenants if there is none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HistoryScope {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) part: HistorySubject,
}

impl HistoryScope {
    /// Every scope that a lane belongs to.
    fn all_of(lane: &Lane) -> impl Iterator<Item = HistoryScope> {
        let parts = [
            HistorySubject::All,
            HistorySubject::Queue(lane.queue.clone()),
            HistorySubject::Type(lane.job_type.clone()),
        ];
        let tenants = [None, Some(lane.tenant.clone())];
        tenants
            .into_iter()
            .flat_map(move |tenant| parts.clone().map(|part| HistoryScope { tenant: tenant.clone(), part }))
    }

    pub(crate) fn has(&self, lane: &Lane) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| lane.tenant == *tenant) && self.part.has(lane)
    }

    /// The scope as part of a document key. Names contain no spaces, and none is a star.
    pub(crate) fn key(&self) -> String {
        let tenant = self.tenant.as_ref().map_or("*", |tenant| tenant.as_str());
        match &self.part {
            HistorySubject::All => format!("{tenant} a -"),
            HistorySubject::Queue(queue) => format!("{tenant} q {queue}"),
            HistorySubject::Type(job_type) => format!("{tenant} t {job_type}"),
        }
    }

    /// The scope of a key.
    pub(crate) fn parse(key: &str) -> Option<HistoryScope> {
        let mut words = key.split(' ');
        let (tenant, kind, name) = (words.next()?, words.next()?, words.next()?);
        let tenant = if tenant == "*" { None } else { Some(Tenant::new(tenant).ok()?) };
        let part = match kind {
            "a" => HistorySubject::All,
            "q" => HistorySubject::Queue(QueueName::new(name).ok()?),
            "t" => HistorySubject::Type(JobType::new(name).ok()?),
            _ => return None,
        };
        Some(HistoryScope { tenant, part })
    }

    /// The kinds of names, each of which has its own bound. None for the sum over everything.
    fn kind(&self) -> Option<usize> {
        let kind = match (&self.tenant, &self.part) {
            (None, HistorySubject::All) => return None,
            (None, HistorySubject::Queue(_)) => 0,
            (None, HistorySubject::Type(_)) => 1,
            (Some(_), HistorySubject::All) => 2,
            (Some(_), HistorySubject::Queue(_)) => 3,
            (Some(_), HistorySubject::Type(_)) => 4,
        };
        Some(kind)
    }
}

/// A number that was sampled once a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gauge {
    /// The sum of all samples.
    pub sum: u64,
    /// The largest sample.
    pub max: u64,
    /// The number of samples.
    pub samples: u64,
}

impl Gauge {
    fn sampled(value: u64) -> Gauge {
        Gauge { sum: value, max: value, samples: 1 }
    }

    /// Adds later samples of the same number.
    pub fn merge(&mut self, other: &Gauge) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.samples += other.samples;
    }

    /// The average; `None` without samples.
    pub fn average(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)]
        (self.samples > 0).then(|| self.sum as f64 / self.samples as f64)
    }
}

/// Statistics of one period.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Point {
    /// What happened in it.
    pub counts: Minute,
    /// Jobs that were ready to be claimed.
    pub ready: Gauge,
    /// Jobs that were running.
    pub running: Gauge,
    /// Slots of all live workers; only for everything in all tenants.
    pub slots: Gauge,
}

impl Point {
    /// Adds another period.
    pub fn merge(&mut self, other: &Point) {
        self.counts.merge(&other.counts);
        self.ready.merge(&other.ready);
        self.running.merge(&other.running);
        self.slots.merge(&other.slots);
    }

    /// The share of the workers' slots that were used, from 0 to 1; `None` if no worker was seen.
    pub fn utilisation(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)]
        (self.slots.sum > 0).then(|| (self.running.sum as f64 / self.slots.sum as f64).min(1.0))
    }

    /// Whether nothing is known about the period.
    pub fn is_empty(&self) -> bool {
        *self == Point::default()
    }
}

/// The lengths of stored periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    Tens,
    Hours,
}

impl Resolution {
    pub(crate) const ALL: [Resolution; 2] = [Resolution::Tens, Resolution::Hours];

    /// Minutes in a period.
    pub(crate) fn minutes(self) -> i64 {
        match self {
            Resolution::Tens => 10,
            Resolution::Hours => 60,
        }
    }

    /// Minutes for which periods are kept.
    pub(crate) fn kept(self) -> i64 {
        match self {
            Resolution::Tens => limits::HISTORY_TENS_KEPT,
            Resolution::Hours => limits::HISTORY_HOURS_KEPT,
        }
    }

    /// Periods in one document: few enough to rewrite it with every period, many enough to read a range quickly.
    const IN_DOCUMENT: i64 = 12;

    fn letter(self) -> char {
        match self {
            Resolution::Tens => 't',
            Resolution::Hours => 'h',
        }
    }

    /// The key of the document with the period that contains a minute.
    pub(crate) fn key(self, scope: &HistoryScope, minute: i64) -> String {
        let number = minute.div_euclid(self.minutes() * Resolution::IN_DOCUMENT);
        format!("{} {} {number:010}", self.letter(), scope.key())
    }

    /// Whether a document is one of periods that are all over `kept` ago.
    fn is_expired(self, key: &str, now: i64) -> bool {
        let number = key.rsplit(' ').next().and_then(|number| number.parse::<i64>().ok());
        let end = number.map(|number| (number + 1) * self.minutes() * Resolution::IN_DOCUMENT);
        key.starts_with(self.letter()) && end.is_some_and(|end| end < now - self.kept())
    }
}

/// Whether a document holds nothing but periods that are not kept any more.
pub(crate) fn is_expired(key: &str, minute: i64) -> bool {
    Resolution::ALL.into_iter().any(|resolution| resolution.is_expired(key, minute))
}

/// The periods of one document, by number since 1970.
pub(crate) type Periods = BTreeMap<i64, Point>;

/// How far statistics are rolled up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// The last period of ten minutes that was rolled up.
    pub(crate) rolled: Option<i64>,
    /// The last minute that was sampled.
    pub(crate) sampled: i64,
    /// Where the search for expired documents continues.
    pub(crate) swept: String,
}

impl Progress {
    pub(crate) const KEY: &'static str = "m";

    /// The first minute that is not rolled up.
    pub(crate) fn next_minute(&self) -> i64 {
        self.rolled.map_or(0, |rolled| (rolled + 1) * Resolution::Tens.minutes())
    }
}

/// What was sampled in one minute: ready and running jobs by the key of their scope, and the workers' slots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sample {
    pub(crate) jobs: BTreeMap<String, (u64, u64)>,
    pub(crate) slots: u64,
}

impl Sample {
    /// The document key of a minute's sample.
    pub(crate) fn key(minute: i64) -> String {
        format!("s {minute:012}")
    }

    /// What was sampled of one scope. A scope without jobs is not stored: nothing was ready.
    pub(crate) fn get(&self, scope: &HistoryScope) -> Point {
        let (ready, running) = self.jobs.get(&scope.key()).copied().unwrap_or_default();
        let slots = if scope.kind().is_none() { Gauge::sampled(self.slots) } else { Gauge::default() };
        Point { ready: Gauge::sampled(ready), running: Gauge::sampled(running), slots, ..Point::default() }
    }
}

/// Sums by scope.
#[derive(Debug, Default)]
pub(crate) struct Sums(BTreeMap<HistoryScope, Point>);

impl Sums {
    /// Adds statistics of a lane to all its scopes.
    pub(crate) fn add(&mut self, lane: &Lane, point: &Point) {
        for scope in HistoryScope::all_of(lane) {
            self.0.entry(scope).or_default().merge(point);
        }
    }

    /// Adds how many jobs of a lane are ready and running.
    pub(crate) fn add_jobs(&mut self, lane: &Lane, ready: u64, running: u64) {
        for scope in HistoryScope::all_of(lane) {
            let point = self.0.entry(scope).or_default();
            for (gauge, jobs) in [(&mut point.ready, ready), (&mut point.running, running)] {
                gauge.sum += jobs;
            }
        }
    }

    /// The busiest scopes of each kind, and the sum over everything, which is always there.
    pub(crate) fn into_busiest(mut self) -> BTreeMap<HistoryScope, Point> {
        self.0.entry(HistoryScope { tenant: None, part: HistorySubject::All }).or_default();
        let load = |point: &Point| {
            let counts = &point.counts;
            counts.submitted + counts.claimed + counts.completed + point.ready.sum + point.running.sum
        };
        let mut by_load: Vec<(HistoryScope, Point)> = self.0.into_iter().collect();
        // Stable: of equal ones the first by name.
        by_load.sort_by_key(|(_, point)| std::cmp::Reverse(load(point)));
        let mut taken = [0_usize; 5];
        by_load.retain(|(scope, _)| {
            scope.kind().is_none_or(|kind| {
                taken[kind] += 1;
                taken[kind] <= limits::HISTORY_NAMES_MAX
            })
        });
        by_load.into_iter().collect_ordered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(tenant: &str, queue: &str, job_type: &str) -> Lane {
        Lane::new(
            Tenant::new(tenant).unwrap(),
            QueueName::new(queue).unwrap(),
            JobType::new(job_type).unwrap(),
        )
    }

    fn submitted(number: u64) -> Point {
        Point { counts: Minute { submitted: number, ..Minute::default() }, ..Point::default() }
    }

    #[test]
    fn the_busiest_names_are_kept_and_the_sum_is_exact() {
        let mut sums = Sums::default();
        let many = limits::HISTORY_NAMES_MAX as u64 + 50;
        for number in 1..=many {
            sums.add(&lane("acme", &format!("q{number}"), "mail"), &submitted(number));
        }
        let kept = sums.into_busiest();
        let all = HistoryScope { tenant: None, part: HistorySubject::All };
        assert_eq!(kept[&all].counts.submitted, (1..=many).sum::<u64>());
        let queue = |tenant: Option<&str>, number: u64| HistoryScope {
            tenant: tenant.map(|tenant| Tenant::new(tenant).unwrap()),
            part: HistorySubject::Queue(QueueName::new(&format!("q{number}")).unwrap()),
        };
        for tenant in [None, Some("acme")] {
            assert_eq!(kept[&queue(tenant, many)].counts.submitted, many);
            assert!(kept.contains_key(&queue(tenant, 51)) && !kept.contains_key(&queue(tenant, 50)));
        }
        assert_eq!(kept.len(), 2 + 2 + 2 * limits::HISTORY_NAMES_MAX);
    }

    #[test]
    fn a_scope_is_read_back_from_its_key() {
        let scopes: Vec<HistoryScope> = HistoryScope::all_of(&lane("acme", "mail", "mail.send")).collect();
        assert_eq!(scopes.len(), 6);
        for scope in scopes {
            assert_eq!(HistoryScope::parse(&scope.key()), Some(scope));
        }
    }

    #[test]
    fn a_document_expires_when_its_last_period_does() {
        let scope = HistoryScope { tenant: None, part: HistorySubject::All };
        for resolution in Resolution::ALL {
            let length = resolution.minutes() * Resolution::IN_DOCUMENT;
            let key = resolution.key(&scope, 5 * length);
            assert_eq!(key, resolution.key(&scope, 6 * length - 1));
            assert_ne!(key, resolution.key(&scope, 6 * length));
            let end = 6 * length + resolution.kept();
            assert!(!is_expired(&key, end) && is_expired(&key, end + 1));
        }
        assert!(!is_expired(Progress::KEY, i64::MAX / 2));
    }

    #[test]
    fn gauges_have_an_average_and_a_maximum() {
        let mut gauge = Gauge::sampled(2);
        gauge.merge(&Gauge::sampled(10));
        assert_eq!((gauge.average(), gauge.max), (Some(6.0), 10));
        assert_eq!(Gauge::default().average(), None);
        let half = Point { running: Gauge::sampled(2), slots: Gauge::sampled(4), ..Point::default() };
        assert_eq!(half.utilisation(), Some(0.5));
        assert_eq!(Point::default().utilisation(), None);
    }
}
