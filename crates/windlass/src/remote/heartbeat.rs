//! Heartbeats and other writes for a running job: checkpoints, progress, log lines.

use std::time::Duration;

use windlass_api::claim::{AttemptWrites, DirectiveView, HeartbeatView};
use windlass_api::stream::{StreamBody, StreamPart};
use windlass_api::time::Span;

use super::Remote;
use super::client::Call;
use super::error::not_json;
use crate::error::WorkError;
use crate::job::{Fence, JobId, WorkerId};
use crate::limits;
use crate::settings::PauseMode;
use crate::store::command::attempt_writes::{AttemptWrite, LeaseRef, check_step};
use crate::store::command::heartbeat::{Directive, HeartbeatItem, HeartbeatReply};
use crate::store::wire::claim::heartbeats;
use crate::store::wire::outcome::{SentWrites, sent_writes};

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

    /// A server does not learn that a worker's own program paused it.
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
        let body = heartbeats(worker, &beats, (!wait.is_zero()).then_some(Span(wait)));
        // The caller sends the next heartbeat by itself.
        let call =
            Call::post("/heartbeats").json(&body).waiting(wait).within(limits::SERVER_HEARTBEAT_MAX).once();
        let view: HeartbeatView = self.client.ask(call).await.map_err(|error| error.into_work(worker))?;
        Ok(reply(view))
    }

    /// Writes checkpoints, progress, log lines and output in one request, all or none.
    pub(crate) async fn record(&self, lease: LeaseRef, writes: Vec<AttemptWrite>) -> Result<(), WorkError> {
        for write in &writes {
            if let AttemptWrite::Checkpoint { step, .. } = write {
                check_step("step", step)?;
            }
        }
        let sent = sent_writes(&writes).ok_or_else(|| not_json("value"))?;
        let SentWrites { checkpoints, progress, logs, stream } = sent;
        // Repeating checkpoints and progress is harmless; a log line would be there twice, and a chunk whose place in its
        // attempt is not known.
        let is_repeatable = logs.is_empty() && stream.as_ref().is_none_or(|part| part.offset.is_some());
        let worker_id = lease.worker.map(|worker| worker.to_string());
        let fence = lease.fence.0;
        let is_output = checkpoints.is_empty() && progress.is_none() && logs.is_empty();
        let call = match stream {
            Some(StreamPart { offset, chunks }) if is_output => {
                let body = StreamBody { fence, worker_id, offset, chunks };
                Call::post(format!("/jobs/{}/stream", lease.job)).json(&body)
            }
            stream => {
                let body = AttemptWrites { fence, worker_id, checkpoints, progress, logs, stream };
                Call::post(format!("/jobs/{}/checkpoints", lease.job)).json(&body)
            }
        };
        let call = call.repeatable(is_repeatable);
        self.client.done(call).await.map_err(|error| error.into_work_for(lease.job))?;
        Ok(())
    }
}
