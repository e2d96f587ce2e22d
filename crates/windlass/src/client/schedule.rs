//! Schedules as a program uses them: put in place by its own name at every start, looked at, paused, triggered.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::pauses::{ActionResult, outcome};
use super::{Client, Job, JobBuilder, JobHandle};
use crate::clock::Timestamp;
use crate::error::{FieldProblem, Invalid, ScheduleError, StoreError};
use crate::job::{NewJob, ScheduleName};
use crate::schedule::{CatchUp, Cron, Overlap, ScheduleSpec, Zone};
use crate::store::documents::schedules::{NewSchedule, PauseSchedule, PutSchedule, Schedule, ScheduleRef};

/// When a schedule runs, before its values were checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Trigger {
    /// At the times of a cron expression: five fields, or six with seconds first.
    Cron(String),
    /// Again and again, counted from when the schedule was made.
    Every(Duration),
    /// Once.
    At(Timestamp),
}

impl Trigger {
    /// At the times of a cron expression, such as `0 2 * * *`, on the clocks of UTC unless a time zone is set.
    pub fn cron(expression: &str) -> Trigger {
        Trigger::Cron(expression.to_owned())
    }
}

impl Client {
    /// Puts a schedule in place: set what it needs, then await. Doing so again changes nothing unless something differs,
    /// so that a program may do it at every start.
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

    /// A schedule by its name.
    ///
    /// # Errors
    /// When that is no name.
    pub fn schedule_named(&self, name: &str) -> Result<ScheduleHandle, Invalid> {
        let name = ScheduleName::new(name).map_err(|problem| Invalid::new("name", problem))?;
        Ok(ScheduleHandle { client: self.clone(), which: name.into() })
    }

    /// All schedules, by tenant and name.
    pub async fn schedules(&self) -> Result<Vec<Arc<Schedule>>, StoreError> {
        self.store().schedules(self.caller()).await
    }
}

/// A schedule on its way to its place; await it.
#[must_use = "nothing is scheduled until this is awaited"]
pub struct ScheduleBuilder {
    client: Client,
    name: String,
    when: Trigger,
    timezone: Option<String>,
    missed: CatchUp,
    overlap: Overlap,
    // A value that is not allowed is told when this is awaited: builders do not fail.
    job: Result<NewJob, Invalid>,
}

impl ScheduleBuilder {
    /// On whose clocks, by IANA name, such as `Europe/Berlin`.
    pub fn timezone(mut self, name: &str) -> ScheduleBuilder {
        self.timezone = Some(name.to_owned());
        self
    }

    /// What becomes of runs that were missed while nothing could run them.
    pub fn missed(mut self, missed: CatchUp) -> ScheduleBuilder {
        self.missed = missed;
        self
    }

    /// What happens when a run comes while the one before is not over.
    pub fn overlap(mut self, overlap: Overlap) -> ScheduleBuilder {
        self.overlap = overlap;
        self
    }

    fn into_parts(self) -> Result<(Client, ScheduleName, NewSchedule), Invalid> {
        let at = |field: &'static str| move |problem: FieldProblem| Invalid::new(field, problem);
        let name = ScheduleName::new(&self.name).map_err(at("name"))?;
        let is_cron = matches!(self.when, Trigger::Cron(_));
        if self.timezone.is_some() && !is_cron {
            let problem =
                FieldProblem::Contradiction("only a cron expression is read on somebody's clocks".into());
            return Err(Invalid::new("timezone", problem));
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
            self.job.map_err(|invalid| Invalid::new(format!("job.{}", invalid.field), invalid.problem))?;
        Ok((self.client, name, NewSchedule { timing, missed: self.missed, overlap: self.overlap, job }))
    }
}

impl IntoFuture for ScheduleBuilder {
    type Output = Result<ScheduleHandle, ScheduleError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (queue, name, new) = self.into_parts()?;
            let PutSchedule { schedule, .. } = queue.store().put_schedule(queue.caller(), name, new).await?;
            let which = ScheduleRef { tenant: Some(schedule.tenant.clone()), name: schedule.name.clone() };
            Ok(ScheduleHandle { client: queue, which })
        })
    }
}

/// A schedule, by its name.
#[derive(Clone)]
pub struct ScheduleHandle {
    client: Client,
    which: ScheduleRef,
}

impl ScheduleHandle {
    /// Everything about it now; none if there is no such schedule.
    pub async fn get(&self) -> Result<Option<Arc<Schedule>>, StoreError> {
        self.client.store().schedule(self.client.caller(), self.which.clone()).await
    }

    /// Its next runs, five at most (M81).
    pub async fn next_runs(&self) -> Result<Vec<Timestamp>, StoreError> {
        Ok(self.get().await?.map_or_else(Vec::new, |schedule| schedule.next_runs()))
    }

    /// Pauses it; runs that come meanwhile are left out for good.
    pub async fn pause(&self, how: PauseSchedule) -> Result<ActionResult, ScheduleError> {
        let (store, caller) = (self.client.store(), self.client.caller());
        Ok(outcome(store.pause_schedule(caller, self.which.clone(), how).await?))
    }

    /// Resumes it, from its next run on.
    pub async fn resume(&self) -> Result<ActionResult, ScheduleError> {
        let (store, caller) = (self.client.store(), self.client.caller());
        Ok(outcome(store.resume_schedule(caller, self.which.clone()).await?))
    }

    /// Submits its job now, paused or not; its next runs stay as they are.
    pub async fn trigger(&self) -> Result<JobHandle, ScheduleError> {
        let job = self.client.store().trigger_schedule(self.client.caller(), self.which.clone()).await?;
        Ok(JobHandle::new(self.client.clone(), job.id))
    }

    /// Removes it; the jobs it submitted stay.
    pub async fn delete(&self) -> Result<(), ScheduleError> {
        self.client.store().delete_schedule(self.client.caller(), self.which.clone()).await
    }
}
