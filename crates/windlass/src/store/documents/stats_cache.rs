//! Cache of past minutes: their statistics rarely change any more, and there is an entry for every lane and node of the
//! last hour. A query for rates then only reads the last two minutes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobType, Lane, QueueName, Tenant};
use crate::limits;
use crate::store::documents::config::parse;
use crate::store::documents::minute_stats::{Minute, minute_of};
use crate::store::engine::{Document, DocumentKind, DocumentRange, Read};

/// Statistics of one lane in one minute, as counted by one node.
#[derive(Debug)]
pub(crate) struct LaneMinute {
    pub(crate) lane: Lane,
    /// Minutes since 1970.
    pub(crate) minute: i64,
    pub(crate) counts: Minute,
}

impl LaneMinute {
    /// Parses a document; `None` if its key does not name a lane.
    pub(crate) fn read(document: &Document) -> Result<Option<LaneMinute>, StoreError> {
        let mut words = document.key.split(' ');
        let minute = words.next().and_then(|word| word.parse().ok());
        let (Some(minute), Some(_node)) = (minute, words.next()) else { return Ok(None) };
        let names = (words.next(), words.next(), words.next());
        let (Some(tenant), Some(queue), Some(job_type)) = names else { return Ok(None) };
        let (Ok(tenant), Ok(queue), Ok(job_type)) =
            (Tenant::new(tenant), QueueName::new(queue), JobType::new(job_type))
        else {
            return Ok(None);
        };
        let lane = Lane::new(tenant, queue, job_type);
        Ok(Some(LaneMinute { lane, minute, counts: parse(&document.body)? }))
    }
}

/// The cached minutes.
#[derive(Debug, Default)]
pub(crate) struct Minutes(Mutex<CachedMinutes>);

#[derive(Debug, Default)]
struct CachedMinutes {
    /// When this process last added to a past minute.
    added_at: Option<Timestamp>,
    /// Minutes before this one are cached.
    before: i64,
    /// When they were read; `None` if nothing is cached.
    read_at: Option<Timestamp>,
    minutes: Vec<Arc<LaneMinute>>,
}

/// Minutes after its end at which a minute is considered settled: active nodes write every second. Later additions by
/// idle nodes are seen when everything is read again.
const SETTLED_AFTER: i64 = 1;

/// How long a concurrent reader may still use earlier data.
const CONCURRENT_READ_MAX: Duration = Duration::from_secs(5);
/// Maximum number of cached entries, about 600 bytes each; beyond that, everything is read every time.
const REMEMBERED_MAX: usize = 50_000;

impl Minutes {
    /// Invalidates cached data after this process has added to a past minute, including data of readers that began
    /// before.
    pub(crate) fn evict_before(&self, now: Timestamp) {
        *self.lock() = CachedMinutes { added_at: Some(now), ..CachedMinutes::default() };
    }

    /// All statistics of the last hour.
    pub(crate) fn read(&self, db: &mut dyn Read, now: Timestamp) -> Result<Vec<Arc<LaneMinute>>, StoreError> {
        let settled = minute_of(now) - SETTLED_AFTER;
        let is_within = |at: Timestamp, time: Duration| now.since(at) < time;
        let mut found = {
            let remembered = self.lock();
            let is_recent = remembered.read_at.is_some_and(|at| is_within(at, limits::RATES_READ_EVERY));
            (is_recent && remembered.before == settled).then(|| remembered.minutes.clone())
        };
        let oldest = minute_of(now) - limits::RATE_MINUTES_KEPT;
        let start = format!("{:012}", if found.is_some() { settled } else { oldest + 1 });
        let mut read = Vec::new();
        for document in db.documents_in(DocumentKind::Rate, DocumentRange::from(&start))? {
            read.extend(LaneMinute::read(&document)?.map(Arc::new));
        }
        if found.is_none() {
            let mut remembered = self.lock();
            let is_old = remembered.added_at.is_none_or(|at| !is_within(at, CONCURRENT_READ_MAX));
            if is_old && read.len() <= REMEMBERED_MAX {
                let minutes = read.iter().filter(|minute| minute.minute < settled).cloned().collect();
                let added_at = remembered.added_at;
                *remembered = CachedMinutes { added_at, before: settled, read_at: Some(now), minutes };
            }
        }
        let found = found.get_or_insert_default();
        found.append(&mut read);
        found.retain(|minute| minute.minute > oldest);
        Ok(std::mem::take(found))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedMinutes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
