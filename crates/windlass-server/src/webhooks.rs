//! Outgoing calls: callbacks for final jobs, and push queues whose jobs are posted to a URL. Receivers are not trusted:
//! targets are checked, and responses are limited. Redirects are not followed, proxies from the environment are not used,
//! and responses are not shown, except as a job's own result.

pub mod callback;
pub mod client;
pub mod outcome;
pub mod push;
pub mod resolve;
pub mod signature;
pub mod signing_keys;

use std::future::Future;

use tokio_util::sync::CancellationToken;
use windlass::Store;

pub use client::WebhookClient;

/// Delivers callbacks and pushes jobs until `shutdown` completes; then running calls have a short time to finish, and their
/// jobs are released otherwise.
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
