//! Children that a running job spawns at a server.

use windlass_api::job_details::{Child, SpawnedChildren};
use windlass_api::outcome::{ChildrenBody, ParkBody};
use windlass_api::submission::Submission;

use super::Remote;
use super::client::Call;
use super::error::{RemoteError, not_json};
use super::record::sketch;
use crate::error::WorkError;
use crate::job::{JobRecord, JobType, Parent, Seq};
use crate::store::command::attempt_writes::LeaseRef;
use crate::store::command::children::{NewGroup, SpawnOptions, SpawnReport};
use crate::store::wire::outcome::sent_writes;

impl Remote {
    pub(crate) async fn spawn_with(
        &self,
        lease: LeaseRef,
        group: NewGroup,
        options: SpawnOptions,
    ) -> Result<SpawnReport, WorkError> {
        let sent = sent_writes(&options.writes).ok_or_else(|| not_json("checkpoints"))?;
        let body = ChildrenBody {
            fence: lease.fence.0,
            worker_id: lease.worker.map(|worker| worker.to_string()),
            jobs: group.jobs.iter().map(Submission::from).collect(),
            strategy: Some(group.strategy),
            name: Some(group.name.clone()),
            checkpoints: sent.checkpoints,
            stream: sent.stream,
            park: options.keeps_running.then_some(false),
            beside: options.parks.iter().map(ParkBody::from).collect(),
        };
        // The same name finds the same group, so a second call after a lost answer spawns nothing.
        let call = Call::post(format!("/jobs/{}/children", lease.job)).json(&body).repeatable(true);
        let view: SpawnedChildren = self.client.ask(call).await.map_err(|error| match error {
            RemoteError::Refused(refusal) if refusal.is_about_a_submission() => {
                WorkError::Children(Box::new(RemoteError::Refused(refusal).into_submit()))
            }
            other => other.into_work_for(lease.job),
        })?;
        let now = self.now();
        let place = |child: Child| {
            let parent = Parent { seq: Seq(0), id: lease.job, group: view.group, index: child.index };
            JobRecord { parent: Some(parent), ..sketch(child.id.0, child.r#type.0, child.state.0, now) }
        };
        let kind = group.jobs.first().map_or_else(nameless, |job| job.job_type.clone());
        Ok(SpawnReport {
            group: view.group,
            is_known: view.known,
            children: view.children.into_iter().map(place).collect(),
            // With another fence the call would have been refused.
            parent: JobRecord { fence: lease.fence, ..sketch(lease.job, kind, view.parent.state.0, now) },
        })
    }
}

/// The type of a job whose type is unknown.
fn nameless() -> JobType {
    JobType::new("unknown").expect("it is a name")
}
