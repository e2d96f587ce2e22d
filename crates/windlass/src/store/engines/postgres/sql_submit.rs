//! The SQL inbox: jobs that callers submitted in `inbox` within their own transactions are taken out and created by the
//! writer. Checks made by the commands are not repeated here.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use uuid::Uuid;

use super::connection::get;
use super::parameter::Column;
use super::tables::Tables;
use super::tables::keys::key_parameters;
use crate::clock::Timestamp;
use crate::error::{FieldProblem, StoreError};
use crate::job::{
    Category, Dependency, JitterMode, JobId, JobMetadata, JobType, NewJob, Payload, Priority, QueueName,
    RetryPolicy, Strategy, Tenant, WorkerVersion,
};
use crate::limits;
use crate::store::command::submit::inbox::deliver;
use crate::store::engine::{EngineResult, InboxEntry, InboxMut, Key, KeyKind, WriteTask};
use crate::store::engines::sql::columns::limit;
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::tx::write_tx::WriteTx;

/// The oldest entries, as many as may be held in memory at once.
const ENTRIES: &str = "SELECT i.n, i.id, i.owner, i.tenant, i.type, i.content_type, i.body::text, i.payload \
     FROM (SELECT n, sum(octet_length(payload)) OVER (ORDER BY n) - octet_length(payload) AS before \
     FROM (SELECT n, payload FROM @.inbox WHERE refusal IS NULL ORDER BY n LIMIT $1) oldest) sized \
     CROSS JOIN LATERAL (SELECT * FROM @.inbox i WHERE i.n = sized.n OFFSET 0) i WHERE sized.before < $2 ORDER BY i.n";
const TAKE: &str = "DELETE FROM @.inbox WHERE n = ANY($1)";
const SET_ASIDE: &str = "UPDATE @.inbox SET refusal = $2 WHERE n = $1";
const SET_FIRST_ASIDE: &str =
    "UPDATE @.inbox SET refusal = $1 WHERE n = (SELECT min(n) FROM @.inbox WHERE refusal IS NULL)";
const ASIDE: &str = "SELECT id, refusal FROM @.inbox WHERE refusal IS NOT NULL ORDER BY n LIMIT $1";
const WHOSE: &str = "SELECT tenant FROM @.inbox WHERE id = ANY($1) AND refusal IS NULL";
const SIZE: &str = "UPDATE @.inbox_options SET payload_bytes_max = $1 WHERE payload_bytes_max <> $1";
/// Locks sets of keys where no `submit` call holds one of them, and single keys otherwise. Separate from reading the
/// keys, which must see what the last holder of a lock has committed.
const LOCKS: &str = "WITH wanted AS MATERIALIZED (SELECT place, @.key_lock(kind, tenant, type, key) AS lock \
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY u(kind, tenant, type, key, place)), \
     sets AS MATERIALIZED (SELECT number, pg_try_advisory_xact_lock(hashtext('@.'), number) AS is_ours \
     FROM (SELECT DISTINCT (lock & 63)::int AS number FROM wanted) numbers) \
     SELECT place FROM wanted JOIN sets ON number = (lock & 63)::int \
     WHERE NOT (is_ours OR pg_try_advisory_xact_lock(lock))";
const UNREAD: &str = "SELECT 1 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) u(kind, tenant, type, key) \
     CROSS JOIN LATERAL (SELECT 1 FROM @.inbox i WHERE i.tenant = u.tenant AND i.type = u.type \
     AND i.idempotency_key = u.key AND i.refusal IS NULL OFFSET 0) i WHERE u.kind = 0 UNION ALL \
     SELECT 1 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) u(kind, tenant, type, key) \
     CROSS JOIN LATERAL (SELECT 1 FROM @.inbox i WHERE i.tenant = u.tenant AND i.type = u.type \
     AND i.unique_key = u.key AND i.refusal IS NULL OFFSET 0) i WHERE u.kind = 1 LIMIT 1";

