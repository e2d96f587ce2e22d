//! Push workers: the jobs of a queue with a push target are posted to it, and the response is the outcome. A web
//! application with one endpoint is then a worker. Leases, limits, pauses and retries are those of any worker.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::client::Client;
use windlass::clock::{Stopwatch, Timestamp};
use windlass::context::Cx;
use windlass::handler::Snooze;
use windlass::job::{Failure, QueueName, Tenant};
use windlass::limits::NAME_CHARS_MAX;
use windlass::settings::Push;
use windlass::store::caller::{Caller, Role};
use windlass::store::{DeliveryKind, PushTargets, Store};
use windlass::worker::Worker;

use super::client::{Body, Call, CallError, WebhookClient};
use super::signature::{Endpoint, Message, Purpose};
use super::signing_keys::SigningKeys;
use super::{durable, outcome, signature};
use crate::limits;

/// The event of a pushed job.
const EVENT: &str = "job.push";

/// A queue and its tenant; None for all tenants.
type PushKey = (QueueName, Option<Tenant>);

/// State shared by all push workers of a server.
#[derive(Clone)]
struct PushContext {
    store: Store,
    client: WebhookClient,
    signing: SigningKeys,
    targets: Arc<RwLock<PushTargets>>,
}

/// A running worker of a target.
struct Runner {
    concurrency: u32,
    is_durable: bool,
    stop: CancellationToken,
}

/// Pushes the jobs of all queues with a target until `shutdown` completes; changes of targets apply within a second.
pub async fn run(store: Store, client: WebhookClient, shutdown: impl Future<Output = ()>) {
    let signing = SigningKeys::new(store.clone());
    let context = PushContext { store, client, signing, targets: Arc::default() };
    let mut runners: BTreeMap<PushKey, Runner> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        match context.store.push_targets().await {
            Ok(targets) => context.follow(targets, &mut runners, &mut tasks),
            Err(error) => tracing::warn!(%error, "cannot read push targets, retrying"),
        }
        while tasks.try_join_next().is_some() {}
        tokio::select! {
            () = &mut shutdown => break,
            () = tokio::time::sleep(limits::PUSH_TARGETS_EVERY) => {}
        }
    }
    for runner in runners.values() {
        runner.stop.cancel();
    }
    while tasks.join_next().await.is_some() {}
}

impl PushContext {
    /// Starts and stops workers to match the targets.
    fn follow(&self, targets: PushTargets, runners: &mut BTreeMap<PushKey, Runner>, tasks: &mut JoinSet<()>) {
        runners.retain(|whose, runner| {
            // A worker with the same concurrency continues: another address or time limit applies from its next job on.
            let stays = targets.get(whose).is_some_and(|push| {
                push.concurrency == runner.concurrency && push.durable == runner.is_durable
            });
            if !stays {
                runner.stop.cancel();
            }
            stays
        });
        for (whose, push) in &targets {
            if !runners.contains_key(whose) {
                let stop = CancellationToken::new();
                let runner = Runner { concurrency: push.concurrency, is_durable: push.durable, stop };
                tasks.spawn(self.clone().work(whose.clone(), push.clone(), runner.stop.clone()));
                runners.insert(whose.clone(), runner);
            }
        }
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    /// Runs a worker for one target until it is stopped.
    async fn work(self, whose: PushKey, push: Push, stop: CancellationToken) {
        let (name, tenant) = &whose;
        // A queue's name may be as long as that of a worker, which is only shown.
        let shown: String = format!("push {name}").chars().take(NAME_CHARS_MAX).collect();
        // The outcome of a durable job may submit others.
        let role = if push.durable { Role::App } else { Role::Worker };
        let caller = Caller { kind: "system", ..Caller::new("windlass.push", role, tenant.clone()) };
        let client = Client::from_store_without_maintenance(self.store.clone()).as_caller(caller);
        while !stop.is_cancelled() {
            let (context, of) = (self.clone(), whose.clone());
            let worker = Worker::new(&client)
                .name(&shown)
                .version(env!("CARGO_PKG_VERSION"))
                .queue(name.as_str(), push.concurrency as usize)
                .drain(limits::CALL_DRAIN_MAX)
                .grace(limits::CALL_GRACE)
                .handle_any(move |cx| {
                    let (context, of) = (context.clone(), of.clone());
                    async move { context.push(&of, &cx).await }
                });
            if let Err(error) = worker.run_until(stop.cancelled()).await {
                tracing::error!(%error, queue = %name, "push worker failed, restarting");
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(limits::CALL_ERROR_PAUSE) => {}
                }
            }
        }
    }

