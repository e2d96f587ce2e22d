//! Rate limits per concurrency key. Jobs whose key has no token are blocked, like jobs whose key is held; a
//! timer unblocks them when the next token is due. A full bucket is removed, so old keys leave nothing behind. The same
//! timers remove debounce keys.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Bucket, ConcurrencyKey, JobRecord, JobState, QueueName, Rate, Seq};
use crate::limits;
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{ClaimOrder, DocumentKind, DocumentRange};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::write_tx::WriteTx;

/// The rate limit usage of a concurrency key in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyBucket {
    pub(crate) bucket: Bucket,
    /// Whether jobs may be blocked because there was no token.
    pub(crate) has_waiting: bool,
    /// When its timer is due; never later than the time at which there is something to do.
    timer_at: Option<Timestamp>,
}

/// The document key of a concurrency key's bucket.
pub(crate) fn key_bucket_key(queue: &QueueName, key: ConcurrencyKey) -> String {
    format!("key {queue} {:016x}", key.0)
}

/// A timer entry. Documents are ordered by key, and digits sort before alphabetic characters: all timers come before
/// all buckets, the earliest first.
enum Timer {
    /// A key has a token again, or can be removed.
    Key(QueueName, ConcurrencyKey),
    /// Blocked jobs of a queue are to be unblocked.
    Queue(QueueName),
    /// The job that has a debounce key may have started; the value is the document key.
    Debounce(String),
}

/// Sorts after every timer and before every bucket.
const TIMERS_END: &str = "a";

impl Timer {
    fn document(&self, at: Timestamp) -> String {
        match self {
            Timer::Key(queue, key) => format!("{:015} {queue} {:016x}", at.as_millis(), key.0),
            Timer::Queue(queue) => format!("{:015} {queue} *", at.as_millis()),
            Timer::Debounce(document) => format!("{:015} ~ {document}", at.as_millis()),
        }
    }

    fn parse(document: &str) -> Option<(Timestamp, Timer)> {
        let (at, rest) = document.split_once(' ')?;
        let at = Timestamp::from_millis(at.parse().ok()?);
        if let Some(document) = rest.strip_prefix("~ ") {
            return Some((at, Timer::Debounce(document.to_owned())));
        }
        let mut words = rest.split(' ');
        let queue = QueueName::new(words.next()?).ok()?;
        let timer = match words.next()? {
            "*" => Timer::Queue(queue),
            key => Timer::Key(queue, ConcurrencyKey(i64::from_str_radix(key, 16).ok()?)),
        };
        Some((at, timer))
    }
}

/// How long a full bucket is kept while unblocked jobs have not been claimed.
const IDLE: Duration = Duration::from_secs(1);

/// How often to check whether a due job with a debounce key has started.
const DEBOUNCED_EVERY: Duration = Duration::from_secs(60);

/// Candidates of one key and lane that are unblocked at once; more follow when these are claimed.
const CHANCES_MAX: u64 = 16;