/// What a transaction has found about the SQL inbox.
#[derive(Default)]
pub(super) struct InboxState {
    /// Whether a requested key is in an inbox entry that was not read yet.
    pub(super) is_unread: bool,
    /// Whether a requested key is locked by an open transaction.
    pub(super) is_busy: bool,
    /// Keys of entries that were taken out: they belong to this transaction.
    taken: HashSet<Key>,
}

impl InboxState {
    /// Whether a failure may be caused by one key alone.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.is_unread || self.is_busy
    }
}

impl Tables {
    /// Prevents `submit` calls with these keys until this transaction ends.
    pub(super) fn lock_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        let open: Vec<Key> =
            keys.iter().filter(|key| !self.inbox_state.taken.contains(key)).cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        if !self.link.fetch(LOCKS, key_parameters(&open))?.is_empty() {
            self.inbox_state.is_busy = true;
            return Err(busy());
        }
        if !self.link.fetch(UNREAD, key_parameters(&open))?.is_empty() {
            self.inbox_state.is_unread = true;
            return Err(busy());
        }
        Ok(())
    }

    /// Takes entries out of the inbox, oldest first. Entries that cannot be read stay, quarantined.
    pub(super) fn read_inbox(&mut self, max: usize) -> EngineResult<Vec<InboxEntry>> {
        let rows =
            self.link.fetch(ENTRIES, vec![limit(max).into(), limit(limits::INBOX_BYTES_MAX).into()])?;
        let (mut entries, mut taken) = (Vec::with_capacity(rows.len()), Column::numbers());
        for row in &rows {
            let n: i64 = get(row, 0)?;
            let id = JobId::from_bytes(*get::<Uuid>(row, 1)?.as_bytes());
            let payload = Payload::bytes(get::<&[u8]>(row, 7)?, get(row, 5)?);
            match new_job(get(row, 4)?, get(row, 3)?, payload, get(row, 6)?) {
                Ok(job) => {
                    self.inbox_state.taken.extend(keys_of(&job));
                    entries.push(InboxEntry { id, owner: get(row, 2)?, job });
                    taken.number(n);
                }
                Err(why) => self.write(SET_ASIDE, vec![n.into(), why.as_str().into()], None)?,
            }
        }
        if !entries.is_empty() {
            let count = entries.len() as u64;
            self.write(TAKE, vec![taken.into()], Some((count, "inbox")))?;
        }
        Ok(entries)
    }

    /// The tenant of a submission that is still in the inbox.
    pub(super) fn inbox_tenant(&mut self, id: JobId) -> EngineResult<Option<Tenant>> {
        let mut ids = Column::ids();
        ids.push(id.as_bytes());
        let rows = self.link.fetch(WHOSE, vec![ids.into()])?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Tenant::new(get(row, 0)?).ok())
    }

    /// Quarantines the oldest entry.
    pub(super) fn quarantine_first(&mut self, why: &str) -> EngineResult<()> {
        self.write(SET_FIRST_ASIDE, vec![why.into()], None)
    }

    /// Descriptions of the quarantined entries.
    pub(super) fn quarantined(&mut self, max: usize) -> EngineResult<Vec<String>> {
        let mut found = Vec::new();
        for row in self.link.fetch(ASIDE, vec![limit(max).into()])? {
            let (id, why): (Uuid, &str) = (get(&row, 0)?, get(&row, 1)?);
            found.push(format!("inbox: submission {id} was quarantined: {why}"));
        }
        Ok(found)
    }

    /// Stores the maximum payload size for `submit`.
    pub(super) fn set_payload_limit(&mut self, payload_bytes_max: usize) -> EngineResult<()> {
        self.link.send_plain("BEGIN READ WRITE");
        self.link.send(SIZE, vec![limit(payload_bytes_max).into()], None)?;
        self.link.run("COMMIT")
    }
}

/// The error for a submission that conflicts with an open transaction.
fn busy() -> StoreError {
    StoreError::Overloaded { waiting: 1, retry_after: limits::OVERLOADED_RETRY_AFTER }
}

