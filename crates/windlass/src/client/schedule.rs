//! Schedules: created or updated by name at every program start, then read, paused or triggered.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::pauses::{ActionResult, outcome};
use super::{Client, Job, JobBuilder, JobHandle};
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, ScheduleError, StoreError};
use crate::job::{NewJob, ScheduleName};
use crate::schedule::{CatchUp, Cron, Overlap, ScheduleSpec, Zone};
use crate::store::documents::schedules::{NewSchedule, PutSchedule, Schedule};
use crate::store::documents::tenant_object::{PauseOptions, ScheduleRef};

/// When a schedule runs. The values are validated when the schedule is saved.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Trigger {
    /// At the times of a cron expression: five fields, or six with seconds first.
    Cron(String),
    /// At a fixed interval, counted from when the schedule was created.
    Every(Duration),
    /// Once, at this time.
    At(Timestamp),
}

impl Trigger {
    /// At the times of a cron expression such as `0 2 * * *`, in UTC unless a time zone is set.
    pub fn cron(expression: &str) -> Trigger {
        Trigger::Cron(expression.to_owned())
    }
}

impl Client {
    /// Creates or updates a schedule: set options on the builder, then await it. Saving an identical schedule again
    /// changes nothing, so a program can do this at every start.
    pub fn schedule<J: Job>(
        &self,
        name: &str,
        when: Trigger,
        job: impl Into<JobBuilder<J>>,
    ) -> ScheduleBuilder {
        ScheduleBuilder {
            client: self.clone(),
            name: name.to_owned(),
            when,
            timezone: None,
            missed: CatchUp::default(),
            overlap: Overlap::default(),
            job: job.into().into_new(),
        }
    }

    /// A handle for a schedule name.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn schedule_named(&self, name: &str) -> Result<ScheduleHandle, FieldError> {
        let name = ScheduleName::new(name).map_err(|problem| FieldError::new("name", problem))?;
        Ok(ScheduleHandle { client: self.clone(), which: name.into() })
    }

    /// All schedules, ordered by tenant and name.
    pub async fn schedules(&self) -> Result<Vec<Arc<Schedule>>, StoreError> {
        self.api().schedules(self.caller()).await
    }
}

/// A schedule that is not saved yet; await it to save it.
#[must_use = "nothing is scheduled until this is awaited"]
pub struct ScheduleBuilder {
    client: Client,
    name: String,
    when: Trigger,
    timezone: Option<String>,
    missed: CatchUp,
    overlap: Overlap,
    // An invalid value is reported when this is awaited, because builders do not fail.
    job: Result<NewJob, FieldError>,
}

impl ScheduleBuilder {
    /// The time zone of a cron expression, by IANA name, such as `Europe/Berlin`.
    pub fn timezone(mut self, name: &str) -> ScheduleBuilder {
        self.timezone = Some(name.to_owned());
        self
    }

    /// What to do about runs that were missed while no process could run them.
    pub fn missed(mut self, missed: CatchUp) -> ScheduleBuilder {
        self.missed = missed;
        self
    }

    /// What to do if a run is due while the previous one has not finished.
    pub fn overlap(mut self, overlap: Overlap) -> ScheduleBuilder {
        self.overlap = overlap;
        self
    }

    fn into_parts(self) -> Result<(Client, ScheduleName, NewSchedule), FieldError> {
        let at = |field: &'static str| move |problem: FieldProblem| FieldError::new(field, problem);
        let name = ScheduleName::new(&self.name).map_err(at("name"))?;
        let is_cron = matches!(self.when, Trigger::Cron(_));
        if self.timezone.is_some() && !is_cron {
            let problem = FieldProblem::Contradiction("only a cron expression has a time zone".into());
            return Err(FieldError::new("timezone", problem));
        }
        let timing = match self.when {
            Trigger::Cron(expression) => {
                let cron: Cron = expression.parse().map_err(at("cron"))?;
                let zone = self.timezone.map_or(Ok(Zone::default()), |name| name.parse());
                ScheduleSpec::Cron { cron, timezone: zone.map_err(at("timezone"))? }
            }
            Trigger::Every(every) => ScheduleSpec::Every(every),
            Trigger::At(moment) => ScheduleSpec::At(moment),
        };
        let job =
            self.job.map_err(|invalid| FieldError::new(format!("job.{}", invalid.field), invalid.problem))?;
        Ok((self.client, name, NewSchedule { timing, missed: self.missed, overlap: self.overlap, job }))
    }
}

impl IntoFuture for ScheduleBuilder {
    type Output = Result<ScheduleHandle, ScheduleError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, name, new) = self.into_parts()?;
            let PutSchedule { schedule, .. } = client.api().put_schedule(client.caller(), name, new).await?;
            let which = ScheduleRef { tenant: Some(schedule.tenant.clone()), name: schedule.name.clone() };
            Ok(ScheduleHandle { client, which })
        })
    }
}

/// A handle for a schedule name.
#[derive(Clone)]
pub struct ScheduleHandle {
    client: Client,
    which: ScheduleRef,
}

impl ScheduleHandle {
    /// The schedule's current data; `None` if it does not exist.
    pub async fn get(&self) -> Result<Option<Arc<Schedule>>, StoreError> {
        self.client.api().schedule(self.client.caller(), self.which.clone()).await
    }

    /// The next runs, at most five.
    pub async fn next_runs(&self) -> Result<Vec<Timestamp>, StoreError> {
        Ok(self.get().await?.map_or_else(Vec::new, |schedule| schedule.next_runs()))
    }

    /// Pauses the schedule. Runs that are due while it is paused are skipped permanently.
    pub async fn pause(&self, how: PauseOptions) -> Result<ActionResult, ScheduleError> {
        let (store, caller) = (self.client.api(), self.client.caller());
        Ok(outcome(store.pause_schedule(caller, self.which.clone(), how).await?))
    }

    /// Resumes the schedule from its next run on.
    pub async fn resume(&self) -> Result<ActionResult, ScheduleError> {
        let (store, caller) = (self.client.api(), self.client.caller());
        Ok(outcome(store.resume_schedule(caller, self.which.clone()).await?))
    }

    /// Submits the schedule's job now, even if the schedule is paused. The next runs stay the same.
    pub async fn trigger(&self) -> Result<JobHandle, ScheduleError> {
        let job = self.client.api().trigger_schedule(self.client.caller(), self.which.clone()).await?;
        Ok(JobHandle::new(self.client.clone(), job.id))
    }

    /// Creates the schedule again as it was when it was deleted. Runs that were due in between are skipped.
    ///
    /// # Errors
    /// If it was not deleted in the last 35 days, or there is a new one of this name.
    pub async fn restore(&self) -> Result<Arc<Schedule>, ScheduleError> {
        self.client.api().restore_schedule(self.client.caller(), self.which.clone()).await
    }

    /// Deletes the schedule. Jobs that it submitted stay. It can be [restored](ScheduleHandle::restore) for a time.
    pub async fn delete(&self) -> Result<(), ScheduleError> {
        self.client.api().delete_schedule(self.client.caller(), self.which.clone()).await
    }
}
