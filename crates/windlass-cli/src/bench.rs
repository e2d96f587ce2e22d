//! `windlass bench`: the benchmark workloads, on a store or on a server. The workloads of a store are in the library
//! (`windlass::bench`), so that `cargo bench` runs the same code; those of a server are here.

mod connection;
mod dashboard;
mod dataset;
mod environment;
mod http;
mod idle;
mod nodes;

use std::time::Duration;

use windlass::Store;
use windlass::bench::handlers::{self, Plan};
use windlass::bench::{Baseline, BenchWorker, Figure, postgres_floor, sqlite_floor, workflow};
use windlass::store::StoreOptions;
use windlass::store::caller::Caller;

use self::connection::BenchServer;
pub(crate) use self::environment::{ChildServer, Folder};
pub(crate) use self::nodes::{Combinations, be_a_node, measure as nodes};

/// The size of the workloads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Number of jobs for throughput figures.
    pub(crate) jobs: usize,
    /// Number of single jobs for latency figures.
    pub(crate) rounds: usize,
    /// Size of the backlog; 0 skips those figures.
    pub(crate) backlog: usize,
    /// Duration of timed figures.
    pub(crate) time: Duration,
    /// Size of a payload in bytes.
    pub(crate) payload: usize,
}

/// Concurrent submitters.
const CALLERS: usize = 32;
/// Jobs that a worker runs at once.
const CONCURRENCY: usize = 100;

/// Benchmarks the store at an address; `floor` is a folder for the raw SQLite baseline. The raw PostgreSQL baseline uses
/// its own schema, which is dropped afterwards.
pub(crate) async fn store(
    address: &str,
    floor: Option<&Folder>,
    size: Size,
    report: &mut dyn FnMut(Figure),
) -> anyhow::Result<()> {
    let floor = match floor {
        Some(folder) => Some(sqlite_floor::measure(folder.path(), u32::try_from(size.jobs)?, size.payload)?),
        None if address.starts_with("postgres") => Some(bare_postgres(address, size.payload).await?),
        None => None,
    };
    let bench = BenchWorker::open(address, size.payload).await?;
    report(bench.submit_singly(size.jobs / 4, CALLERS).await?);
    report(bench.submit_batches(size.jobs).await?.beside(floor.map(|floor| floor.insert)));
    let drained = bench.drain(size.jobs / 4 + size.jobs, 4).await?;
    let work = floor.map(|floor| floor.claim_and_finish);
    report(Figure::new("drain", "claim(100) + finish, 4 callers").rate(drained).beside(work));
    report(bench.pick_up(size.rounds).await?);
    if address.starts_with("postgres") {
        report(bench.pick_up_remote(address, size.rounds).await?);
    }
    if size.backlog > 0 {
        bench.flatness(size.backlog, report).await?;
    }
    bench.close().await?;
    let plan = Plan { concurrency: CONCURRENCY, jobs: size.jobs, rounds: size.rounds, idle: size.time };
    handlers::measure(address, plan, report).await?;
    workflow::measure(address, size.jobs / 100, size.jobs / 20, report).await
}

/// On its own thread, which may block: the connection is driven by its owner.
async fn bare_postgres(address: &str, payload: usize) -> anyhow::Result<Baseline> {
    let address = address.to_owned();
    Ok(tokio::task::spawn_blocking(move || postgres_floor::measure(&address, payload)).await??)
}

/// Benchmarks a server over HTTP.
pub(crate) async fn server(
    url: &str,
    key: Option<String>,
    size: Size,
    report: &mut dyn FnMut(Figure),
) -> anyhow::Result<()> {
    let target = BenchServer::parse(url, key)?;
    let mut report = |figure: Figure| report(Figure { what: format!("{} over HTTP", figure.what), ..figure });
    http::singles(&target, size.time, size.payload).await?.into_iter().for_each(&mut report);
    report(http::batches(&target, size.jobs, size.payload).await?);
    // The worker drains the jobs that were just submitted.
    let plan = Plan { concurrency: CONCURRENCY, jobs: 0, rounds: size.rounds, idle: Duration::ZERO };
    handlers::measure(&target.store_address(), plan, &mut report).await?;
    idle::idle(&target, size.time).await?.into_iter().for_each(&mut report);
    Ok(())
}

/// Benchmarks the dashboard with this many jobs, on a server started on the store at an address; each page is requested
/// several times.
pub(crate) async fn dashboard(
    address: &str,
    (jobs, rounds): (usize, usize),
    report: &mut dyn FnMut(Figure),
) -> anyhow::Result<()> {
    dashboard::measure(address, jobs, rounds, report).await
}

/// Whether a store has jobs already.
pub(crate) async fn store_has_jobs(address: &str) -> anyhow::Result<bool> {
    // Only reads: on PostgreSQL commit times never go back, and the store is filled with past times.
    let store = Store::open(address, StoreOptions::default())?;
    let stats = store.stats(&Caller::local()).await;
    store.close();
    Ok(stats?.states.values().sum::<u64>() > 0)
}

/// Whether a server has jobs already.
pub(crate) async fn server_has_jobs(url: &str, key: Option<String>) -> anyhow::Result<bool> {
    idle::has_jobs(&BenchServer::parse(url, key)?).await
}