    fn target(&self, whose: &PushKey) -> Option<Push> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).get(whose).cloned()
    }

    /// Pushes one job; its result is the response's body if that is JSON.
    async fn push(&self, whose: &PushKey, cx: &Cx) -> anyhow::Result<Option<Box<RawValue>>> {
        // The target was cleared while the job was claimed: leave it to other workers.
        let Some(push) = self.target(whose) else { return Err(Snooze(limits::PUSH_TARGETS_EVERY).into()) };
        let environment = self.store.environment();
        let now = environment.clock.now();
        let bytes = if push.durable {
            durable::claim_body(&self.store, cx.client().caller(), cx).await?
        } else {
            Bytes::from(cx.payload().bytes.to_vec())
        };
        // Signed for the owner of the target: a target for all tenants must not need every tenant's secret.
        let endpoint = Endpoint::new(Purpose::Push, &push.url)
            .map_err(|error| outcome::of_error(&push.url, &CallError::Refused(error)))?;
        let keys = self.signing.keys(whose.1.as_ref().unwrap_or(&Tenant::default()), &endpoint).await?;
        let id = cx.job_id().to_string();
        let message = Message { id: &id, at: now, event: EVENT, endpoint: &endpoint, body: &bytes };
        let mut headers = signature::sign(message, facts(cx, &push, now), &keys);
        // Not signed, because intermediaries may add to them.
        for (name, value) in [("tracestate", cx.tracestate()), ("baggage", cx.baggage())] {
            // Many servers refuse longer lines, which would fail the job.
            let value =
                value.filter(|value| value.len() <= limits::PUSH_HEADER_BYTES_MAX && value.is_ascii());
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let call = Call {
            url: &push.url,
            headers,
            body: bytes,
            time_max: push.time_max(),
            answer_bytes_max: Some(answer_bytes_max(&push, environment.options.payload_bytes_max)),
        };
        let watch = Stopwatch::start();
        let answer = tokio::select! {
            answer = self.client.call(call) => answer,
            () = cx.cancelled() => return Err(Failure::temporary("stopped during the call").into()),
        };
        let deliveries = &environment.metrics.deliveries;
        deliveries.add(DeliveryKind::Push, outcome::of_delivery(&answer), watch.elapsed());
        let answer = answer.map_err(|error| outcome::of_error(&push.url, &error))?;
        outcome::of_answer(&push.url, &answer, environment.clock.now())?;
        match answer.body {
            Body::Whole(body) if push.durable && durable::is_outcome(answer.content_type.as_ref()) => {
                durable::finish(cx, &body).await?;
                Ok(None)
            }
            Body::Unread => Ok(None),
            Body::Whole(body) => Ok(serde_json::from_slice(&body).ok()),
            Body::TooLong => {
                let limit = environment.options.payload_bytes_max;
                let problem =
                    format!("the job was done, but its result exceeds {limit} bytes: respond with less");
                Err(Failure::permanent("result_too_large", problem).into())
            }
        }
    }
}

/// How much of a response is read: a result, or an outcome with as much in checkpoints.
fn answer_bytes_max(push: &Push, payload_bytes_max: usize) -> usize {
    if push.durable { payload_bytes_max * 2 + limits::ENVELOPE_BYTES } else { payload_bytes_max }
}

/// Headers with job data besides the payload.
fn facts(cx: &Cx, push: &Push, now: Timestamp) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let plain = HeaderValue::from_str(if push.durable { durable::CLAIM } else { &cx.payload().content_type });
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, plain.unwrap_or(unknown));
    let mut add = |name: &'static str, value: String| {
        headers.insert(HeaderName::from_static(name), visible(&value));
    };
    add("windlass-job-id", cx.job_id().to_string());
    add("windlass-job-type", cx.job_type().to_string());
    add("windlass-queue", cx.queue_name().to_string());
    add("windlass-tenant", cx.tenant().to_string());
    add("windlass-attempt", cx.attempt().to_string());
    add("windlass-fence", cx.fence().0.to_string());
    add("windlass-time", now.to_string());
    if let Some(key) = cx.submitted_key() {
        add("windlass-idempotency-key", key.to_owned());
    }
    if let Some(traceparent) = cx.traceparent() {
        add("traceparent", traceparent.to_owned());
    }
    headers
}

/// Text for a header: percent-encodes `%` and everything but visible ASCII.
fn visible(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    HeaderValue::try_from(encoded).expect("visible ASCII is a valid header value")
}