fn keys_of(job: &NewJob) -> impl Iterator<Item = Key> {
    let texts = [(KeyKind::Idempotency, &job.idempotency_key), (KeyKind::Unique, &job.unique_key)].map(
        |(kind, text)| {
            text.clone().map(|text| Key {
                kind,
                tenant: job.tenant.clone().unwrap_or_default(),
                job_type: job.job_type.clone(),
                text,
            })
        },
    );
    texts.into_iter().flatten()
}

/// Options as `submit` writes them: durations in nanoseconds, times in milliseconds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    queue: QueueName,
    priority: Option<Priority>,
    delay: Option<u64>,
    run_at: Option<i64>,
    #[serde(default)]
    hold: bool,
    idempotency_key: Option<String>,
    idempotency_window: Option<u64>,
    unique_key: Option<String>,
    concurrency_key: Option<String>,
    retry: Option<RetryBody>,
    execution: Option<u64>,
    lease: Option<u64>,
    lifetime: Option<u64>,
    start: Option<u64>,
    #[serde(default)]
    after: Vec<JobId>,
    #[serde(default)]
    after_any: Vec<JobId>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    correlation_id: Option<String>,
    callback_url: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    baggage: Option<String>,
    requires_version: Option<WorkerVersion>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryBody {
    strategy: Strategy,
    initial_delay: u64,
    max_delay: u64,
    multiplier: f64,
    jitter: f64,
    #[serde(default)]
    jitter_mode: JitterMode,
    max_attempts: u32,
    retry_on: Vec<Category>,
}

impl From<RetryBody> for RetryPolicy {
    fn from(body: RetryBody) -> RetryPolicy {
        RetryPolicy {
            strategy: body.strategy,
            initial_delay: Duration::from_nanos(body.initial_delay),
            max_delay: Duration::from_nanos(body.max_delay),
            multiplier: body.multiplier,
            jitter: body.jitter,
            jitter_mode: body.jitter_mode,
            max_attempts: body.max_attempts,
            retry_on: body.retry_on,
        }
    }
}

fn new_job(job_type: &str, tenant: &str, payload: Payload, body: &str) -> Result<NewJob, String> {
    let body: Body = serde_json::from_str(body).map_err(|error| format!("cannot be read: {error}"))?;
    let words = |problem: FieldProblem| problem.to_string();
    let jobs = |ids: Vec<JobId>| ids.into_iter().map(Dependency::Job).collect();
    Ok(NewJob {
        queue: body.queue,
        requires_version: body.requires_version,
        priority: body.priority,
        delay: body.delay.map(Duration::from_nanos),
        run_at: body.run_at.map(Timestamp::from_millis),
        hold: body.hold,
        idempotency_key: body.idempotency_key,
        idempotency_window: body.idempotency_window.map(Duration::from_nanos),
        unique_key: body.unique_key,
        concurrency_key: body.concurrency_key,
        retry: body.retry.map(RetryPolicy::from),
        execution_timeout: body.execution.map(Duration::from_nanos),
        lease_timeout: body.lease.map(Duration::from_nanos),
        lifetime: body.lifetime.map(Duration::from_nanos),
        start_timeout: body.start.map(Duration::from_nanos),
        after: jobs(body.after),
        after_any: jobs(body.after_any),
        metadata: JobMetadata {
            tags: body.tags,
            correlation_id: body.correlation_id,
            callback_url: body.callback_url,
        },
        tenant: Some(Tenant::new(tenant).map_err(words)?),
        traceparent: body.traceparent,
        tracestate: body.tracestate,
        baggage: body.baggage,
        ..NewJob::new(JobType::new(job_type).map_err(words)?, payload)
    })
}

/// Notifies the writer of inbox entries.
pub(super) struct Inbox {
    writes: Arc<TaskQueue<Box<dyn WriteTask>>>,
    /// Whether the writer is already notified.
    is_called: AtomicBool,
    /// How many entries are taken at once; after an error they are taken one by one, to find the one that causes it.
    entries_max: AtomicUsize,
    /// Why the oldest entry cannot become a job, if it alone caused an error.
    failure: Mutex<Option<String>>,
}

