//! Calling out: callbacks when jobs end, and queues whose jobs are posted to a web address. Whoever is called is hostile
//! until proven otherwise: where calls go is guarded, and what comes back is bounded. It follows no redirects, uses no
//! proxy from the environment, and shows nobody what a receiver answered but for a job's own result.

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

/// Delivers callbacks and pushes jobs until `shutdown` is over; then what is under way has a moment to end, and is given
/// back otherwise.
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
