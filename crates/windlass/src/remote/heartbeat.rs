//! Heartbeats and other writes for a running job: checkpoints, progress, log lines.

use std::time::Duration;

use windlass_api::claim::{CheckpointBody, DirectiveView, HeartbeatView};
use windlass_api::json::Json;
use windlass_api::time::Span;

use super::Remote;
use super::client::{Call, encoded};
use super::error::not_json;
use crate::error::WorkError;
use crate::job::{Fence, JobId, WorkerId};
use crate::limits;
use crate::store::command::attempt_writes::{AttemptWrite, LeaseRef, check_step};
use crate::store::command::heartbeat::{Directive, HeartbeatItem, HeartbeatReply};
use crate::store::documents::config::PauseMode;
use crate::store::wire::claim::heartbeats;

fn reply(view: HeartbeatView) -> HeartbeatReply {
    let read = |shown: DirectiveView| {
        // A directive of a newer server: whatever it is, it does not mean to continue.
        let directive = Directive::ALL.into_iter().find(|known| known.as_str() == shown.directive);
        Some((shown.id.parse().ok()?, directive.unwrap_or(Directive::Lost)))
    };
    let modes = [PauseMode::Graceful, PauseMode::Aggressive];
    let mode = view.worker.mode.and_then(|word| modes.into_iter().find(|mode| mode.as_str() == word));
    // A mode of a newer server is still a pause.
    let paused = mode.or_else(|| view.worker.paused.then(PauseMode::default));
    HeartbeatReply { directives: view.jobs.into_iter().filter_map(read).collect(), paused }
}

impl Remote {
    pub(crate) async fn heartbeat(
        &self,
        worker: WorkerId,
        beats: Vec<HeartbeatItem>,
    ) -> Result<HeartbeatReply, WorkError> {
        self.heartbeat_wait(worker, beats, Duration::ZERO).await
    }

    /// A server learns by heartbeats that jobs have started.
    #[allow(clippy::unused_async, reason = "a verb of the contract")]
    pub(crate) async fn start(
        &self,
        _worker: WorkerId,
        _started: Vec<(JobId, Fence)>,
    ) -> Result<(), WorkError> {
        Ok(())
    }

    /// A server is not told that a worker's own program paused it.
    #[allow(clippy::unused_async, reason = "a verb of the contract")]
    pub(crate) async fn set_worker_paused(
        &self,
        _worker: WorkerId,
        _is_paused: bool,
    ) -> Result<(), WorkError> {
        Ok(())
    }

    /// Sends heartbeats; with `wait`, the server answers only when there is something to do, or after that time.
    pub(crate) async fn heartbeat_wait(
        &self,
        worker: WorkerId,
        beats: Vec<HeartbeatItem>,
        wait: Duration,
    ) -> Result<HeartbeatReply, WorkError> {
        let wait = wait.min(limits::SERVER_WAIT_MAX);
        // The caller sends the next heartbeat by itself.
        self.beat(worker, &beats, wait, Call::once).await
    }

    async fn beat(
        &self,
        worker: WorkerId,
        beats: &[HeartbeatItem],
        wait: Duration,
        how: impl FnOnce(Call) -> Call,
    ) -> Result<HeartbeatReply, WorkError> {
        let body = heartbeats(worker, beats, (!wait.is_zero()).then_some(Span(wait)));
        let call = how(Call::post("/heartbeats").json(&body).waiting(wait));
        let view: HeartbeatView = self.client.ask(call).await.map_err(|error| error.into_work(worker))?;
        Ok(reply(view))
    }

    /// Applies writes one after the other: each is written, or it and all after it are not.
    pub(crate) async fn record(&self, lease: LeaseRef, writes: Vec<AttemptWrite>) -> Result<(), WorkError> {
        for write in writes {
            match write {
                AttemptWrite::Checkpoint { step, value } => self.save(lease, &step, &value).await?,
                AttemptWrite::Progress(progress) => {
                    self.send_beat(
                        lease,
                        HeartbeatItem {
                            progress: Some(progress),
                            ..HeartbeatItem::new(lease.job, lease.fence)
                        },
                    )
                    .await?;
                }
                AttemptWrite::Logs(logs) => {
                    self.send_beat(
                        lease,
                        HeartbeatItem { logs, ..HeartbeatItem::new(lease.job, lease.fence) },
                    )
                    .await?;
                }
            }
        }
        Ok(())
    }

    async fn save(&self, lease: LeaseRef, step: &str, value: &[u8]) -> Result<(), WorkError> {
        check_step("step", step)?;
        let value = Json::stored(value).ok_or_else(|| not_json("value"))?;
        let path = format!("/jobs/{}/checkpoints/{}", lease.job, encoded(step));
        let body = CheckpointBody {
            fence: lease.fence.0,
            worker_id: lease.worker.map(|worker| worker.to_string()),
            value,
        };
        let call = Call::put(path).json(&body).repeatable(true);
        self.client.done(call).await.map_err(|error| error.into_work_for(lease.job))?;
        Ok(())
    }

    async fn send_beat(&self, lease: LeaseRef, beat: HeartbeatItem) -> Result<(), WorkError> {
        let Some(worker) = lease.worker else { return Err(WorkError::Stale(lease.job)) };
        // Repeating progress is harmless; a log line would be there twice.
        let is_repeatable = beat.logs.is_empty();
        let reply = self.beat(worker, &[beat], Duration::ZERO, |call| call.repeatable(is_repeatable)).await?;
        match reply.directives[..] {
            [(_, Directive::Continue)] => Ok(()),
            _ => Err(WorkError::Stale(lease.job)),
        }
    }
}
