//! Rates per concurrency key (M111). Jobs whose key has no token are set aside, as those whose key is held; a timer gives them
//! their chance when the next token is due. A bucket that is full again is forgotten, so old keys leave nothing behind. The
//! same timers forget debounce keys.

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
use crate::store::engine::{ClaimOrder, DocumentKind};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::write_tx::WriteTx;

/// How much of its rate a concurrency key has used in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyBucket {
    pub(crate) bucket: Bucket,
    /// Whether jobs may have been set aside for want of a token.
    pub(crate) has_waiting: bool,
    /// When its timer is due; none is later than the moment at which there is something to do.
    timer_at: Option<Timestamp>,
}

/// The document of a key's bucket.
pub(crate) fn key_bucket_key(queue: &QueueName, key: ConcurrencyKey) -> String {
    format!("key {queue} {:016x}", key.0)
}

/// What is due at a moment. Documents come in the order of their keys, and digits come before letters: all timers stand
/// before every bucket, the earliest first.
enum Timer {
    /// A key has a token again, or can be forgotten.
    Key(QueueName, ConcurrencyKey),
    /// What was set aside in a queue is to have its chance.
    Queue(QueueName),
    /// The job that has a debounce key may have started; the document is the key's.
    Debounce(String),
}

/// After every timer, before every bucket.
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

/// How long a full bucket is kept while jobs that were given their chance have not taken it.
const IDLE: Duration = Duration::from_secs(1);

/// How often it is looked whether a job that is due and has a debounce key has started.
const DEBOUNCED_EVERY: Duration = Duration::from_secs(60);

/// Candidates of one key and lane that are given their chance at once; more follow when these are gone.
const CHANCES_MAX: u64 = 16;

