//! Outgoing calls: callbacks for final jobs, messages of alerts, and jobs of queues with a push target, which are
//! posted to its URL. Receivers are not trusted: targets are checked, and responses are limited. Redirects are not
//! followed, proxies from the environment are not used, and responses are not stored, except as a job's own result or,
//! from a durable target, as the outcome.

pub mod alert;
pub mod callback;
pub mod client;
mod durable;
pub mod outcome;
pub mod push;
pub mod resolve;
pub mod signature;
pub mod signing_keys;

use std::future::Future;

use tokio_util::sync::CancellationToken;
use windlass::Store;

pub use client::WebhookClient;

/// Delivers callbacks and messages of alerts, and pushes jobs, until `shutdown` completes; then running calls have a
/// short time to finish, and their jobs are released otherwise.
pub async fn run(store: Store, client: WebhookClient, shutdown: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let stopping = async {
        shutdown.await;
        stop.cancel();
    };
    let callbacks = callback::run(store.clone(), client.clone(), stop.cancelled());
    let pushes = push::run(store, client, stop.cancelled());
    tokio::join!(stopping, callbacks, pushes);
}
