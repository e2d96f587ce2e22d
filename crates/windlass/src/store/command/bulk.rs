//! Actions on all jobs that fit a filter, in bounded commits, so that claims get their turn in between.

use std::fmt;
use std::str::FromStr;

use super::actions::{self, JobAction};
use super::needed::has_looked_at_enough;
use super::precondition::IfMatch;
use super::redrive::{self, Redrive};
use crate::error::{ActError, FieldProblem, StoreError};
use crate::job::{JobId, Seq};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::engine::ClaimOrder;
use crate::store::filter::{Filter, Found, Order, Scan};
use crate::store::query::list::Cursor;
use crate::store::tx::write_tx::WriteTx;

/// What is to be done to each job.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkAction {
    /// As to a single job.
    JobAction(JobAction),
    /// Submit it again.
    Redrive(Redrive),
    /// Remove it.
    Delete,
}

/// What a bulk action did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkReport {
    /// Jobs that fit the filter.
    pub matched: u64,
    /// Jobs that were changed; the others could not be, or were so already.
    pub changed: u64,
    /// Jobs that fit but were refused, for example because of their state or because another job needs them.
    pub skipped: u64,
}

/// A place in a bulk action, to go on from. Its text is for passing back, not for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkCursor {
    pub(crate) after: ClaimOrder,
    /// The last job there was when it began: what it submits itself is not its business.
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
            Some(BulkCursor { after: after.parse::<Cursor>().ok()?.0, last })
        };
        parse().ok_or_else(|| FieldProblem::Unknown {
            value: text.chars().take(64).collect(),
            allowed: "the cursors that a bulk action gave out",
        })
    }
}

/// One bounded round of a bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) bulk: BulkReport,
    /// Where to go on; none when done.
    pub(crate) next: Option<ClaimOrder>,
}

/// The id of no job: nothing fits a filter for its children.
const NOBODY: [u8; 16] = [0; 16];

/// The filter over what exists for this caller: its own tenant's jobs.
pub(crate) fn seen(caller: &Caller, filter: &Filter) -> Filter {
    let mut filter = filter.clone();
    if let Some(tenant) = &caller.tenant {
        // Another tenant's jobs do not exist for this caller: the filter then fits nothing.
        if filter.tenant.as_ref().is_some_and(|wanted| wanted != tenant) {
            filter.parent = Some(JobId::from_bytes(NOBODY));
        }
        filter.tenant = Some(tenant.clone());
    }
    filter
}

/// The filter over what this caller may act on: of those, a submitter's own.
pub(crate) fn narrowed(caller: &Caller, filter: &Filter) -> Filter {
    let mut filter = seen(caller, filter);
    if caller.role.manages_own_jobs_only() {
        // Asking for another's jobs must not end with the own ones.
        if filter.owner.as_ref().is_some_and(|wanted| *wanted != caller.id) {
            filter.parent = Some(JobId::from_bytes(NOBODY));
        }
        filter.owner = Some(caller.id.clone());
    }
    filter
}

/// Acts on the next jobs that fit, at most `max` of them, up to and including `last`.
pub(crate) fn round(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    filter: &Filter,
    action: &BulkAction,
    (after, last): (Option<ClaimOrder>, Seq),
    max: u64,
) -> Result<Round, ActError> {
    caller.require(Permission::ManageJob)?;
    let limit = usize::try_from(max).unwrap_or(usize::MAX).clamp(1, limits::BULK_JOBS_PER_COMMIT);
    let scan = Scan { filter: filter.clone(), order: Order::Oldest, after, limit };
    // Where no index leads to the jobs that fit, a round looks at a bounded number of others.
    let Found { jobs: page, stopped } = tx.db()?.search(&scan, limits::LIST_SCAN_MAX)?;
    let mut next = (page.len() == limit).then(|| page.last().map(ClaimOrder::of)).flatten().or(stopped);
    let mut bulk = BulkReport::default();
    for job in page {
        // Jobs that this very action submitted are not its business.
        if job.seq > last {
            next = None;
            break;
        }
        bulk.matched += 1;
        let (id, place) = (job.id, ClaimOrder::of(&job));
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

/// Whether the job changed; none if the action was refused.
fn act_on_job(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    id: JobId,
    action: &BulkAction,
) -> Result<Option<bool>, StoreError> {
    let result = match action {
        BulkAction::JobAction(act) => actions::act(tx, caller, id, act).map(|acted| acted.is_changed),
        BulkAction::Redrive(how) => redrive::redrive(tx, caller, id, *how, &IfMatch::any()).map(|_| true),
        BulkAction::Delete => actions::delete(tx, caller, id, &IfMatch::any()).map(|()| true),
    };
    match result {
        Ok(is_changed) => Ok(Some(is_changed)),
        Err(ActError::Store(error)) => Err(error),
        // A job that cannot be acted on is left alone: every refusal comes before the first write.
        Err(_) => Ok(None),
    }
}
