//! A job's children and the progress of their groups.

use windlass::clock::Timestamp;
use windlass::job::{Decided, GroupStrategy, JobRecord};
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;

use super::format::{percent, real};
use super::job_row::Row;
use super::middleware::Visitor;
use super::page::PageError;
use super::{Dashboard, limits};

/// A group of children.
pub(super) struct GroupView {
    pub(super) name: String,
    pub(super) strategy: String,
    pub(super) total: u32,
    pub(super) completed: u32,
    pub(super) failed: u32,
    pub(super) open: u32,
    pub(super) decided: &'static str,
    /// Widths of the completed and of the failed part, in percent.
    pub(super) done_width: String,
    pub(super) bad_width: String,
}

/// The children, up to the page's limit.
pub(super) struct Children {
    pub(super) groups: Vec<GroupView>,
    pub(super) rows: Vec<Row>,
    pub(super) jobs: Vec<JobRecord>,
    pub(super) has_more: bool,
}

/// The children of a job.
pub(super) async fn of(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
    now: Timestamp,
) -> Result<Children, PageError> {
    let mut family = Children { groups: Vec::new(), rows: Vec::new(), jobs: Vec::new(), has_more: false };
    if !job.has.children {
        return Ok(family);
    }
    let filter = Filter { parent: Some(job.id), ..Filter::default() };
    let request = ListRequest { filter, order: Order::Oldest, cursor: None, limit: limits::CHILDREN_SHOWN };
    let page = board.store().list(&visitor.caller, request).await?;
    family.has_more = page.next.is_some();
    family.rows = page.jobs.iter().map(|snapshot| Row::of(snapshot, now)).collect();
    family.jobs = page.jobs.into_iter().map(|snapshot| snapshot.job).collect();
    let groups = board.store().child_groups(&visitor.caller, job.id).await?.unwrap_or_default();
    family.groups = groups.iter().map(|group| view(&group.group)).collect();
    Ok(family)
}

fn view(group: &windlass::job::ChildGroup) -> GroupView {
    let failed = group.total.saturating_sub(group.open).saturating_sub(group.completed);
    let share = |part: u32| format!("{:.1}", percent(part.into(), group.total.into()).unwrap_or(real(0)));
    GroupView {
        name: group.name.clone(),
        strategy: match group.strategy {
            GroupStrategy::FailFast => "all must complete".to_owned(),
            GroupStrategy::CollectAll => "waits for all to finish".to_owned(),
            GroupStrategy::Threshold(number) => format!("{number} must complete"),
        },
        total: group.total,
        completed: group.completed,
        failed,
        open: group.open,
        decided: match group.decided {
            Some(Decided::Well) => "succeeded",
            Some(Decided::Badly) => "failed",
            None => "open",
        },
        done_width: share(group.completed),
        bad_width: share(failed),
    }
}
