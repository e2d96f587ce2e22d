//! Actions on all jobs that match a filter, in bounded commits, so that claims run in between.

use std::fmt;
use std::str::FromStr;

use super::actions::{self, ActionRequest};
use super::effects::needed::has_looked_at_enough;
use super::precondition::IfMatch;
use super::redrive::{self, Redrive};
use crate::error::{ActionError, FieldProblem, StoreError};
use crate::job::{JobId, Seq};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::schema_checks::SchemaChecks;
use crate::store::engine::ClaimOrder;
use crate::store::filter::{Filter, Order, Scan, SearchResult};
use crate::store::query::list::Cursor;
use crate::store::tx::write_tx::WriteTx;

/// The action to apply to each job.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkAction {
    /// An action on a single job.
    Act(ActionRequest),
    /// Submit a copy as a new job.
    Redrive(Redrive),
    /// Delete the job.
    Delete,
}

/// The result of a bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkReport {
    /// Jobs that matched the filter.
    pub matched: u64,
    /// Jobs that were changed. The others could not be changed or needed no change.
    pub changed: u64,
    /// Jobs that matched but were refused, for example because of their state or because another job depends on them.
    pub skipped: u64,
}

/// A cursor for continuing a bulk action. Its text form is opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkCursor {
    pub(crate) after: ClaimOrder,
    /// The newest job at the start of the action. Jobs that the action submits itself are excluded.
    pub(crate) last: Seq,
}

impl fmt::Display for BulkCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.last.0, Cursor(self.after))
    }
}

impl FromStr for BulkCursor {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<BulkCursor, FieldProblem> {
        let parse = || {
            let (last, after) = text.split_once('.')?;
            let last = Seq(i64::from_str_radix(last, 16).ok()?);
            let cursor = BulkCursor { after: after.parse::<Cursor>().ok()?.0, last };
            (cursor.to_string() == text).then_some(cursor)
        };
        parse().ok_or_else(|| FieldProblem::Unknown {
            value: text.chars().take(64).collect(),
            allowed: "a cursor returned by a bulk action",
        })
    }
}

/// One bounded round of a bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) bulk: BulkReport,
    /// Where to continue; `None` when done.
    pub(crate) next: Option<ClaimOrder>,
}

/// An id that no job has: a filter for its children matches nothing.
const NO_PARENT: [u8; 16] = [0; 16];

/// Restricts the filter to jobs the caller can see: those of its own tenant.
pub(crate) fn seen(caller: &Caller, filter: &Filter) -> Filter {
    let mut filter = filter.clone();
    if let Some(tenant) = &caller.tenant {
        // Another tenant's jobs do not exist for this caller: the filter matches nothing.
        if filter.tenant.as_ref().is_some_and(|wanted| wanted != tenant) {
            filter.parent = Some(JobId::from_bytes(NO_PARENT));
        }
        filter.tenant = Some(tenant.clone());
    }
    filter
}

/// Restricts the filter to jobs the caller may act on: for a submitter, its own jobs.
pub(crate) fn narrowed(caller: &Caller, filter: &Filter) -> Filter {
    let mut filter = seen(caller, filter);
    if caller.role.manages_own_jobs_only() {
        // A filter for another owner's jobs must not select the caller's own.
        if filter.owner.as_ref().is_some_and(|wanted| *wanted != caller.id) {
            filter.parent = Some(JobId::from_bytes(NO_PARENT));
        }
        filter.owner = Some(caller.id.clone());
    }
    filter
}

/// Acts on the next matching jobs, at most `max` of them, up to and including `last`.
pub(crate) fn round(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    filter: &Filter,
    action: &BulkAction,
    (after, last): (Option<ClaimOrder>, Seq),
    max: u64,
) -> Result<Round, ActionError> {
    caller.require(Permission::ManageJob)?;
    let limit = usize::try_from(max).unwrap_or(usize::MAX).clamp(1, limits::BULK_JOBS_PER_COMMIT);
    let scan = Scan { filter: filter.clone(), order: Order::Oldest, after, limit };
    // If no index matches the filter, a round reads a bounded number of other jobs.
    let SearchResult { jobs: page, stopped } = tx.db()?.search(&scan, limits::LIST_SCAN_MAX)?;
    let mut next = (page.len() == limit).then(|| page.last().map(ClaimOrder::new)).flatten().or(stopped);
    let mut bulk = BulkReport::default();
    for job in page {
        // Excludes jobs that this action submitted itself.
        if job.seq > last {
            next = None;
            break;
        }
        bulk.matched += 1;
        let (id, place) = (job.id, ClaimOrder::new(&job));
        tx.cache_job(job);
        match act_on_job(tx, caller, id, action)? {
            Some(is_changed) => bulk.changed += u64::from(is_changed),
            None => bulk.skipped += 1,
        }
        if has_looked_at_enough(tx) {
            next = Some(place);
            break;
        }
    }
    Ok(Round { bulk, next })
}

/// Whether the job changed; `None` if the action was refused.
fn act_on_job(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    action: &BulkAction,
) -> Result<Option<bool>, StoreError> {
    let result = match action {
        BulkAction::Act(act) => actions::act(tx, caller, id, act).map(|acted| acted.is_changed),
        BulkAction::Redrive(how) => {
            let how = (how, &mut SchemaChecks::default());
            redrive::redrive(tx, caller, id, how, &IfMatch::any()).map(|_| true)
        }
        BulkAction::Delete => actions::delete(tx, caller, id, &IfMatch::any()).map(|()| true),
    };
    match result {
        Ok(is_changed) => Ok(Some(is_changed)),
        Err(ActionError::Store(error)) => Err(error),
        // A job that cannot be acted on is skipped: every refusal comes before the first write.
        Err(_) => Ok(None),
    }
}
