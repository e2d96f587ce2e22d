//! One server, killed without a word under load, again and again: whatever it answered with 201 is there when it is back.

use std::sync::Arc;

use serde_json::Value;
use windlass_testkit::cluster::new_schema;
use windlass_testkit::{PATIENCE, ServerProcess, store_in, windlass};

use super::load::{Acknowledged, ask, submit};

/// Kills by default; `WINDLASS_CRASH_CYCLES` says otherwise.
const KILLS: usize = 8;
/// Who submits at once, and what must be acknowledged before the next kill.
const CALLERS: usize = 8;
const ACKNOWLEDGED_BETWEEN: usize = 60;

async fn kill_under_load(store: &str) {
    let wanted = std::env::var("WINDLASS_CRASH_CYCLES").ok().and_then(|value| value.parse().ok());
    let mut ids = Vec::new();
    let start = || ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", store]));
    for kill in 0..wanted.unwrap_or(KILLS) {
        let served = start().await;
        let acknowledged = Arc::new(Acknowledged::default());
        let callers: Vec<_> =
            (0..CALLERS).map(|_| tokio::spawn(submit(served.address, acknowledged.clone()))).collect();
        // Each time at another moment of what continues.
        let enough = acknowledged.reaches(ACKNOWLEDGED_BETWEEN + 7 * (kill % 16));
        tokio::time::timeout(PATIENCE, enough).await.expect("it answers");
        served.kill().await;
        for caller in callers {
            caller.await.unwrap();
        }
        ids.extend(acknowledged.ids());
    }
    let served = start().await;
    for id in &ids {
        let found = ask(served.address, "GET", &format!("/jobs/{id}"), &Value::Null).await.unwrap();
        assert_eq!(found.status, 200, "{id} was acknowledged");
    }
    served.stop().await;
    let verified = windlass(&["verify", "--store", store]).output().await.unwrap();
    assert!(verified.status.success(), "{verified:?}");
    println!("{} acknowledged, all there", ids.len());
}

/// Model: at-least-once
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_has_all_it_acknowledged_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    kill_under_load(&store_in(folder.path())).await;
}

/// Model: at-least-once
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_has_all_it_acknowledged_on_postgres() {
    kill_under_load(&new_schema()).await;
}
