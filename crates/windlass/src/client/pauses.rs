//! Pauses of queues, types, tenants, workers and all processing.

use super::{Client, Job};
use crate::error::{ActionError, FieldError, FieldProblem, StoreError};
use crate::job::{JobType, QueueName, Tenant, WorkerId};
use crate::settings::{QueueSettings, TenantSettings, TypeSettings};
use crate::store::command::pause::{self, Pause, PauseTarget};
use crate::store::command::settings::Settings;
use crate::store::documents::config::{PauseRecord, PauseScope};

/// Whether an action changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionResult {
    /// The action changed something.
    Changed,
    /// The requested state was already in effect; nothing was written.
    Unchanged,
}

pub(super) fn outcome(is_changed: bool) -> ActionResult {
    if is_changed { ActionResult::Changed } else { ActionResult::Unchanged }
}

fn named<T>(field: &str, name: Result<T, FieldProblem>) -> Result<T, ActionError> {
    name.map_err(|problem| ActionError::Invalid(FieldError::new(field, problem)))
}

impl Client {
    async fn set_pause(&self, target: PauseTarget, how: Pause) -> Result<ActionResult, ActionError> {
        Ok(outcome(self.api.pause(&self.caller, target, how).await?))
    }

    async fn remove_pause(&self, target: PauseTarget) -> Result<ActionResult, ActionError> {
        Ok(outcome(self.api.resume(&self.caller, target, None).await?))
    }

    /// Pauses a queue.
    pub async fn pause_queue(&self, name: &str, how: Pause) -> Result<ActionResult, ActionError> {
        self.set_pause(PauseTarget::Queue(named("queue", QueueName::new(name))?), how).await
    }

    /// Resumes a queue.
    pub async fn resume_queue(&self, name: &str) -> Result<ActionResult, ActionError> {
        self.remove_pause(PauseTarget::Queue(named("queue", QueueName::new(name))?)).await
    }

    /// Pauses a queue; fails if it is already paused.
    pub async fn pause_queue_strictly(&self, name: &str, how: Pause) -> Result<(), ActionError> {
        let target = PauseTarget::Queue(named("queue", QueueName::new(name))?);
        pause::changed_or(
            ActionError::AlreadyPaused,
            &target.clone(),
            self.api.pause(&self.caller, target, how).await,
        )
    }

    /// Resumes a queue; fails if it is not paused.
    pub async fn resume_queue_strictly(&self, name: &str) -> Result<(), ActionError> {
        let target = PauseTarget::Queue(named("queue", QueueName::new(name))?);
        pause::changed_or(
            ActionError::NotPaused,
            &target.clone(),
            self.api.resume(&self.caller, target, None).await,
        )
    }

    /// Resumes the jobs that aggressive pauses of a queue have suspended, and returns how many. Does not resume the
    /// queue itself.
    pub async fn resume_paused_jobs(&self, queue: &str) -> Result<u64, ActionError> {
        let queue = named("queue", QueueName::new(queue))?;
        let (filter, action) = pause::resume_suspended(queue, None);
        Ok(self.api.bulk(&self.caller, &filter, action).await?.changed)
    }

    /// Pauses a job type.
    pub async fn pause_type(&self, name: &str, how: Pause) -> Result<ActionResult, ActionError> {
        self.set_pause(PauseTarget::Type(named("type", JobType::new(name))?), how).await
    }

    /// Resumes a job type.
    pub async fn resume_type(&self, name: &str) -> Result<ActionResult, ActionError> {
        self.remove_pause(PauseTarget::Type(named("type", JobType::new(name))?)).await
    }

    /// Pauses a tenant.
    pub async fn pause_tenant(&self, name: &str, how: Pause) -> Result<ActionResult, ActionError> {
        self.set_pause(PauseTarget::Tenant(named("tenant", Tenant::new(name))?), how).await
    }

    /// Resumes a tenant.
    pub async fn resume_tenant(&self, name: &str) -> Result<ActionResult, ActionError> {
        self.remove_pause(PauseTarget::Tenant(named("tenant", Tenant::new(name))?)).await
    }

    /// Pauses a worker, in any process.
    pub async fn pause_worker(&self, worker: WorkerId, how: Pause) -> Result<ActionResult, ActionError> {
        self.set_pause(PauseTarget::Worker(worker), how).await
    }

    /// Resumes a worker.
    pub async fn resume_worker(&self, worker: WorkerId) -> Result<ActionResult, ActionError> {
        self.remove_pause(PauseTarget::Worker(worker)).await
    }

    /// All active pauses that affect this caller's jobs.
    pub async fn pauses(&self) -> Result<Vec<PauseRecord>, StoreError> {
        let (config, now) = (self.api.config(&self.caller).await?, self.api.environment().clock.now());
        let is_visible = |hold: &&PauseRecord| match &hold.scope {
            PauseScope::Gate | PauseScope::Worker(_) => true,
            PauseScope::Tenant(tenant) => self.caller.can_see(tenant),
            PauseScope::Type { tenant, .. } | PauseScope::Queue { tenant, .. } => {
                tenant.as_ref().is_none_or(|tenant| self.caller.can_see(tenant))
            }
        };
        Ok(config.pauses.values().filter(|hold| hold.is_active(now)).filter(is_visible).cloned().collect())
    }

    /// Configures a job type; takes effect with the next submission or claim.
    pub async fn configure_type<J: Job>(&self, settings: TypeSettings) -> Result<ActionResult, ActionError> {
        let settings = Settings::Type(named("type", JobType::new(J::TYPE))?, settings);
        Ok(outcome(self.api.configure(&self.caller, settings.into()).await?.is_changed))
    }

    /// Configures a queue; takes effect with the next submission or claim.
    pub async fn configure_queue(
        &self,
        name: &str,
        settings: QueueSettings,
    ) -> Result<ActionResult, ActionError> {
        let settings = Settings::Queue(named("queue", QueueName::new(name))?, settings);
        Ok(outcome(self.api.configure(&self.caller, settings.into()).await?.is_changed))
    }

    /// Configures a tenant: its shares, limits and budget; takes effect with the next submission or claim.
    pub async fn configure_tenant(
        &self,
        name: &str,
        settings: TenantSettings,
    ) -> Result<ActionResult, ActionError> {
        let settings = Settings::Tenant(named("tenant", Tenant::new(name))?, settings);
        Ok(outcome(self.api.configure(&self.caller, settings.into()).await?.is_changed))
    }

    /// Pauses all processing: no job starts on any worker. Running jobs continue.
    pub async fn pause_all(&self, how: Pause) -> Result<ActionResult, ActionError> {
        self.set_pause(PauseTarget::Gate, how).await
    }

    /// Resumes processing.
    pub async fn resume_all(&self) -> Result<ActionResult, ActionError> {
        self.remove_pause(PauseTarget::Gate).await
    }
}
