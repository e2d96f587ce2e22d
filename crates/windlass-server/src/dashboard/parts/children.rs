//! A job's children and the progress of their groups.

use windlass::clock::Timestamp;
use windlass::job::{GroupDecision, GroupStrategy, JobRecord};
use windlass::store::{Filter, ListRequest, Order};

use crate::dashboard::page::PageError;
use crate::dashboard::parts::format::{percent, real};
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// A group of children.
pub(in crate::dashboard) struct GroupView {
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) strategy: String,
    pub(in crate::dashboard) total: u32,
    pub(in crate::dashboard) completed: u32,
    pub(in crate::dashboard) failed: u32,
    pub(in crate::dashboard) open: u32,
    pub(in crate::dashboard) decided: &'static str,
    /// Widths of the completed and of the failed part, in percent.
    pub(in crate::dashboard) done_width: String,
    pub(in crate::dashboard) bad_width: String,
}

/// The children, up to the page's limit.
pub(in crate::dashboard) struct Children {
    pub(in crate::dashboard) groups: Vec<GroupView>,
    pub(in crate::dashboard) rows: Vec<Row>,
    pub(in crate::dashboard) jobs: Vec<JobRecord>,
    pub(in crate::dashboard) has_more: bool,
}

/// The children of a job.
pub(in crate::dashboard) async fn load(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
    now: Timestamp,
) -> Result<Children, PageError> {
    let mut children = Children { groups: Vec::new(), rows: Vec::new(), jobs: Vec::new(), has_more: false };
    if !job.has.children {
        return Ok(children);
    }
    let filter = Filter { parent: Some(job.id), ..Filter::default() };
    let request = ListRequest { filter, order: Order::Oldest, cursor: None, limit: limits::CHILDREN_SHOWN };
    let page = board.store().list(&visitor.caller, request).await?;
    children.has_more = page.next.is_some();
    children.rows = page.jobs.iter().map(|snapshot| Row::new(snapshot, now)).collect();
    children.jobs = page.jobs.into_iter().map(|snapshot| snapshot.job).collect();
    let groups = board.store().child_groups(&visitor.caller, job.id).await?.unwrap_or_default();
    children.groups = groups.iter().map(|group| view(&group.group)).collect();
    Ok(children)
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
            Some(GroupDecision::Well) => "succeeded",
            Some(GroupDecision::Badly) => "failed",
            None => "open",
        },
        done_width: share(group.completed),
        bad_width: share(failed),
    }
}
