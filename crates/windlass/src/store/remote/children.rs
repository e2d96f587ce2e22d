//! Children that a running job spawns at a server.

use serde::{Deserialize, Serialize};

use super::Remote;
use super::client::Call;
use super::error::RemoteError;
use super::job::sketch;
use super::outcome::ParkBody;
use super::submission::Submission;
use crate::error::WorkError;
use crate::job::{Fence, GroupStrategy, JobId, JobRecord, JobState, JobType, Parent, Seq, WorkerId};
use crate::store::command::attempt_writes::LeaseRef;
use crate::store::command::children::{NewGroup, Spawned};
use crate::store::command::finish::Park;

#[derive(Serialize)]
struct ChildrenBody<'a> {
    fence: Fence,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<WorkerId>,
    name: &'a str,
    strategy: GroupStrategy,
    jobs: Vec<Submission<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beside: Vec<ParkBody<'a>>,
}

#[derive(Deserialize)]
struct SpawnedView {
    group: u64,
    known: bool,
    children: Vec<SpawnedChild>,
    parent: ShownParent,
}

#[derive(Deserialize)]
struct SpawnedChild {
    id: JobId,
    r#type: JobType,
    state: JobState,
    index: u32,
}

#[derive(Deserialize)]
struct ShownParent {
    state: JobState,
}

impl Remote {
    pub(crate) async fn spawn(
        &self,
        hand: LeaseRef,
        group: NewGroup,
        beside: Vec<Park>,
    ) -> Result<Spawned, WorkError> {
        let jobs = group.jobs.iter().map(Submission::from).collect();
        let body = ChildrenBody {
            fence: hand.fence,
            worker_id: hand.worker,
            name: &group.name,
            strategy: group.strategy,
            jobs,
            beside: beside.iter().map(ParkBody::from).collect(),
        };
        // The same name finds the same group, so a second call after a lost answer spawns nothing.
        let call = Call::post(format!("/jobs/{}/children", hand.job)).json(&body).repeatable(true);
        let view: SpawnedView = self.client.ask(call).await.map_err(|error| match error {
            RemoteError::Refused(refusal) if refusal.is_about_a_submission() => {
                WorkError::Children(Box::new(RemoteError::Refused(refusal).into_submit()))
            }
            other => other.into_work_for(hand.job),
        })?;
        let now = self.now();
        let place = |child: SpawnedChild| {
            let parent = Parent { seq: Seq(0), id: hand.job, group: view.group, index: child.index };
            JobRecord { parent: Some(parent), ..sketch(child.id, child.r#type, child.state, now) }
        };
        let kind = group.jobs.first().map_or_else(nameless, |job| job.job_type.clone());
        Ok(Spawned {
            group: view.group,
            is_known: view.known,
            children: view.children.into_iter().map(place).collect(),
            // With another fence the call would have been refused.
            parent: JobRecord { fence: hand.fence, ..sketch(hand.job, kind, view.parent.state, now) },
        })
    }
}

/// The type of a job whose type is unknown.
fn nameless() -> JobType {
    JobType::new("unknown").expect("it is a name")
}
