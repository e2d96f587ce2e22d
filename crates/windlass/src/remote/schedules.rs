//! Schedules at a server.

use std::sync::Arc;

use windlass_api::actions::ActionResponse;
use windlass_api::expires::Expiry;
use windlass_api::job::Job;
use windlass_api::schedule::{ScheduleBody, SchedulePauseBody, ScheduleView, Schedules};
use windlass_api::time::Span;

use super::Remote;
use super::client::Call;
use super::error::RemoteError;
use crate::error::{ScheduleError, StoreError};
use crate::job::{JobRecord, ScheduleName, Tenant};
use crate::store::documents::schedules::{DeletedSchedule, NewSchedule, PutSchedule, Schedule};
use crate::store::documents::tenant_object::{PauseOptions, ScheduleRef};

/// The schedule as the library has it.
fn stored(shown: ScheduleView) -> Result<Arc<Schedule>, StoreError> {
    let name = shown.name.to_string();
    let unknown = |_| StoreError::Unreachable(format!("cannot parse the timing of schedule {name}"));
    Schedule::try_from(shown).map(Arc::new).map_err(unknown)
}

/// Adds the name of a schedule to a call.
fn about(call: Call, which: &ScheduleRef) -> Call {
    call.query_if("tenant", which.tenant.as_ref().map(Tenant::as_str))
}

impl Remote {
    /// Creates or replaces a schedule; whether it is new is derived from its age.
    pub(crate) async fn put_schedule(
        &self,
        name: ScheduleName,
        new: NewSchedule,
    ) -> Result<PutSchedule, ScheduleError> {
        let call = Call::put(format!("/schedules/{name}")).json(&ScheduleBody::from(&new)).repeatable(true);
        let asked = self.client.ask::<ActionResponse<ScheduleView>>(call).await;
        let shown = asked.map_err(|error| error.into_schedule(name))?;
        let ActionResponse { object: schedule, changed } = shown;
        let is_new = schedule.created_at == schedule.updated_at && changed;
        Ok(PutSchedule { schedule: stored(schedule)?, is_new, is_changed: changed })
    }

    pub(crate) async fn delete_schedule(&self, which: ScheduleRef) -> Result<(), ScheduleError> {
        let call = about(Call::delete(format!("/schedules/{}", which.name)), &which);
        self.client.done(call).await.map(drop).map_err(|error| error.into_schedule(which.name))
    }

    pub(crate) async fn restore_schedule(&self, which: ScheduleRef) -> Result<Arc<Schedule>, ScheduleError> {
        let call = about(Call::post(format!("/schedules/{}/restore", which.name)), &which);
        let asked: Result<ScheduleView, RemoteError> = self.client.ask(call).await;
        Ok(stored(asked.map_err(|error| error.into_schedule(which.name))?)?)
    }

    pub(crate) async fn deleted_schedules(&self) -> Result<Vec<DeletedSchedule>, StoreError> {
        let found = self.all_schedules(true).await?.into_iter();
        found
            .map(|mut shown| {
                let (at, by) = (shown.deleted_at.take(), shown.deleted_by.take().unwrap_or_default());
                let at = at.map_or(shown.updated_at.0, |moment| moment.0);
                Ok(DeletedSchedule { schedule: stored(shown)?, at, by })
            })
            .collect()
    }

    pub(crate) async fn pause_schedule(
        &self,
        which: ScheduleRef,
        how: PauseOptions,
    ) -> Result<bool, ScheduleError> {
        let expires = how.expires.map(|time| Expiry::After(Span(time)));
        let body = SchedulePauseBody { reason: how.reason, expires };
        let call = about(Call::post(format!("/schedules/{}/pause", which.name)).json(&body), &which);
        self.changed_schedule(call, which.name).await
    }

    pub(crate) async fn resume_schedule(&self, which: ScheduleRef) -> Result<bool, ScheduleError> {
        let call = about(Call::post(format!("/schedules/{}/resume", which.name)), &which);
        self.changed_schedule(call, which.name).await
    }

    async fn changed_schedule(&self, call: Call, name: ScheduleName) -> Result<bool, ScheduleError> {
        let asked: Result<ActionResponse<ScheduleView>, RemoteError> = self.client.ask(call).await;
        asked.map(|answer| answer.changed).map_err(|error| error.into_schedule(name))
    }

    pub(crate) async fn trigger_schedule(&self, which: ScheduleRef) -> Result<JobRecord, ScheduleError> {
        let call = about(Call::post(format!("/schedules/{}/trigger", which.name)), &which);
        let asked: Result<Job, RemoteError> = self.client.ask(call).await;
        asked.map(JobRecord::from).map_err(|error| error.into_schedule(which.name))
    }

    pub(crate) async fn schedule(&self, which: ScheduleRef) -> Result<Option<Arc<Schedule>>, StoreError> {
        let call = about(Call::get(format!("/schedules/{}", which.name)), &which);
        self.client.find::<ScheduleView>(call).await?.map(stored).transpose()
    }

    pub(crate) async fn schedules(&self) -> Result<Vec<Arc<Schedule>>, StoreError> {
        self.all_schedules(false).await?.into_iter().map(stored).collect()
    }

    /// All pages of the list of schedules, or of the deleted ones.
    async fn all_schedules(&self, is_deleted: bool) -> Result<Vec<ScheduleView>, StoreError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let call = Call::get("/schedules").query_if("cursor", cursor);
            let call = if is_deleted { call.query("deleted", "true") } else { call };
            let page: Schedules = self.client.ask(call).await?;
            found.extend(page.schedules);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }
}
