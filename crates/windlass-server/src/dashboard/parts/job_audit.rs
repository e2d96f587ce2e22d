//! The audit records of one job, on its page.

use windlass::job::JobId;
use windlass::store::Config;
use windlass::store::engine::RecordQuery;

use crate::dashboard::page::PageError;
use crate::dashboard::pages::audit::RecordRow;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// The latest records of a job, oldest first.
pub(in crate::dashboard) struct JobAudit {
    pub(in crate::dashboard) rows: Vec<RecordRow>,
    /// Which records are not shown; empty if all are.
    pub(in crate::dashboard) remark: &'static str,
}

pub(in crate::dashboard) async fn of_job(
    board: &Dashboard,
    visitor: &Visitor,
    config: &Config,
    id: JobId,
) -> Result<JobAudit, PageError> {
    // Records are read forwards: to show the latest, all are read, up to the limit of one read.
    let limit = windlass::limits::PAGE_RECORDS_MAX;
    let query = RecordQuery { job: Some(id), limit, ..RecordQuery::default() };
    let mut records = board.store().audit(&visitor.caller, query).await?;
    let remark = if records.len() == limit {
        "later records are not shown here"
    } else if records.len() > limits::RECORDS_PER_PAGE {
        "earlier records are not shown here"
    } else {
        ""
    };
    let records = records.split_off(records.len().saturating_sub(limits::RECORDS_PER_PAGE));
    let row = |record| RecordRow::new(record, board.now()).naming(config);
    Ok(JobAudit { rows: records.iter().map(row).collect(), remark })
}
