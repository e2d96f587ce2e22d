//! Resources of a server with a thousand idle event streams and a thousand waiting workers.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use windlass::bench::Figure;

use super::connection::{BenchServer, Connection};

/// Clients of each kind.
const CLIENTS: usize = 1_000;
/// How long a claim waits: the server's maximum.
const PARKED: &str = "60s";
/// How long to wait before measuring, so that connecting is not counted.
const SETTLE: Duration = Duration::from_secs(2);

/// Resources a process has used so far, from its metrics.
struct Usage {
    cpu_seconds: f64,
    resident_bytes: f64,
}

async fn used(target: &BenchServer) -> anyhow::Result<Usage> {
    let metrics = target.text("/metrics").await?;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<f64>().ok())
            .with_context(|| format!("the server does not report {name}: is it older than this program?"))
    };
    Ok(Usage {
        cpu_seconds: value("process_cpu_seconds_total")?,
        resident_bytes: value("process_resident_memory_bytes")?,
    })
}

/// Starts all clients, waits, and reads the resources the server used meanwhile.
pub(super) async fn idle(target: &BenchServer, time: Duration) -> anyhow::Result<Vec<Figure>> {
    let alone = used(target).await?;
    let mut links = listen(target).await?;
    let worker = json!({"name": "bench", "queues": ["bench-idle"], "types": ["bench.idle"], "concurrency": 1, "heartbeats": false});
    let mut workers = Vec::with_capacity(CLIENTS);
    let mut caller = target.connect().await?;
    for _ in 0..CLIENTS {
        let request = target.request("POST", "/api/v1/workers", &serde_json::to_vec(&worker)?);
        let registered = caller.exchange(&request).await?.json()?;
        workers.push(registered["worker_id"].as_str().context("no worker_id")?.to_owned());
    }
    for worker in &workers {
        let body = json!({"worker_id": worker, "limit": 1, "wait": PARKED});
        let mut link = target.connect().await?;
        link.send(&target.request("POST", "/api/v1/claims", &serde_json::to_vec(&body)?)).await?;
        links.push(link);
    }
    tokio::time::sleep(SETTLE).await;
    let before = used(target).await?;
    tokio::time::sleep(time).await;
    let after = used(target).await?;
    drop(links);
    for worker in workers {
        let request = target.request("DELETE", &format!("/api/v1/workers/{worker}"), &[]);
        caller.exchange(&request).await?.expect_success()?;
    }
    let percent = (after.cpu_seconds - before.cpu_seconds) / time.as_secs_f64() * 100.0;
    let what = format!("{CLIENTS} idle event streams and {CLIENTS} parked claims");
    Ok(vec![
        Figure::new("idle", what.clone()).percent(percent),
        Figure::new("idle", format!("{what}, memory")).bytes(after.resident_bytes),
        Figure::new("idle", "memory before them").bytes(alone.resident_bytes),
    ])
}

async fn listen(target: &BenchServer) -> anyhow::Result<Vec<Connection>> {
    let request = target.request("GET", "/api/v1/events", &[]);
    let mut links = Vec::with_capacity(CLIENTS * 2);
    for _ in 0..CLIENTS {
        let mut link = target.connect().await?;
        link.send(&request).await?;
        link.head().await?;
        links.push(link);
    }
    Ok(links)
}

/// Whether a server has other jobs.
pub(super) async fn has_jobs(target: &BenchServer) -> anyhow::Result<bool> {
    let answer = target.ask("GET", "/api/v1/stats", &Value::Null).await?;
    let states = answer["states"].as_object().context("no counts by state")?;
    Ok(states.values().filter_map(Value::as_u64).sum::<u64>() > 0)
}
