//! Jobs: submit, act, redrive, delete, signal, get, wait, and actions on many jobs.

use std::time::Duration;

use crate::clock::WaitLimit;
use crate::error::{ActionError, StoreError, SubmitError};
use crate::job::{JobId, JobRecord, NewJob};
use crate::limits;
use crate::store::Store;
use crate::store::caller::{Caller, Permission};
use crate::store::command::actions::signal;
use crate::store::command::actions::{self, ActionReport, ActionRequest};
use crate::store::command::bulk::{self, BulkAction, BulkCursor, BulkReport};
use crate::store::command::precondition::{ActionOptions, IfMatch};
use crate::store::command::redrive::{self, Redrive};
use crate::store::command::submit::{self, Receipt, SubmitOptions};
use crate::store::filter::Filter;
use crate::store::metrics::Fallback;
use crate::store::notify::wakeup::Listener;
use crate::store::query::list;
use crate::store::query::snapshot::{self, Snapshot};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// Reads what a caller wants to know about submitted jobs.
type ReadReceipts<J> = fn(&mut WriteTx<'_>, &Caller, Vec<Receipt>) -> Result<Vec<Receipt<J>>, StoreError>;

impl Store {
    /// Submits jobs, all or none. Receipts are in the order of the jobs.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit; nothing was stored.
    pub async fn submit(
        &self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
    ) -> Result<Vec<Receipt>, SubmitError> {
        self.submit_then(caller, jobs, options, |_, _, receipts| Ok(receipts)).await
    }

    /// Submits jobs and, in the same transaction, reads what the caller wants to know about them.
    pub(crate) async fn submit_then<J: Send + 'static>(
        &self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        options: SubmitOptions,
        read: ReadReceipts<J>,
    ) -> Result<Vec<Receipt<J>>, SubmitError> {
        submit::check(&jobs, self.env.options.payload_bytes_max, &self.env.options.targets)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let caller = caller.clone();
        let mut checks = self.check_payloads(&jobs).await?;
        self.write("submit", submit::kind(&jobs), move |tx| {
            let receipts = submit::submit_checked(tx, &caller, &jobs, options, None, &mut checks)?;
            Ok(read(tx, &caller, receipts)?)
        })
        .await
    }

    /// Applies an action to a job. The report says whether the job changed.
    pub async fn act(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
    ) -> Result<ActionReport, ActionError> {
        self.act_with(caller, id, act, ActionOptions::default()).await
    }

    /// Like [`act`](Store::act), with options: strict, or only for given versions of the job.
    ///
    /// # Errors
    /// [`ActionError::Changed`] if the job has another version in the commit that applies the action.
    pub async fn act_with(
        &self,
        caller: &Caller,
        id: JobId,
        act: ActionRequest,
        options: ActionOptions,
    ) -> Result<ActionReport, ActionError> {
        self.write_for(caller, "act", Kind::Ordinary, move |tx, caller| {
            actions::act_with(tx, caller, id, &act, &options)
        })
        .await
    }

    /// Submits a copy of a final job as a new job.
    pub async fn redrive(&self, caller: &Caller, id: JobId, how: Redrive) -> Result<JobRecord, ActionError> {
        self.redrive_if(caller, id, how, IfMatch::any()).await
    }

    /// Like [`redrive`](Store::redrive), if the job has one of these versions.
    ///
    /// # Errors
    /// [`ActionError::Changed`] if it has another version.
    pub async fn redrive_if(
        &self,
        caller: &Caller,
        id: JobId,
        how: Redrive,
        if_match: IfMatch,
    ) -> Result<JobRecord, ActionError> {
        let mut checks = self.check_redrive(caller, id, &how).await?;
        self.write_for(caller, "redrive", Kind::Submission, move |tx, caller| {
            redrive::redrive(tx, caller, id, (&how, &mut checks), &if_match)
        })
        .await
    }

    /// Deletes a final job. Its audit records are kept.
    pub async fn delete(&self, caller: &Caller, id: JobId) -> Result<(), ActionError> {
        self.delete_if(caller, id, IfMatch::any()).await
    }

    /// Like [`delete`](Store::delete), if the job has one of these versions.
    ///
    /// # Errors
    /// [`ActionError::Changed`] if it has another version.
    pub async fn delete_if(&self, caller: &Caller, id: JobId, if_match: IfMatch) -> Result<(), ActionError> {
        self.write_for(caller, "delete", Kind::Ordinary, move |tx, caller| {
            actions::delete(tx, caller, id, &if_match)
        })
        .await
    }

    /// Sends a signal to a job.
    pub async fn signal(
        &self,
        caller: &Caller,
        id: JobId,
        name: &str,
        value: Vec<u8>,
    ) -> Result<JobRecord, ActionError> {
        self.signal_if(caller, id, name, value, IfMatch::any()).await
    }

    /// Like [`signal`](Store::signal), but only a job in one of these versions.
    ///
    /// # Errors
    /// [`ActionError::Changed`] if it has another version.
    pub async fn signal_if(
        &self,
        caller: &Caller,
        id: JobId,
        name: &str,
        value: Vec<u8>,
        if_match: IfMatch,
    ) -> Result<JobRecord, ActionError> {
        let name = name.to_owned();
        self.write_for(caller, "signal", Kind::Ordinary, move |tx, caller| {
            signal::signal(tx, caller, id, &name, &value, &if_match)
        })
        .await
    }

    /// The job with this id, if the caller can see it.
    pub async fn get(&self, caller: &Caller, id: JobId) -> Result<Option<Snapshot>, StoreError> {
        self.read_for(caller, "get", move |view, caller| snapshot::get(view, caller, id)).await
    }

    /// Like [`get`](Store::get), but without the payload, which can be large: for callers that poll.
    pub async fn job(&self, caller: &Caller, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.read_for(caller, "job", move |view, caller| snapshot::visible(view, caller, id)).await
    }

    /// Returns the job once it is final, or in its current state after `timeout`.
    pub async fn wait(
        &self,
        caller: &Caller,
        id: JobId,
        timeout: Duration,
    ) -> Result<Option<Snapshot>, StoreError> {
        let wait_limit = WaitLimit::for_duration(timeout);
        // The subscription of the last wait, if it timed out without a notification.
        let mut timed_out: Option<Listener> = None;
        let mut has_read = false;
        loop {
            let mut ends = self.env.wakeups.ends();
            let asking = caller.clone();
            let query = move |view: &mut ReadTx<'_>| snapshot::get_or_expect(view, &asking, id);
            let (found, is_expected) = match self.read::<_, StoreError>("wait", query).await {
                // A caller that waits for thousands of jobs reads all of them on every notification.
                Err(StoreError::TooManyReads { .. }) if has_read && !wait_limit.is_over() => {
                    wait_limit.wait_for(ends.notified(), self.env.timing.backstop_every).await;
                    continue;
                }
                found => found?,
            };
            has_read = true;
            let is_settled = found.as_ref().map_or(!is_expected, |found| found.job.state.is_final());
            if wait_limit.is_over() || is_settled {
                let ended_at = found.as_ref().and_then(|found| found.job.completed_at);
                if timed_out.is_some_and(|ends| !ends.is_notified())
                    && ended_at.is_some_and(|at| self.env.clock.now().since(at) >= limits::NOTICE_MAX)
                {
                    self.env.metrics.fell_back(Fallback::End);
                }
                return Ok(found);
            }
            let is_notified = wait_limit.wait_for(ends.notified(), self.env.timing.backstop_every).await;
            timed_out = (!is_notified).then_some(ends);
        }
    }

    /// Applies an action to all matching jobs, in bounded commits.
    pub async fn bulk(
        &self,
        caller: &Caller,
        filter: &Filter,
        action: BulkAction,
    ) -> Result<BulkReport, ActionError> {
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
    ) -> Result<(BulkReport, Option<BulkCursor>), ActionError> {
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
            let work =
                move |tx: &mut WriteTx<'_>| bulk::round(tx, &caller, &filter, &action, (after, last), left);
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
    pub async fn bulk_dry_run(&self, caller: &Caller, filter: &Filter) -> Result<u64, ActionError> {
        caller.require(Permission::ManageJob)?;
        let filter = filter.clone();
        self.read_for(caller, "dry_run", move |tx, caller| list::matching(tx, caller, &filter))
            .await
            .map_err(ActionError::Store)
    }
}
