//! Operations for operators and maintenance: pauses, settings, bulk actions, lists, statistics, the audit trail.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::audit::{Record, Seal};
use crate::clock::{ClockReport, Timestamp};
use crate::error::{ActError, StoreError};
use crate::job::{JobId, JobState, QueueName};
use crate::limits;
use crate::settings::Retention;
use crate::settings::patch::{RetentionPatch, SettingsPatch};
use crate::store::Store;
use crate::store::caller::{Caller, Permission};
use crate::store::command::attempt_writes::LogLine;
use crate::store::command::audit_chain::{self, SealReport};
use crate::store::command::bulk::{self, BulkAction, BulkCursor, BulkReport};
use crate::store::command::claim::Checkpoint;
use crate::store::command::clock;
use crate::store::command::generation::{self, NewGeneration};
use crate::store::command::maintenance::{self, TickReport};
use crate::store::command::pause::{self, Pause, Target};
use crate::store::command::retention::{self, RetentionSet};
use crate::store::command::schedule::fire;
use crate::store::command::settings::{self, Configured};
use crate::store::documents::config::{Config, PushTargets};
use crate::store::engine::RecordQuery;
use crate::store::filter::Filter;
use crate::store::notify::events::EventFeed;
use crate::store::notify::feed::Change;
use crate::store::query::audit::{self, RecordPage};
use crate::store::query::explain::{self, Reason};
use crate::store::query::job_details::{self, Attempt, JobResult, Neighbours};
use crate::store::query::job_types::{self, TypeInfo};
use crate::store::query::known::{self, KnownNames, Named};
use crate::store::query::list::{self, CountResult, ListRequest, Page, WorkerLoad};
use crate::store::query::queues::{self, QueueInfo};
use crate::store::query::snapshot;
use crate::store::query::stats::{self, Stats};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;

impl Store {
    /// Pauses a scope; returns whether it was not paused before.
    pub async fn pause(&self, caller: &Caller, target: Target, pause: Pause) -> Result<bool, ActError> {
        let caller = caller.clone();
        self.write("pause", Kind::Urgent, move |tx| pause::pause(tx, &caller, &target, &pause)).await
    }

    /// Begins a new generation of the store, as after a restore: fences issued before are refused, and the jobs that
    /// were running are claimable again. This does not count as a failure.
    pub async fn begin_generation(&self, caller: &Caller, reason: &str) -> Result<NewGeneration, ActError> {
        let (caller, reason) = (caller.clone(), reason.to_owned());
        let begin =
            move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| generation::begin(tx, &caller, &reason);
        let number = self.write("begin_generation", Kind::Urgent, begin).await?;
        let mut released = 0;
        loop {
            let sweep = |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| tx.sweep_leases();
            let swept = self.write::<_, StoreError>("begin_generation", Kind::Ordinary, sweep).await?;
            released += swept.released as u64;
            if !swept.has_more {
                return Ok(NewGeneration { number, released });
            }
        }
    }

    /// The store's generation.
    pub async fn generation(&self) -> Result<u64, StoreError> {
        self.read("generation", |tx| Ok(tx.db.numbers()?.generation)).await
    }

    /// Ends a pause; returns whether there was one.
    pub async fn resume(
        &self,
        caller: &Caller,
        target: Target,
        reason: Option<String>,
    ) -> Result<bool, ActError> {
        let caller = caller.clone();
        let work = move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| {
            pause::resume(tx, &caller, &target, reason.as_deref())
        };
        self.write("resume", Kind::Urgent, work).await
    }

    /// Changes settings: fields that are not given stay as they are. Whole [`Settings`](settings::Settings) replace
    /// all.
    ///
    /// # Errors
    /// [`ActError::Invalid`] names the refused field; nothing changed.
    pub async fn configure(
        &self,
        caller: &Caller,
        patch: impl Into<SettingsPatch>,
    ) -> Result<Configured, ActError> {
        let (caller, patch) = (caller.clone(), patch.into());
        self.write("configure", Kind::Ordinary, move |tx| settings::configure(tx, &caller, &patch)).await
    }

