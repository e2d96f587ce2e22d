//! Heartbeats and other writes for a running job: checkpoints, progress, log lines.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Remote;
use super::client::Call;
use super::error::not_json;
use super::text::{Span, encoded};
use crate::error::WorkError;
use crate::job::{Fence, JobId, Progress, WorkerId};
use crate::store::command::attempt_writes::{AttemptWrite, LeaseRef, check_step};
use crate::store::command::heartbeat::{Directive, HeartbeatItem, HeartbeatReply};
use crate::store::documents::config::PauseMode;

#[derive(Serialize)]
struct HeartbeatBody<'a> {
    worker_id: WorkerId,
    jobs: Vec<BeatBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Span>,
}

#[derive(Serialize)]
struct BeatBody<'a> {
    id: JobId,
    fence: Fence,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    logs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
}

impl<'a> From<&'a HeartbeatItem> for BeatBody<'a> {
    fn from(beat: &'a HeartbeatItem) -> BeatBody<'a> {
        BeatBody {
            id: beat.job,
            fence: beat.fence,
            progress: beat.progress.as_ref(),
            logs: &beat.logs,
            timeout: beat.timeout.map(Span),
        }
    }
}

#[derive(Deserialize)]
struct HeartbeatView {
    jobs: Vec<DirectiveView>,
    worker: WorkerPulse,
}

#[derive(Deserialize)]
struct DirectiveView {
    id: JobId,
    directive: String,
}

#[derive(Deserialize)]
struct WorkerPulse {
    mode: Option<PauseMode>,
}

impl From<HeartbeatView> for HeartbeatReply {
    fn from(view: HeartbeatView) -> HeartbeatReply {
        let read = |shown: DirectiveView| {
            // A directive of a newer server: whatever it is, it does not mean to continue.
            let directive = Directive::ALL.into_iter().find(|known| known.as_str() == shown.directive);
            (shown.id, directive.unwrap_or(Directive::Lost))
        };
        HeartbeatReply { directives: view.jobs.into_iter().map(read).collect(), paused: view.worker.mode }
    }
}

#[derive(Serialize)]
struct CheckpointBody<'a> {
    fence: Fence,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<WorkerId>,
    value: &'a RawValue,
}

impl Remote {
    /// Sends heartbeats; with `wait`, the server answers only when there is something to do, or after that time.
    pub(crate) async fn heartbeat(
        &self,
        worker: WorkerId,
        beats: Vec<HeartbeatItem>,
        wait: Duration,
    ) -> Result<HeartbeatReply, WorkError> {
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
        let jobs = beats.iter().map(BeatBody::from).collect();
        let body = HeartbeatBody { worker_id: worker, jobs, wait: (!wait.is_zero()).then_some(Span(wait)) };
        let call = how(Call::post("/heartbeats").json(&body).waiting(wait));
        let view: HeartbeatView = self.client.ask(call).await.map_err(|error| error.into_work(worker))?;
        Ok(view.into())
    }

    /// Applies writes one after the other: each is written, or it and all after it are not.
    pub(crate) async fn note(&self, hand: LeaseRef, notes: Vec<AttemptWrite>) -> Result<(), WorkError> {
        for note in notes {
            match note {
                AttemptWrite::Checkpoint { step, value } => self.save(hand, &step, &value).await?,
                AttemptWrite::Progress(progress) => {
                    self.send_beat(
                        hand,
                        HeartbeatItem {
                            progress: Some(progress),
                            ..HeartbeatItem::new(hand.job, hand.fence)
                        },
                    )
                    .await?;
                }
                AttemptWrite::Logs(logs) => {
                    self.send_beat(hand, HeartbeatItem { logs, ..HeartbeatItem::new(hand.job, hand.fence) })
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn save(&self, hand: LeaseRef, step: &str, value: &[u8]) -> Result<(), WorkError> {
        check_step("step", step)?;
        let value: &RawValue = serde_json::from_slice(value).map_err(|_| not_json("value"))?;
        let path = format!("/jobs/{}/checkpoints/{}", hand.job, encoded(step));
        let body = CheckpointBody { fence: hand.fence, worker_id: hand.worker, value };
        let call = Call::put(path).json(&body).repeatable(true);
        self.client.done(call).await.map_err(|error| error.into_work_for(hand.job))?;
        Ok(())
    }

    async fn send_beat(&self, hand: LeaseRef, beat: HeartbeatItem) -> Result<(), WorkError> {
        let Some(worker) = hand.worker else { return Err(WorkError::Stale(hand.job)) };
        // Repeating progress is harmless; a log line would be there twice.
        let is_repeatable = beat.logs.is_empty();
        let pulse = self.beat(worker, &[beat], Duration::ZERO, |call| call.repeatable(is_repeatable)).await?;
        match pulse.directives[..] {
            [(_, Directive::Continue)] => Ok(()),
            _ => Err(WorkError::Stale(hand.job)),
        }
    }
}
