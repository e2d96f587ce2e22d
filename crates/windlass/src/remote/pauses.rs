//! Pauses at a server: of queues, types, tenants, workers and of everything.

use serde::de::IgnoredAny;
use windlass_api::actions::ReasonBody;
use windlass_api::expires::Expiry;
use windlass_api::pause::{OfflineBody, OnlineBody, PauseBody};
use windlass_api::text::Text;
use windlass_api::time::Span;

use super::Remote;
use super::client::Call;
use super::error::{RemoteError, unknown};
use super::settings::ActionResponse;
use crate::error::ActionError;
use crate::job::{JobType, Tenant};
use crate::store::command::pause::{Pause, PauseTarget};

/// The error if the object was not found.
fn missing(target: &PauseTarget) -> ActionError {
    match target {
        PauseTarget::Worker(worker) => ActionError::NoSuchWorker(*worker),
        _ => unknown("target"),
    }
}

impl Remote {
    pub(crate) async fn pause(&self, target: PauseTarget, pause: Pause) -> Result<bool, ActionError> {
        let Pause { mode, reason, expires } = pause;
        let expires = expires.map(|time| Expiry::After(Span(time)));
        let how = || PauseBody { mode: Some(mode), reason: reason.clone(), expires };
        let close = |tenant: Option<&Tenant>, job_type: Option<&JobType>| {
            let (tenant, r#type) = (tenant.cloned().map(Text), job_type.cloned().map(Text));
            let body = OfflineBody { reason: reason.clone(), expires, tenant, r#type };
            Call::post("/gate/offline").json(&body)
        };
        let call = match &target {
            PauseTarget::Queue(queue) => Call::post(format!("/queues/{queue}/pause")).json(&how()),
            PauseTarget::Worker(worker) => Call::post(format!("/workers/{worker}/pause")).json(&how()),
            PauseTarget::Gate => close(None, None),
            PauseTarget::Tenant(tenant) => close(Some(tenant), None),
            PauseTarget::Type(job_type) => close(None, Some(job_type)),
        };
        self.changed(call, &target).await
    }

    pub(crate) async fn resume(
        &self,
        target: PauseTarget,
        reason: Option<String>,
    ) -> Result<bool, ActionError> {
        let open = |tenant: Option<&Tenant>, job_type: Option<&JobType>| {
            let (tenant, r#type) = (tenant.cloned().map(Text), job_type.cloned().map(Text));
            Call::post("/gate/online").json(&OnlineBody { reason: reason.clone(), tenant, r#type })
        };
        let why = ReasonBody { reason: reason.clone() };
        let call = match &target {
            PauseTarget::Queue(queue) => Call::post(format!("/queues/{queue}/resume")).json(&why),
            PauseTarget::Worker(worker) => Call::post(format!("/workers/{worker}/resume")).json(&why),
            PauseTarget::Gate => open(None, None),
            PauseTarget::Tenant(tenant) => open(Some(tenant), None),
            PauseTarget::Type(job_type) => open(None, Some(job_type)),
        };
        self.changed(call, &target).await
    }

    async fn changed(&self, call: Call, target: &PauseTarget) -> Result<bool, ActionError> {
        let answer: Result<ActionResponse<IgnoredAny>, RemoteError> = self.client.ask(call).await;
        answer.map(|answer| answer.changed).map_err(|error| error.into_act(missing(target)))
    }
}