    /// The current settings, pauses and workers that this caller can see.
    pub async fn config(&self, caller: &Caller) -> Result<Config, StoreError> {
        let caller = caller.clone();
        self.read("config", move |tx: &mut ReadTx<'_>| Ok(tx.config_with_liveness()?.seen_by(&caller))).await
    }

    /// Push targets: by queue, and by tenant where a tenant has its own target and none is set for all. Cheap enough to
    /// be called every second.
    pub async fn push_targets(&self) -> Result<PushTargets, StoreError> {
        self.read("push_targets", |tx: &mut ReadTx<'_>| tx.config().map(|config| config.push_targets())).await
    }

    /// Information about a queue that this caller can see; an unused queue is empty.
    pub async fn queue(&self, caller: &Caller, queue: QueueName) -> Result<QueueInfo, StoreError> {
        let caller = caller.clone();
        self.read("queue", move |tx| queues::queue(tx, &caller, &queue)).await
    }

    /// Information about every queue that has jobs, settings or a pause, by name.
    pub async fn queues(&self, caller: &Caller) -> Result<Vec<QueueInfo>, StoreError> {
        let caller = caller.clone();
        self.read("queues", move |tx| queues::queues(tx, &caller, None, usize::MAX)).await
    }

    /// The first `limit` of them by name after `after`.
    pub async fn queues_after(
        &self,
        caller: &Caller,
        after: Option<QueueName>,
        limit: usize,
    ) -> Result<Vec<QueueInfo>, StoreError> {
        let caller = caller.clone();
        self.read("queues", move |tx| queues::queues(tx, &caller, after.as_ref(), limit)).await
    }

    /// Whether anything that this caller can see has ever used a name, and similar names.
    pub async fn known(&self, caller: &Caller, named: Named) -> Result<KnownNames, StoreError> {
        let caller = caller.clone();
        self.read("known", move |tx| known::known(tx, &caller, &named)).await
    }

    /// Information about every type that has jobs, settings or a pause and that this caller can see, by name.
    pub async fn job_types(&self, caller: &Caller) -> Result<Vec<TypeInfo>, StoreError> {
        let caller = caller.clone();
        self.read("job_types", move |tx| job_types::job_types(tx, &caller)).await
    }

    /// Applies an action to all matching jobs, in bounded commits.
    pub async fn bulk(
        &self,
        caller: &Caller,
        filter: &Filter,
        action: BulkAction,
    ) -> Result<BulkReport, ActError> {
        self.bulk_some(caller, filter, action, None, u64::MAX).await.map(|(done, _)| done)
    }

    /// Applies a bulk action to at most `max` jobs from a cursor; returns the cursor to continue from, `None` when
    /// done. Jobs submitted after the action began are not affected.
    pub async fn bulk_some(
        &self,
        caller: &Caller,
        filter: &Filter,
        action: BulkAction,
        from: Option<BulkCursor>,
        max: u64,
    ) -> Result<(BulkReport, Option<BulkCursor>), ActError> {
        caller.require(Permission::ManageJob)?;
        let filter = bulk::narrowed(caller, filter);
        let last = match from {
            Some(from) => from.last,
            None => match self.read::<_, StoreError>("newest", list::newest).await? {
                Some(last) => last,
                None => return Ok((BulkReport::default(), None)),
            },
        };
        // On a full disk nothing may add jobs, in bulk or not.
        let jobs = limits::BULK_JOBS_PER_COMMIT;
        let kind =
            if matches!(action, BulkAction::Redrive(_)) { Kind::Batch(jobs) } else { Kind::Bulk(jobs) };
        let (mut total, mut after) = (BulkReport::default(), from.map(|from| from.after));
        loop {
            let (caller, filter, action) = (caller.clone(), filter.clone(), action.clone());
            let left = max - total.matched;
            let work = move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| {
                bulk::round(tx, &caller, &filter, &action, (after, last), left)
            };
            let round = self.write("bulk", kind.clone(), work).await?;
            total.matched += round.bulk.matched;
            total.changed += round.bulk.changed;
            total.skipped += round.bulk.skipped;
            match round.next {
                None => return Ok((total, None)),
                Some(next) if total.matched >= max => {
                    return Ok((total, Some(BulkCursor { after: next, last })));
                }
                Some(next) => after = Some(next),
            }
        }
    }

    /// How many jobs a bulk action would match; changes nothing.
    pub async fn bulk_dry_run(&self, caller: &Caller, filter: &Filter) -> Result<u64, ActError> {
        caller.require(Permission::ManageJob)?;
        let (caller, filter) = (caller.clone(), filter.clone());
        let work = move |tx: &mut ReadTx<'_>| list::matching(tx, &caller, &filter);
        self.read("dry_run", work).await.map_err(ActError::Store)
    }

    /// How many matching jobs this caller can see, up to `max`, within the scan limit of an interactive request.
    pub async fn count_up_to(
        &self,
        caller: &Caller,
        filter: &Filter,
        max: usize,
    ) -> Result<CountResult, StoreError> {
        let (caller, filter) = (caller.clone(), filter.clone());
        self.read("count_up_to", move |tx| list::count_up_to(tx, &caller, &filter, max)).await
    }

    /// How many jobs each worker runs, as far as this caller can see; scans the newest `max` running jobs.
    pub async fn busy(&self, caller: &Caller, max: usize) -> Result<WorkerLoad, StoreError> {
        let caller = caller.clone();
        self.read("busy", move |tx| list::busy(tx, &caller, max)).await
    }

    /// A page of the jobs this caller can see.
    pub async fn list(&self, caller: &Caller, request: ListRequest) -> Result<Page, StoreError> {
        let caller = caller.clone();
        self.read("list", move |tx| list::list(tx, &caller, &request)).await
    }

    /// Every reason why a job does not run; `None` if there is no such job.
    pub async fn explain(&self, caller: &Caller, id: JobId) -> Result<Option<Vec<Reason>>, StoreError> {
        let caller = caller.clone();
        self.read("explain", move |tx| {
            let Some(job) = snapshot::visible(tx, &caller, id)? else { return Ok(None) };
            explain::reasons(tx, &job, explain::Depth::All).map(Some)
        })
        .await
    }

    /// A job's attempts, the running one last.
    pub async fn attempts(&self, caller: &Caller, id: JobId) -> Result<Option<Vec<Attempt>>, StoreError> {
        let caller = caller.clone();
        self.read("attempts", move |tx| job_details::attempts(tx, &caller, id)).await
    }

    /// A job's checkpoints, by name.
    pub async fn checkpoints(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<Option<Vec<Checkpoint>>, StoreError> {
        let caller = caller.clone();
        self.read("checkpoints", move |tx| job_details::checkpoints(tx, &caller, id)).await
    }

    /// The first of a job's checkpoints by name, at most `limit`.
    pub async fn first_checkpoints(
        &self,
        caller: &Caller,
        id: JobId,
        max: usize,
    ) -> Result<Option<Vec<Checkpoint>>, StoreError> {
        let caller = caller.clone();
        self.read("first_checkpoints", move |tx| job_details::first_checkpoints(tx, &caller, id, max)).await
    }

    /// A job's log lines with a number greater than `after`.
    pub async fn logs(
        &self,
        caller: &Caller,
        id: JobId,
        after: u64,
    ) -> Result<Option<Vec<(u64, LogLine)>>, StoreError> {
        let caller = caller.clone();
        self.read("logs", move |tx| job_details::logs(tx, &caller, id, after)).await
    }

    /// A job's result; `None` if there is no such job.
    pub async fn result(&self, caller: &Caller, id: JobId) -> Result<Option<JobResult>, StoreError> {
        let caller = caller.clone();
        self.read("result", move |tx| job_details::result(tx, &caller, id)).await
    }

    /// A job's neighbours in the dependency graph.
    pub async fn neighbours(&self, caller: &Caller, id: JobId) -> Result<Option<Neighbours>, StoreError> {
        let caller = caller.clone();
        self.read("neighbours", move |tx| job_details::neighbours(tx, &caller, id)).await
    }

    /// Counts, rates and costs of everything this caller can see.
    pub async fn stats(&self, caller: &Caller) -> Result<Stats, StoreError> {
        let caller = caller.clone();
        self.read("stats", move |tx| stats::stats(tx, &caller)).await
    }

    /// Only counts and costs of [`Store::stats`]; `minutes` stays empty.
    pub async fn totals(&self, caller: &Caller) -> Result<Stats, StoreError> {
        let caller = caller.clone();
        self.read("totals", move |tx| stats::totals(tx, &caller)).await
    }

    /// When the longest waiting job of a queue became claimable.
    pub async fn oldest_ready(
        &self,
        caller: &Caller,
        queue: QueueName,
    ) -> Result<Option<Timestamp>, StoreError> {
        let caller = caller.clone();
        self.read("oldest_ready", move |tx| stats::oldest_ready(tx, &caller, &queue)).await
    }

    /// Audit records, oldest first, at most [`limits::PAGE_RECORDS_MAX`]. A search for something rare reads as
    /// many bounded pages as it takes; [`audit_page`](Store::audit_page) returns one of them.
    pub async fn audit(&self, caller: &Caller, query: RecordQuery) -> Result<Vec<Record>, StoreError> {
        let limit = query.limit.clamp(1, limits::PAGE_RECORDS_MAX);
        let (mut found, mut query) = (Vec::new(), query);
        loop {
            query.limit = limit - found.len();
            let page = self.audit_page(caller, query.clone()).await?;
            found.extend(page.records);
            match page.next.filter(|_| found.len() < limit) {
                Some(next) => query.after = next,
                None => return Ok(found),
            }
        }
    }

    /// One page of the audit trail, oldest record first, after a bounded scan.
    pub async fn audit_page(&self, caller: &Caller, query: RecordQuery) -> Result<RecordPage, StoreError> {
        let mut query = RecordQuery { limit: query.limit.clamp(1, limits::PAGE_RECORDS_MAX), ..query };
        if let Some(own) = &caller.tenant {
            if query.tenant.as_ref().is_some_and(|wanted| wanted != own) {
                return Ok(RecordPage::default());
            }
            query.tenant = Some(own.clone());
        }
        self.read("audit", move |tx| audit::page(tx, &query)).await
    }

    /// Events that this caller can see, from the audit trail after number `after` and then live (see [`EventFeed`]).
    pub fn events(&self, caller: &Caller, after: u64) -> EventFeed {
        EventFeed::new(self.clone(), caller.clone(), after)
    }

    /// Events that this caller can see, from now on.
    ///
    /// # Errors
    /// If the end of the audit trail could not be read.
    pub async fn events_from_now(&self, caller: &Caller) -> Result<EventFeed, StoreError> {
        EventFeed::from_now(self.clone(), caller.clone()).await
    }

    /// All events of this process from now on, as they are committed; audited records have their number.
    pub fn live_events(&self) -> broadcast::Receiver<Arc<Record>> {
        self.env.feed.subscribe()
    }

    /// The affected tenants of each commit in this process from now on: far cheaper than the events themselves.
    pub fn changes(&self) -> broadcast::Receiver<Arc<Change>> {
        self.env.feed.changes()
    }

    /// How many commits of this process have changed anything: if it is the same later, nothing happened here in
    /// between.
    pub fn changed(&self) -> u64 {
        self.env.feed.changed()
    }

    /// One bounded round of maintenance: promotes due jobs, ends leases, expires jobs and pauses, and submits the jobs
    /// of schedules.
    ///
    /// When the disk is full, schedules wait and the rest continues.
    pub async fn tick(&self) -> Result<TickReport, StoreError> {
        let mut ticked =
            self.write("tick", Kind::Bulk(limits::TICK_JOBS_PER_COMMIT), maintenance::tick).await?;
        if ticked.has_due_schedules {
            match self.write("fire", Kind::Batch(limits::TICK_SCHEDULES_PER_COMMIT), fire::fire).await {
                Ok(fired) => {
                    ticked.scheduled = fired.jobs;
                    // Timers of the new jobs may be due first.
                    ticked.has_more |= fired.has_more || fired.jobs > 0;
                    ticked.next_at = ticked.next_at.into_iter().chain(fired.next_at).min();
                }
                Err(StoreError::Full) => tracing::warn!("the disk is full: schedules wait"),
                Err(error) => return Err(error),
            }
        }
        Ok(ticked)
    }

    /// The store's retention, used if neither type nor queue sets one: one setting for all processes on the
    /// store.
    pub async fn retention(&self, _caller: &Caller) -> Result<Retention, StoreError> {
        let own = self.env.options.retention();
        self.read("retention", move |tx: &mut ReadTx<'_>| Ok(tx.config()?.retention.or(own))).await
    }

    /// Changes the retention. Cleared values revert to those this process was started with. It applies immediately,
    /// also to jobs that ended before.
    ///
    /// # Errors
    /// [`ActError::Forbidden`] unless the caller is an admin.
    pub async fn set_retention(
        &self,
        caller: &Caller,
        patch: RetentionPatch,
    ) -> Result<RetentionSet, ActError> {
        let caller = caller.clone();
        let work =
            move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| retention::set(tx, &caller, &patch);
        self.write("set_retention", Kind::Ordinary, work).await
    }

    /// How store time relates to the wall clock, as this process sees it.
    pub fn clock(&self) -> ClockReport {
        self.env.clock.report()
    }

    /// Accepts the current wall clock, although it jumped. If it is ahead, store time jumps to it; if it is behind,
    /// store time runs slowly until they meet. Other processes on the store follow within a second or with their next
    /// commit.
    ///
    /// # Errors
    /// [`ActError::Forbidden`] unless the caller is an admin.
    pub async fn accept_clock(&self, caller: &Caller) -> Result<ClockReport, ActError> {
        let accepting = caller.clone();
        let work = move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| clock::accept(tx, &accepting);
        let accepted = self.write("accept_clock", Kind::Urgent, work).await?;
        self.env.clock.accept(accepted.number);
        Ok(self.env.clock.report())
    }

    /// One bounded round of sealing the audit trail.
    pub async fn seal(&self) -> Result<SealReport, StoreError> {
        self.seal_unless_moved(None).await
    }

    /// Like [`seal`](Store::seal), but only if the newest checkpoint is still `left`: otherwise another process is
    /// sealing.
    pub(crate) async fn seal_unless_moved(&self, left: Option<Seal>) -> Result<SealReport, StoreError> {
        let found = self.read("seal", move |tx| audit_chain::read_backlog(tx, left.as_ref())).await?;
        match found.nothing() {
            Some(sealed) => Ok(sealed),
            None => self.write("seal", Kind::Ordinary, move |tx| audit_chain::put(tx, &found)).await,
        }
    }

    /// Removes jobs that exceeded their retention, and expired idempotency keys of removed jobs; returns
    /// how many jobs.
    pub async fn prune(&self) -> Result<usize, StoreError> {
        self.seed_retention().await?;
        let mut removed = 0;
        for state in JobState::FINAL {
            removed += self.prune_state(state).await?.removed;
        }
        let max = crate::limits::BULK_JOBS_PER_COMMIT;
        let work = move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| -> Result<usize, StoreError> {
            let now = tx.now;
            tx.db()?.remove_expired_keys(now, max)
        };
        while self.write("prune_keys", Kind::Ordinary, work).await? == max {}
        Ok(removed)
    }
}
