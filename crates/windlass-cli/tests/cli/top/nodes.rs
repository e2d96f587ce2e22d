//! `windlass bench --nodes --rtt`: every combination returns its figures, and neither processes nor data are left behind,
//! however it ends.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use windlass_testkit::cluster::Cluster;
use windlass_testkit::{PATIENCE, windlass};

const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'windlass_bench_%'";
const CONNECTIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'windlass'";

#[tokio::test]
async fn every_combination_of_nodes_and_round_trip_is_measured() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let store = cluster.address();
    let command =
        ["bench", "--quick", "--json", "--store", &store, "--nodes", "1,2", "--rtt", "0", "--rtt", "2.5ms"];
    let done = windlass(&command).output().await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    for (nodes, rtt) in [(1, 0.0), (2, 0.0), (1, 2.5), (2, 2.5)] {
        let of = |what: &str| {
            let is_it = |figure: &&Value| {
                figure["nodes"] == nodes
                    && figure["rtt_ms"] == rtt
                    && figure["what"].as_str().unwrap().contains(what)
            };
            let found = figures.iter().find(is_it);
            found.unwrap_or_else(|| panic!("{nodes} nodes, {rtt} ms: no figure of {what} in {report}"))
        };
        assert!(of("round trip of SELECT 1")["p50_ms"].as_f64().unwrap() >= rtt, "{report}");
        assert!(of("plain INSERT one by one")["per_second"].as_f64().unwrap() > 0.0, "{report}");
        let submitted = of("submit one by one");
        for field in ["per_second", "floor_per_second", "ratio", "p50_ms", "p99_ms"] {
            assert!(submitted[field].as_f64().unwrap() > 0.0, "{submitted}");
        }
        let drained = of("drained through handlers");
        assert!(drained["per_second"].as_f64().unwrap() > 0.0, "{drained}");
        assert_eq!(drained["ratio"].is_number(), nodes == 2, "beside the first number of nodes: {drained}");
        // A commit takes a round trip at least before another node can see it.
        assert!(of("pick-up by idle workers")["p50_ms"].as_f64().unwrap() > rtt, "{report}");
    }
    assert_eq!(figures.len(), 2 * 5 + 2 * 6, "{report}");
    assert_eq!(cluster.query(SCHEMAS), "0");
}

/// Starts a long benchmark, and returns when its nodes work.
async fn started(cluster: &Cluster) -> Child {
    let store = cluster.address();
    let mut command = windlass(&["bench", "--store", &store, "--nodes", "2", "--rtt", "1ms"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().expect("it continues").contains("plain INSERT") {}
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    child
}

async fn no_connection_is_left(cluster: &Cluster) {
    let gone = async {
        while cluster.query(CONNECTIONS) != "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("all nodes end");
}

#[tokio::test]
async fn an_interrupted_benchmark_leaves_nothing_and_the_nodes_of_a_killed_one_end() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let mut child = started(&cluster).await;
    let id = child.id().unwrap().to_string();
    Command::new("kill").args(["-INT", &id]).status().await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(1));
    assert_eq!(cluster.query(SCHEMAS), "0");
    no_connection_is_left(&cluster).await;
    started(&cluster).await.kill().await.unwrap();
    no_connection_is_left(&cluster).await;
}

#[tokio::test]
async fn several_nodes_need_postgresql_and_have_limits() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let store = cluster.address();
    let (hosts, many) = (format!("{store}&host=/other"), vec!["1"; 65].join(","));
    for (arguments, why) in [
        (&["--nodes", "2"][..], "postgres://"),
        (&["--rtt", "1ms"], "postgres://"),
        (&["--nodes", "2", "--store", "sqlite:jobs.db"], "postgres://"),
        (&["--nodes", "2", "--server", "http://127.0.0.1:1"], "--server"),
        (&["--nodes", "0", "--store", &store], "from 1 to 64"),
        (&["--nodes", "65", "--store", &store], "from 1 to 64"),
        (&["--rtt", "1001ms", "--store", &store], "more than 1s"),
        (&["--rtt", "soon", "--store", &store], "not a duration"),
        (&["--nodes", &many, "--store", &store], "65 combinations"),
        (&["--rtt", "1ms", "--store", &hosts], "several hosts"),
        (&["--nodes", "64", "--store", &store], "max_connections"),
    ] {
        let refused = windlass(&[&["bench"], arguments].concat()).output().await.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    assert_eq!(cluster.query(SCHEMAS), "0");
}
