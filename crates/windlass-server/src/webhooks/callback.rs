//! Callbacks: a worker in the server delivers them. The store submits a callback as a job when another job becomes
//! final. The same worker delivers messages of alerts (`alert.rs`). Retries, dead letters and pauses apply as to any
//! job.

use std::future::Future;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use windlass::client::Client;
use windlass::clock::Stopwatch;
use windlass::context::Cx;
use windlass::job::Failure;
use windlass::store::caller::Caller;
use windlass::store::{DeliveryKind, Store};
use windlass::worker::Worker;
use windlass::{alert, callback};

use super::client::{Call, CallError, WebhookClient};
use super::signature::{Endpoint, Message, Purpose};
use super::signing_keys::SigningKeys;
use super::{outcome, signature};
use crate::limits;

/// Delivers callbacks and messages of alerts until `shutdown` completes.
pub async fn run(store: Store, webhooks: WebhookClient, shutdown: impl Future<Output = ()>) {
    let client = Client::from_store_without_maintenance(store.clone()).as_caller(Caller::system());
    let carrier = CallbackWorker { signing: SigningKeys::new(store.clone()), store, client: webhooks };
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let carrier = carrier.clone();
        let worker = Worker::new(&client)
            .name("callbacks")
            .version(env!("CARGO_PKG_VERSION"))
            .queue(callback::QUEUE, limits::CALLBACKS_AT_ONCE)
            .drain(limits::CALL_DRAIN_MAX)
            .grace(limits::CALL_GRACE)
            // Without a delay it was the last attempt, and the value does not matter.
            .retry_delay(|cx, _| callback::retry_after(cx.failures() + 1).unwrap_or_default())
            .handle_any(move |cx| {
                let carrier = carrier.clone();
                async move {
                    match cx.job_type().as_str() {
                        alert::TYPE => carrier.deliver_alert(&cx).await,
                        _ => carrier.deliver(&cx).await,
                    }
                }
            });
        match worker.run_until(&mut shutdown).await {
            Ok(_) => return,
            Err(error) => tracing::error!(%error, "cannot deliver callbacks, restarting"),
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(limits::CALL_ERROR_PAUSE) => {}
        }
    }
}

/// The event of a callback.
fn event_of(body: &[u8]) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Report {
        r#type: String,
    }
    let report: Option<Report> = serde_json::from_slice(body).ok();
    let event =
        report.map(|report| report.r#type).filter(|event| event.bytes().all(|b| b.is_ascii_graphic()));
    event.ok_or_else(|| {
        Failure::permanent("callback_unreadable", "this callback has no valid body: it cannot be delivered")
    })
}

/// The headers of every message.
pub(super) fn json_headers() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

/// Delivers callbacks and messages of alerts.
#[derive(Clone)]
pub(super) struct CallbackWorker {
    pub(super) store: Store,
    client: WebhookClient,
    signing: SigningKeys,
}

impl CallbackWorker {
    /// Delivers one callback; retries have the same message id.
    async fn deliver(&self, cx: &Cx) -> anyhow::Result<()> {
        let Some(url) = cx.metadata().callback_url.as_deref() else {
            let problem = "this callback has no URL: it cannot be delivered";
            return Err(Failure::permanent("callback_without_address", problem).into());
        };
        let body = Bytes::from(cx.payload().bytes.to_vec());
        let headers = self.signed(cx, Purpose::Callback, url, &event_of(&body)?, &body).await?;
        self.send(cx, DeliveryKind::Callback, url, headers, body).await
    }

    /// The headers of a signed message to this address.
    pub(super) async fn signed(
        &self,
        cx: &Cx,
        purpose: Purpose,
        url: &str,
        event: &str,
        body: &[u8],
    ) -> Result<HeaderMap, Failure> {
        let endpoint = Endpoint::new(purpose, url)
            .map_err(|error| outcome::of_error(url, &CallError::Refused(error)))?;
        let keys = self.signing.keys(cx.tenant(), &endpoint).await?;
        let (id, at) = (cx.job_id().to_string(), self.store.environment().clock.now());
        let message = Message { id: &id, at, event, endpoint: &endpoint, body };
        Ok(signature::sign(message, json_headers(), &keys))
    }

    /// Sends a message, and says how its delivery ended.
    pub(super) async fn send(
        &self,
        cx: &Cx,
        kind: DeliveryKind,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<()> {
        let clock = &self.store.environment().clock;
        let time_max = limits::CALLBACK_TIME_MAX;
        let call = Call { url, headers, body, time_max, answer_bytes_max: None };
        let watch = Stopwatch::start();
        let answer = tokio::select! {
            answer = self.client.call(call) => answer,
            () = cx.cancelled() => return Err(Failure::temporary("stopped during the call").into()),
        };
        let deliveries = &self.store.environment().metrics.deliveries;
        deliveries.add(kind, outcome::of_delivery(&answer), watch.elapsed());
        let answer = answer.map_err(|error| outcome::of_error(url, &error))?;
        Ok(outcome::of_answer(url, &answer, clock.now())?)
    }
}