impl WriteTx<'_> {
    /// A key's current bucket under this rate limit.
    pub(crate) fn key_bucket(
        &mut self,
        queue: &QueueName,
        key: ConcurrencyKey,
        rate: Rate,
    ) -> Result<KeyBucket, StoreError> {
        let now = self.now;
        let stored: Option<KeyBucket> = self.usage(&key_bucket_key(queue, key))?;
        Ok(stored.map_or_else(
            || KeyBucket { bucket: Bucket::full(rate, now), has_waiting: false, timer_at: None },
            |stored| KeyBucket { bucket: stored.bucket.at(now).under(rate), ..stored },
        ))
    }

    /// Stores the bucket of a key after one of its jobs was started or blocked.
    pub(crate) fn put_key_bucket(
        &mut self,
        queue: &QueueName,
        key: ConcurrencyKey,
        kept: KeyBucket,
    ) -> Result<(), StoreError> {
        let next = if kept.has_waiting { kept.bucket.next_at() } else { kept.bucket.full_at() };
        self.keep_key_bucket(queue, key, kept, next)
    }

    /// Stores a bucket with a timer due at `next`, or removes it if it is full and no job waits.
    fn keep_key_bucket(
        &mut self,
        queue: &QueueName,
        key: ConcurrencyKey,
        mut kept: KeyBucket,
        next: Timestamp,
    ) -> Result<(), StoreError> {
        let timer = Timer::Key(queue.clone(), key);
        let is_over = !kept.has_waiting && kept.bucket.full_at() <= self.now;
        if let Some(at) = kept.timer_at.filter(|at| is_over || next < *at) {
            self.put_document(DocumentKind::Bucket, &timer.document(at), None, |_| {})?;
            kept.timer_at = None;
        }
        if is_over {
            self.put_usage::<KeyBucket>(key_bucket_key(queue, key), None);
            return Ok(());
        }
        if kept.timer_at.is_none() {
            kept.timer_at = Some(next);
            self.put_timer(&timer, next, b"null")?;
        }
        self.put_usage(key_bucket_key(queue, key), Some(&kept));
        Ok(())
    }

    fn put_timer(&mut self, timer: &Timer, at: Timestamp, body: &[u8]) -> Result<(), StoreError> {
        self.put_document(DocumentKind::Bucket, &timer.document(at), Some(body), |_| {})?;
        let known = self.no_timer_before();
        self.remember_no_timer_before(known.map(|known| known.min(at)));
        Ok(())
    }

    /// Unblocks jobs whose key has a token again; returns how many timers were due.
    pub(crate) fn wake_throttled(&mut self, max: usize) -> Result<usize, StoreError> {
        if self.no_timer_before().is_some_and(|at| at > self.now) {
            return Ok(0);
        }
        let end = format!("{:015}", self.now.as_millis() + 1);
        let due = self.db()?.documents_in(DocumentKind::Bucket, DocumentRange::before(&end, max))?;
        for document in &due {
            match Timer::parse(&document.key) {
                Some((_, Timer::Key(queue, key))) => {
                    self.put_document(DocumentKind::Bucket, &document.key, None, |_| {})?;
                    self.token_due(&queue, key)?;
                }
                Some((_, Timer::Queue(queue))) => {
                    let next = self.unblock_some(&queue, Some(place(parse(&document.body)?)))?;
                    let body = next.map(|next| encode(&parts(next)));
                    self.put_document(DocumentKind::Bucket, &document.key, body.as_deref(), |_| {})?;
                }
                Some((_, Timer::Debounce(key))) => {
                    self.put_document(DocumentKind::Bucket, &document.key, None, |_| {})?;
                    if let Some(run_at) = self.remove_debounced(&key)? {
                        self.watch_debounced(key, run_at.max(self.now.plus(DEBOUNCED_EVERY)))?;
                    }
                }
                None => return Err(StoreError::Damaged(format!("timer {} cannot be read", document.key))),
            }
        }
        if !self.is_shared() {
            let first = self.first_timer()?;
            self.remember_no_timer_before(Some(first.unwrap_or(Timestamp::MAX)));
        }
        Ok(due.len())
    }

    /// Sets a timer that removes a debounce key after its job has started.
    pub(crate) fn watch_debounced(&mut self, document: String, at: Timestamp) -> Result<(), StoreError> {
        self.put_timer(&Timer::Debounce(document), at, b"null")
    }

    /// When the first timer is due.
    pub(crate) fn first_timer(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let first =
            self.db()?.documents_in(DocumentKind::Bucket, DocumentRange::before(TIMERS_END, 1))?.pop();
        Ok(first.and_then(|document| Timer::parse(&document.key)).map(|(at, _)| at))
    }

    fn token_due(&mut self, queue: &QueueName, key: ConcurrencyKey) -> Result<(), StoreError> {
        let now = self.now;
        let Some(stored) = self.usage::<KeyBucket>(&key_bucket_key(queue, key))? else { return Ok(()) };
        let mut kept = KeyBucket { bucket: stored.bucket.at(now), timer_at: None, ..stored };
        let running = self.running_with(key)?;
        let mut given = 0;
        while kept.has_waiting && given < kept.bucket.tokens().min(CHANCES_MAX) {
            let config = self.config()?;
            let aside = self.db()?.set_aside(key)?;
            let own: Vec<JobRecord> = aside.into_iter().filter(|job| job.lane.queue == *queue).collect();
            // A job whose key is held waits for the holder, not for a token.
            let free = own.into_iter().filter(|job| running + given < config.running_per_key(&job.lane));
            let free: Vec<Seq> = free.map(|job| self.cache_job(job)).collect();
            kept.has_waiting = !free.is_empty();
            for seq in free {
                self.set_blocked(seq, false)?;
            }
            given += 1;
        }
        // The unblocked jobs set the timer when they are claimed or blocked again. The other timer is a fallback.
        let lacks_token = kept.has_waiting && kept.bucket.tokens() == 0;
        let next =
            if lacks_token { kept.bucket.next_at() } else { kept.bucket.full_at().max(now.plus(IDLE)) };
        self.keep_key_bucket(queue, key, kept, next)
    }

    /// How many jobs with a concurrency key run, counted up to the highest limit.
    pub(crate) fn running_with(&mut self, key: ConcurrencyKey) -> Result<u64, StoreError> {
        let config = self.config()?;
        // Counted for all lanes at once: one lane's queue may allow more than another's.
        let limit = usize::try_from(config.running_per_key_max()).unwrap_or(usize::MAX);
        let filter = Filter { concurrency: Some(key), states: vec![JobState::Running], ..Filter::default() };
        Ok(self.db()?.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?.len() as u64)
    }

    /// Called when more jobs per concurrency key may be allowed. Unblocks some blocked jobs at once, the others through
    /// maintenance and claims. Until then the end of a holder unblocks them as before.
    pub(crate) fn unblock_queue(&mut self, queue: &QueueName) -> Result<(), StoreError> {
        if let Some(next) = self.unblock_some(queue, None)? {
            let body = encode(&parts(next));
            self.put_timer(&Timer::Queue(queue.clone()), Timestamp::MIN, &body)?;
        }
        Ok(())
    }

    /// Unblocks jobs of a queue, no more per key than may run; returns where to continue, if these were not all.
    fn unblock_some(
        &mut self,
        queue: &QueueName,
        after: Option<ClaimOrder>,
    ) -> Result<Option<ClaimOrder>, StoreError> {
        let filter = Filter {
            queue: Some(queue.clone()),
            states: vec![JobState::Scheduled],
            is_blocked: Some(true),
            ..Filter::default()
        };
        let limit = limits::BULK_JOBS_PER_COMMIT;
        let page = self.db()?.scan(&Scan { filter, order: Order::Oldest, after, limit })?;
        let next = (page.len() == limit).then(|| page.last().map(ClaimOrder::new)).flatten();
        let config = self.config()?;
        let mut given: HashMap<ConcurrencyKey, u64> = HashMap::new();
        for job in page {
            let Some(key) = job.concurrency else { continue };
            let given = given.entry(key).or_default();
            if *given < config.running_per_key(&job.lane).max(1) {
                *given += 1;
                let seq = self.cache_job(job);
                self.set_blocked(seq, false)?;
            }
        }
        Ok(next)
    }
}

/// A claim position as plain numbers, for storing in a document.
fn parts(place: ClaimOrder) -> (u8, Timestamp, i64) {
    (place.rank, place.eligible_at, place.seq.0)
}

fn place((rank, eligible_at, seq): (u8, Timestamp, i64)) -> ClaimOrder {
    ClaimOrder { rank, eligible_at, seq: Seq(seq) }
}
