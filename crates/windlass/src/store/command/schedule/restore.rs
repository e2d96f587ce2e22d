//! Deleted schedules: kept for a time, so that a deletion can be undone. Their keys begin with the time of the deletion,
//! so that the oldest come first.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record;
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, ScheduleError, StoreError};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::config::{encode, parse};
use crate::store::documents::schedules::{DeletedSchedule, Schedule};
use crate::store::documents::shares::has_room;
use crate::store::documents::tenant_object::ScheduleRef;
use crate::store::engine::{DocumentKind, DocumentRange, EngineResult};
use crate::store::query::schedules::pick;
use crate::store::tx::write_tx::WriteTx;

/// The start of the keys of schedules deleted at this time.
fn key_prefix(at: Timestamp) -> String {
    format!("{:015}", at.as_millis())
}

/// Creates a deleted schedule again as it was. Runs that were due in between are skipped, as after a pause.
pub(crate) fn restore(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    which: &ScheduleRef,
) -> Result<Arc<Schedule>, ScheduleError> {
    caller.require(Permission::Schedule)?;
    let now = tx.now;
    let found: Vec<(String, DeletedSchedule)> = tx.deleted_schedules()?;
    // The latest of a name.
    let restorable = found.into_iter().rev().filter(|(_, deleted)| deleted.is_restorable(now));
    let restorable: Vec<(String, DeletedSchedule)> =
        restorable.filter(|(_, deleted)| deleted.schedule.name == which.name).collect();
    let chosen = pick(&restorable.iter().map(|(_, deleted)| &*deleted.schedule), caller, which);
    let Some(tenant) = chosen.map(|schedule| schedule.tenant.clone()) else {
        return Err(ScheduleError::NotFound(which.name.clone()));
    };
    let Some((key, deleted)) = restorable.into_iter().find(|(_, deleted)| deleted.schedule.tenant == tenant)
    else {
        return Err(ScheduleError::NotFound(which.name.clone()));
    };
    let config = tx.config()?;
    if config.schedules.contains_key(&(tenant.clone(), which.name.clone())) {
        let problem =
            FieldProblem::Contradiction("there is a new schedule of this name: delete it first".into());
        return Err(FieldError::new("name", problem).into());
    }
    let own = config.schedules.keys().filter(|(other, _)| *other == tenant).count();
    if !has_room(config.schedules.len(), own, limits::SCHEDULES_MAX) {
        let length = config.schedules.len() + 1;
        let problem = FieldProblem::TooLong { length, limit: limits::SCHEDULES_MAX };
        return Err(FieldError::new("schedules", problem).into());
    }
    drop(config);
    let mut schedule = Schedule {
        done_through: deleted.schedule.done_through.max(now),
        retry: None,
        updated_at: now,
        updated_by: caller.id.clone(),
        ..Schedule::clone(&deleted.schedule)
    };
    schedule.next_at = schedule.first_run();
    record(tx, AuditEvent::ScheduleRestored, &schedule, &RecordActor::caller(caller, None));
    tx.put_document(DocumentKind::DeletedSchedule, &key, None, |_| {})?;
    Ok(tx.put_schedule(schedule)?)
}

/// Drops deleted schedules that can no longer be restored.
pub(crate) fn drop_expired(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    let oldest = key_prefix(tx.now.minus(limits::DELETED_SCHEDULE_RETENTION));
    let range = DocumentRange::before(&oldest, limits::DELETED_SCHEDULES_MAX);
    for old in tx.db()?.documents_in(DocumentKind::DeletedSchedule, range)? {
        tx.put_document(DocumentKind::DeletedSchedule, &old.key, None, |_| {})?;
    }
    Ok(())
}

impl WriteTx<'_> {
    /// The deleted schedules with their keys, oldest first.
    fn deleted_schedules(&mut self) -> EngineResult<Vec<(String, DeletedSchedule)>> {
        let found = self.db()?.documents(DocumentKind::DeletedSchedule)?;
        found.into_iter().map(|document| Ok((document.key, parse(&document.body)?))).collect()
    }

    /// Keeps a schedule that is being deleted, instead of an earlier one of its name and, if there are too many, of the
    /// oldest of the tenant that has most: no tenant can drop those of others by deleting their own.
    pub(super) fn keep_deleted(&mut self, schedule: Arc<Schedule>, caller: &Caller) -> EngineResult<()> {
        let found = self.db()?.documents(DocumentKind::DeletedSchedule)?;
        let mut kept: Vec<String> = found.into_iter().map(|document| document.key).collect();
        let own = schedule.key();
        let is_same = |key: &str| key.split_once(' ').is_some_and(|(_, rest)| rest == own);
        let mut dropped: Vec<String> = kept.extract_if(.., |key| is_same(key)).collect();
        kept.push(format!("{} {own}", key_prefix(self.now)));
        while kept.len() > limits::DELETED_SCHEDULES_MAX {
            dropped.push(kept.remove(oldest_of_most(&kept)));
        }
        for key in dropped {
            self.put_document(DocumentKind::DeletedSchedule, &key, None, |_| {})?;
        }
        let key = format!("{} {own}", key_prefix(self.now));
        let deleted = DeletedSchedule { schedule, at: self.now, by: caller.id.clone() };
        self.put_document(DocumentKind::DeletedSchedule, &key, Some(&encode(&deleted)), |_| {})
    }
}

/// The first of these keys, which are in the order of their times, that belongs to the tenant that has most.
fn oldest_of_most(keys: &[String]) -> usize {
    let tenant = |key: &str| key.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for key in keys {
        *counts.entry(tenant(key)).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or(0);
    keys.iter().position(|key| counts.get(&tenant(key)) == Some(&most)).unwrap_or(0)
}
