//! Servers that restart, crash, and are replaced by their standby. Callers wait; what was answered stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use windlass::error::OpenError;
use windlass::store::Store;
use windlass::store::environment::StoreOptions;

use super::{LONG, numbers, open, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at};

/// Restarts under load.
const RESTARTS: usize = 20;

/// Submits numbered jobs until told to stop; says how many were answered.
async fn load(store: Store, stop: Arc<AtomicBool>, count: Arc<AtomicUsize>) {
    while !stop.load(Ordering::SeqCst) {
        submit(&store, count.load(Ordering::SeqCst)).await;
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// M100: whoever submits during a restart waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_under_load_loses_nothing_and_fails_nobody() {
    let cluster = Arc::new(Cluster::start(&[]));
    let store = open(&schema_at(&cluster.address()));
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let submitting = tokio::spawn(load(store.clone(), stop.clone(), count.clone()));
    for restart in 0..RESTARTS {
        let (cluster, how) = (cluster.clone(), if restart % 2 == 0 { "fast" } else { "immediate" });
        let before = count.load(Ordering::SeqCst);
        tokio::task::spawn_blocking(move || cluster.restart(how)).await.unwrap();
        let more = async {
            while count.load(Ordering::SeqCst) <= before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, more).await.expect("work goes on after a restart");
    }
    stop.store(true, Ordering::SeqCst);
    submitting.await.expect("every submission was answered");
    assert_eq!(numbers(&store).await, (0..count.load(Ordering::SeqCst)).collect::<Vec<_>>());
    verify(&store).await;
    store.close();
}

/// M100: with a synchronous standby, what was answered survives the loss of the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_over_has_everything_that_was_answered() {
    let primary = Cluster::start(&[]);
    let standby = primary.standby();
    primary.set("synchronous_standby_names", "*");
    let hosts = format!("{}&host={}", primary.folder().display(), standby.folder().display());
    let address = schema_at(&format!(
        "postgres:///postgres?user=windlass&host={hosts}&target_session_attrs=read-write"
    ));
    let store = open(&address);
    let alone = address.replace(&hosts, &standby.folder().display().to_string());
    let alone = alone.replace("&target_session_attrs=read-write", "");
    let refused = Store::open(&alone, StoreOptions::default()).err();
    assert_eq!(refused, Some(OpenError::Standby), "nothing is claimed on a standby");
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let submitting = tokio::spawn(load(store.clone(), stop.clone(), count.clone()));
    while count.load(Ordering::SeqCst) < 50 {
        tokio::task::yield_now().await;
    }
    let before = tokio::task::spawn_blocking(move || {
        primary.crash();
        standby.promote();
        (primary, standby)
    });
    let clusters = before.await.unwrap();
    let reached = count.load(Ordering::SeqCst);
    let more = async {
        while count.load(Ordering::SeqCst) < reached + 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, more).await.expect("work goes on after the failover");
    stop.store(true, Ordering::SeqCst);
    submitting.await.expect("every submission was answered");
    assert_eq!(numbers(&store).await, (0..count.load(Ordering::SeqCst)).collect::<Vec<_>>());
    verify(&store).await;
    store.close();
    drop(clusters);
}
