//! Work that the store owes: consequences that continue in later commits, and the next runs of schedules.

use std::time::Duration;

use super::VerifyReport;
use super::repair::Defect;
use crate::error::StoreError;
use crate::store::documents::cascade::{Cascade, Task};
use crate::store::documents::config::parse;
use crate::store::documents::schedules::Schedule;
use crate::store::engine::DocumentKind;
use crate::store::tx::read_tx::ReadTx;

/// How far a stored run may be from the computed one: rules of time zones change with the program.
const ZONE_CHANGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// No end is applied to dependents before it has come.
pub(super) fn cascades(tx: &mut ReadTx<'_>) -> Result<VerifyReport, StoreError> {
    let mut report =
        VerifyReport::new("cascades", "unfinished consequences of an end belong to a job that has ended");
    for document in tx.db.documents(DocumentKind::Cascade)? {
        let cascade = Cascade::parse(&document)?;
        let mut finding = (cascade.key() != document.key)
            .then(|| format!("cascade {} is stored as {}", cascade.key(), document.key));
        if let Task::Dependents { job, .. } = &cascade.task {
            let found = tx.db.load(&[*job])?.pop().flatten();
            let live = found.filter(|found| !found.state.is_final());
            let early = live.map(|live| {
                format!("dependents are notified of the end of job {}, which is {}", live.id, live.state)
            });
            finding = finding.or(early);
        }
        report.count_finding(finding);
    }
    Ok(report)
}

/// A schedule runs next when its timing says so.
pub(super) fn schedules(tx: &mut ReadTx<'_>) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::new("schedules", "the next run of a schedule follows from its timing");
    for document in tx.db.documents(DocumentKind::Schedule)? {
        let schedule: Schedule = parse(&document.body)?;
        let (stored, due) = (schedule.next_at, schedule.first_run());
        let is_sound = match (stored, due) {
            (Some(stored), Some(due)) => {
                stored > schedule.done_through && stored.since(due).max(due.since(stored)) <= ZONE_CHANGE_MAX
            }
            (stored, due) => stored == due,
        };
        let shown =
            |at: Option<crate::clock::Timestamp>| at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        report.count_defect((!is_sound).then(|| {
            let Schedule { tenant, name, .. } = &schedule;
            let text = format!(
                "schedule {tenant} {name}: runs next {}, by its timing {}",
                shown(stored),
                shown(due)
            );
            (text, Some(Defect::Schedule(document.key.clone())))
        }));
    }
    Ok(report)
}
