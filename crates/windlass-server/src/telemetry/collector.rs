//! Sends finished spans to a collector in batches. Nothing waits for the collector: spans it does not accept are dropped.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::webhook_url::TargetPolicy;

use super::layer::Span;
use super::otlp;
use super::settings::Settings;
use crate::limits::{SPANS_BUFFERED, SPANS_FLUSH_TIMEOUT, SPANS_PER_CALL_MAX};
use crate::webhooks::client::{Call, WebhookClient};

/// The sending task.
pub(super) struct Collector {
    stop: CancellationToken,
    sending: JoinHandle<()>,
}

impl Collector {
    /// Starts sending the spans of the channel.
    pub(super) fn start(settings: Settings) -> (Collector, mpsc::Sender<Span>) {
        let (sender, spans) = mpsc::channel(SPANS_BUFFERED);
        let stop = CancellationToken::new();
        // The operator chose the collector, which is usually on a private network.
        let client = WebhookClient::new(TargetPolicy::anywhere());
        let sending = tokio::spawn(Sending { settings, client, is_failing: false }.run(spans, stop.clone()));
        (Collector { stop, sending }, sender)
    }

    /// Sends the remaining spans, for a short time.
    pub(super) async fn finish(self) {
        self.stop.cancel();
        if tokio::time::timeout(SPANS_FLUSH_TIMEOUT, self.sending).await.is_err() {
            tracing::warn!("the last traces were not accepted in time");
        }
    }
}

struct Sending {
    settings: Settings,
    client: WebhookClient,
    /// Whether the last call failed: only the first failure is logged.
    is_failing: bool,
}

impl Sending {
    async fn run(mut self, mut spans: mpsc::Receiver<Span>, stop: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let is_last = stop
                .run_until_cancelled(collect_batch(&mut spans, &mut batch, self.settings.sent_every))
                .await;
            if is_last.is_none() {
                break;
            }
            self.send(&mut batch).await;
        }
        loop {
            while batch.len() < SPANS_PER_CALL_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<Span>) {
        let count = batch.len();
        let body = otlp::request(&self.settings.resource, batch).to_string();
        batch.clear();
        let answer = self
            .client
            .call(Call {
                url: &self.settings.url,
                headers: self.settings.headers.clone(),
                body: body.into(),
                time_max: self.settings.time_max,
                answer_bytes_max: None,
            })
            .await;
        let problem = match answer {
            Ok(answer) if answer.status.is_success() => None,
            Ok(answer) => Some(format!("it responded with {}", answer.status)),
            Err(error) => Some(error.to_string()),
        };
        if problem.is_some() {
            super::count_dropped(count);
        }
        match problem {
            Some(problem) if !self.is_failing => {
                tracing::warn!(
                    problem,
                    spans = count,
                    "the collector does not accept traces; they are dropped"
                );
                self.is_failing = true;
            }
            None if self.is_failing => {
                tracing::info!("the collector accepts traces again");
                self.is_failing = false;
            }
            Some(_) | None => {}
        }
    }
}

/// Waits for a first span, then a while for others; the spans stay in the batch if this is dropped.
async fn collect_batch(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>, wait_limit: Duration) {
    if spans.recv_many(batch, 1).await == 0 {
        // There are no more spans; wait for the end.
        std::future::pending::<()>().await;
    }
    let more = async {
        while batch.len() < SPANS_PER_CALL_MAX {
            let room = SPANS_PER_CALL_MAX - batch.len();
            if spans.recv_many(batch, room).await == 0 {
                return;
            }
        }
    };
    let _time_is_up = tokio::time::timeout(wait_limit, more).await;
}