impl Inbox {
    pub(super) fn new(writes: Arc<TaskQueue<Box<dyn WriteTask>>>) -> Inbox {
        Inbox {
            writes,
            is_called: AtomicBool::new(false),
            entries_max: AtomicUsize::new(limits::INBOX_ENTRIES_PER_COMMIT),
            failure: Mutex::default(),
        }
    }

    /// Notifies the writer of inbox entries.
    pub(super) fn call(self: &Arc<Inbox>) {
        if !self.is_called.swap(true, Ordering::AcqRel)
            && self.writes.put(Box::new(InboxStatus::new(self.clone())), true).is_err()
        {
            // The queue is full, or the store is closed: the next poll notifies again.
            self.is_called.store(false, Ordering::Release);
        }
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn opened(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let more = self.entries_max.load(Ordering::Relaxed).saturating_mul(2);
        self.entries_max.store(more.min(limits::INBOX_ENTRIES_PER_COMMIT), Ordering::Relaxed);
    }

    fn stuck(&self, error: &StoreError) {
        // Errors that no submission causes pass by themselves.
        if !matches!(error, StoreError::Damaged(_) | StoreError::Database(_)) {
            return;
        }
        if self.entries_max.swap(1, Ordering::Relaxed) == 1 {
            tracing::error!(%error, "a submission through SQL cannot be processed and is quarantined");
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
    }
}

/// Takes inbox entries, in one commit with other waiting tasks.
pub(super) struct InboxStatus {
    inbox: Arc<Inbox>,
    has_more: bool,
}

impl InboxStatus {
    pub(super) fn new(inbox: Arc<Inbox>) -> InboxStatus {
        InboxStatus { inbox, has_more: false }
    }

    fn take_in(&mut self, tx: &mut WriteTx<'_>) -> EngineResult<()> {
        if let Some(why) = self.inbox.failure() {
            self.has_more = true;
            return inbox_of(tx)?.quarantine_inbox_entry(&why);
        }
        let max = self.inbox.entries_max.load(Ordering::Relaxed);
        let entries = inbox_of(tx)?.take_inbox(max)?;
        // Fewer may have been taken because of their size; then the next read finds none.
        self.has_more = !entries.is_empty();
        entries.iter().try_for_each(|entry| deliver(tx, entry))
    }
}

fn inbox_of<'a>(tx: &'a mut WriteTx<'_>) -> EngineResult<&'a mut dyn InboxMut> {
    Ok(tx.db()?.inbox_mut().expect("PostgreSQL has an inbox"))
}

impl WriteTask for InboxStatus {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        self.inbox.is_called.store(false, Ordering::Release);
        tx.begin();
        if let Err(failure) = self.take_in(tx) {
            tx.abort(&failure);
        }
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            // It may be refused before it has run: the next poll must be able to notify again.
            self.inbox.is_called.store(false, Ordering::Release);
            return self.inbox.stuck(&error);
        }
        self.inbox.opened();
        if self.has_more {
            self.inbox.call();
        }
    }

    fn adds_jobs(&self) -> bool {
        true
    }

    fn weight(&self) -> usize {
        limits::INBOX_ENTRIES_PER_COMMIT
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn claims(&self) -> usize {
        0
    }

    fn names(&self) -> &[JobId] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_refused_before_it_was_read_can_be_made_again() {
        let writes: Arc<TaskQueue<Box<dyn WriteTask>>> = Arc::new(TaskQueue::new(8));
        let inbox = Arc::new(Inbox::new(writes.clone()));
        inbox.call();
        inbox.call();
        let mut called = writes.take(8);
        assert_eq!(called.len(), 1);
        called.pop().unwrap().done(Err(StoreError::Unavailable("it is restarted".to_owned())));
        inbox.call();
        assert_eq!(writes.take(8).len(), 1);
    }
}