impl WriteTx<'_> {
    /// A key's bucket as it is now under this rate.
    pub(crate) fn key_bucket(
        &mut self,
        queue: &QueueName,
        key: ConcurrencyKey,
        rate: Rate,
    ) -> Result<KeyBucket, StoreError> {
        let now = self.now;
        let stored: Option<KeyBucket> = self.tally(&key_bucket_key(queue, key))?;
        Ok(stored.map_or_else(
            || KeyBucket { bucket: Bucket::full(rate, now), has_waiting: false, timer_at: None },
            |stored| KeyBucket { bucket: stored.bucket.at(now).under(rate), ..stored },
        ))
    }

    /// Keeps the bucket of a key of which a job was just started or set aside.
    pub(crate) fn put_key_bucket(
        &mut self,
        queue: &QueueName,
        key: ConcurrencyKey,
        kept: KeyBucket,
    ) -> Result<(), StoreError> {
        let next = if kept.has_waiting { kept.bucket.next_at() } else { kept.bucket.full_at() };
        self.keep_key_bucket(queue, key, kept, next)
    }

    /// Keeps a bucket with a timer that is due at `next`, or forgets it if it is full and nobody waits.
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
            self.put_tally::<KeyBucket>(key_bucket_key(queue, key), None);
            return Ok(());
        }
        if kept.timer_at.is_none() {
            kept.timer_at = Some(next);
            self.put_timer(&timer, next, b"null")?;
        }
        self.put_tally(key_bucket_key(queue, key), Some(&kept));
        Ok(())
    }

    fn put_timer(&mut self, timer: &Timer, at: Timestamp, body: &[u8]) -> Result<(), StoreError> {
        self.put_document(DocumentKind::Bucket, &timer.document(at), Some(body), |_| {})?;
        let known = self.no_timer_before();
        self.remember_no_timer_before(known.map(|known| known.min(at)));
        Ok(())
    }

    /// Gives those their chance whose key has a token again; says how many timers were due.
    pub(crate) fn wake_throttled(&mut self, max: usize) -> Result<usize, StoreError> {
        if self.no_timer_before().is_some_and(|at| at > self.now) {
            return Ok(0);
        }
        let end = format!("{:015}", self.now.as_millis() + 1);
        let due = self.db()?.documents_before(DocumentKind::Bucket, &end, max)?;
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
                    if let Some(run_at) = self.forget_debounced(&key)? {
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

    /// Sees to it that a debounce key is forgotten some time after its job has started.
    pub(crate) fn watch_debounced(&mut self, document: String, at: Timestamp) -> Result<(), StoreError> {
        self.put_timer(&Timer::Debounce(document), at, b"null")
    }

    /// When the first timer is due.
    pub(crate) fn first_timer(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let first = self.db()?.documents_before(DocumentKind::Bucket, TIMERS_END, 1)?.pop();
        Ok(first.and_then(|document| Timer::parse(&document.key)).map(|(at, _)| at))
    }

    fn token_due(&mut self, queue: &QueueName, key: ConcurrencyKey) -> Result<(), StoreError> {
        let now = self.now;
        let Some(stored) = self.tally::<KeyBucket>(&key_bucket_key(queue, key))? else { return Ok(()) };
        let mut kept = KeyBucket { bucket: stored.bucket.at(now), timer_at: None, ..stored };
        let running = self.running_with(key)?;
        let mut given = 0;
        while kept.has_waiting && given < kept.bucket.tokens().min(CHANCES_MAX) {
            let config = self.config()?;
            let aside = self.db()?.set_aside(key)?;
            let own: Vec<JobRecord> = aside.into_iter().filter(|job| job.lane.queue == *queue).collect();
            // One who finds the key held waits for its holder, not for a token.
            let free = own.into_iter().filter(|job| running + given < config.running_per_key(&job.lane));
            let free: Vec<Seq> = free.map(|job| self.cache_job(job)).collect();
            kept.has_waiting = !free.is_empty();
            for seq in free {
                self.set_blocked(seq, false)?;
            }
            given += 1;
        }
        // Those who have their chance now set the timer when they take it, or lose it. The other one is for what nobody
        // thought of.
        let lacks_token = kept.has_waiting && kept.bucket.tokens() == 0;
        let next =
            if lacks_token { kept.bucket.next_at() } else { kept.bucket.full_at().max(now.plus(IDLE)) };
        self.keep_key_bucket(queue, key, kept, next)
    }

    /// How many jobs with a concurrency key run, as far as that can matter.
    pub(crate) fn running_with(&mut self, key: ConcurrencyKey) -> Result<u64, StoreError> {
        let config = self.config()?;
        // Counted for all lanes at once: one lane's queue may allow more than another's.
        let limit = usize::try_from(config.running_per_key_max()).unwrap_or(usize::MAX);
        let filter = Filter { concurrency: Some(key), states: vec![JobState::Running], ..Filter::default() };
        Ok(self.db()?.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?.len() as u64)
    }

    /// More jobs with one concurrency key may be allowed now: those set aside get their chance, some at once, the others
    /// as maintenance and claims get to it. Until then the end of a holder gives it to them, as before.
    pub(crate) fn unblock_queue(&mut self, queue: &QueueName) -> Result<(), StoreError> {
        if let Some(next) = self.unblock_some(queue, None)? {
            let body = encode(&parts(next));
            self.put_timer(&Timer::Queue(queue.clone()), Timestamp::MIN, &body)?;
        }
        Ok(())
    }

    /// Gives jobs of a queue their chance, no more of each key than may run; says where to go on, if these were not all.
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
        let next = (page.len() == limit).then(|| page.last().map(ClaimOrder::of)).flatten();
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

/// A place as plain numbers, to be kept in a document.
fn parts(place: ClaimOrder) -> (u8, Timestamp, i64) {
    (place.rank, place.eligible_at, place.seq.0)
}

fn place((rank, eligible_at, seq): (u8, Timestamp, i64)) -> ClaimOrder {
    ClaimOrder { rank, eligible_at, seq: Seq(seq) }
}
