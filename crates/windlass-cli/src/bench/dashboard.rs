//! The dashboard with many jobs: the time and size of each page, and the effect of ten open dashboards on claims.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass::Store;
use windlass::bench::{BenchWorker, Figure, Times};
use windlass::clock::Stopwatch;
use windlass::job::{JobId, JobState};
use windlass::store::caller::Caller;
use windlass::store::{Filter, ListRequest, NewWorker, Order, StoreOptions};

use super::connection::BenchServer;
use super::dataset;
use super::environment::ChildServer;

/// Dashboards open at once.
const OPEN: usize = 10;
/// How often claims are measured alone and with open dashboards, alternating, because the machine's speed varies.
const TURNS: usize = 3;
/// Connections that claim.
const CALLERS: usize = 4;

/// Lists with every filter and with several; `rare` jobs are among the oldest, `unknown` has none.
const LISTS: [&str; 28] = [
    "",
    "order=oldest",
    "cursor=0.0.ROW",
    "order=oldest&cursor=0.0.ROW",
    "state=completed",
    "state=completed&cursor=0.0.ROW",
    "state=scheduled",
    "state=scheduled&order=claim",
    "state=failed,dead_letter,retrying",
    "state=delayed,pending,waiting",
    "state=delayed&type=kind.3",
    "state=dead_letter&type=kind.3&queue=media",
    "state=completed&type=rare.kind",
    "type=kind.3",
    "type=rare.kind",
    "queue=media",
    "queue=rare-queue",
    "tenant=globex&state=suspended",
    "tag=region:north",
    "tag=region:north&state=dead_letter",
    "tag=customer:c42",
    "tag=customer:unknown",
    "owner=billing",
    "owner=unknown",
    "correlation_id=order-42",
    "created_before=2020-01-01",
    "created_after=2099-01-01",
    "id=ID",
];

/// The other pages.
const PAGES: [&str; 33] = [
    "/",
    "/?range=15m",
    "/?range=30d",
    "/?range=7d&compare=week",
    "/queues/media?range=30d&compare=week",
    "/errors",
    "/types/kind.3?range=7d",
    "/types/kind.3?range=30d",
    "/workers?sort=busy",
    "/types?sort=failed",
    "/schedules/new",
    "/alerts/new",
    "/queues/media/preview?max_running=1&max_running_per_key=1",
    "/tenants/globex/preview?max_running=1",
    "/alerts",
    "/jobs/new",
    "/jobs/new?type=kind.3",
    "/jobs?q=no.such.thing",
    "/jobs?q=abcdef12",
    "/workers/WORKER",
    "/queues",
    "/queues/media",
    "/types",
    "/types/kind.3",
    "/workers",
    "/schedules",
    "/dead",
    "/audit",
    "/audit?event=job.lifecycle.failed",
    "/audit?actor=unknown",
    "/audit?before=5000",
    "/tenants",
    "/settings",
];

/// Fills the store at an address, starts a server on it, requests each page several times, and measures.
pub(super) async fn measure(
    address: &str,
    jobs: usize,
    rounds: usize,
    report: &mut dyn FnMut(Figure),
) -> anyhow::Result<()> {
    dataset::fill(address, jobs).await?;
    let store = Store::open(address, StoreOptions::default())?;
    let examples = examples(&store).await?;
    let worker = NewWorker { name: "page".into(), concurrency: 1, heartbeats: false, ..NewWorker::default() };
    let worker = store.register(&Caller::local(), worker).await?.id.to_string();
    store.close();
    let server = ChildServer::start(address).await?;
    let target = BenchServer::parse(&server.url, None)?;
    for path in paths(&examples, &worker, jobs) {
        report(page(&target, &path, rounds).await?);
    }
    report(claims(&target, &examples, jobs / 20).await?);
    server.stop().await
}

/// A job in each state that has any.
async fn examples(store: &Store) -> anyhow::Result<Vec<(JobState, JobId)>> {
    let mut found = Vec::new();
    for state in JobState::ALL {
        let filter = Filter { states: vec![state], ..Filter::default() };
        let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: 1 };
        let page = store.list(&Caller::local(), request).await?;
        found.extend(page.jobs.first().map(|snapshot| (state, snapshot.job.id)));
    }
    Ok(found)
}

fn paths(examples: &[(JobState, JobId)], worker: &str, jobs: usize) -> Vec<String> {
    let middle = format!("{:x}", jobs / 2);
    let id = examples.first().map_or(String::new(), |(_, id)| id.to_string());
    let states = JobState::ALL.map(|state| format!("/jobs?state={state}"));
    let lists = LISTS.map(|list| format!("/jobs?{}", list.replace("ROW", &middle).replace("ID", &id[..13])));
    let pages = PAGES.map(|page| page.replace("WORKER", worker));
    let one = examples.iter().map(|(_, id)| format!("/jobs/{id}"));
    pages.into_iter().chain(lists).chain(states).chain(one).collect()
}

async fn page(target: &BenchServer, path: &str, rounds: usize) -> anyhow::Result<Figure> {
    let (mut link, request) = (target.connect().await?, target.request("GET", path, &[]));
    let first = link.exchange(&request).await?;
    anyhow::ensure!(first.status == 200, "GET {path}: status {}", first.status);
    let bytes = u32::try_from(first.body.len())?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let one = Stopwatch::start();
        link.exchange(&request).await?;
        times.push(one.elapsed());
    }
    Ok(Figure::new("pages", format!("GET {path}")).times(Times::new(times)).bytes(bytes.into()))
}

/// Claims alone and with open dashboards, alternating.
async fn claims(
    target: &BenchServer,
    examples: &[(JobState, JobId)],
    sample: usize,
) -> anyhow::Result<Figure> {
    let bench = BenchWorker::open(&target.store_address(), 100).await?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bench.fill(2 * sample, 1_000, &bench.job).await?;
        alone.push(bench.drain(sample, CALLERS).await?);
        let dashboards = open(target, examples).await?;
        beside.push(bench.drain(sample, CALLERS).await?);
        drop(dashboards);
    }
    bench.close().await?;
    let what = format!("claim(100) + finish over HTTP, {OPEN} dashboards open");
    Ok(Figure::new("pages", what).rate(median(beside)).beside(Some(median(alone))))
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// Opens dashboards on different pages, and waits until all of them listen. They close when dropped.
async fn open(
    target: &BenchServer,
    examples: &[(JobState, JobId)],
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let one = examples.first().map_or("/".to_owned(), |(_, id)| format!("/jobs/{id}"));
    let pages =
        ["/", "/jobs", "/jobs?state=running", "/queues", "/types", "/workers", "/dead", "/tenants", "/"];
    let pages = pages.map(str::to_owned).into_iter().chain([one]);
    let listening = Arc::new(Semaphore::new(0));
    let mut dashboards = JoinSet::new();
    for page in pages.take(OPEN) {
        dashboards.spawn(open_page(target.clone(), page, listening.clone()));
    }
    listening.acquire_many(u32::try_from(OPEN)?).await?.forget();
    Ok(dashboards)
}

/// One dashboard: requests its page on every notification of the stream, like the page's script.
async fn open_page(target: BenchServer, page: String, listening: Arc<Semaphore>) -> anyhow::Result<()> {
    let live = page.strip_prefix("/jobs/").map_or("/live".to_owned(), |id| format!("/live?job={id}"));
    let mut stream = target.connect().await?;
    stream.send(&target.request("GET", &live, &[])).await?;
    stream.until(b"event: ready").await?;
    listening.add_permits(1);
    let (mut link, request) = (target.connect().await?, target.request("GET", &page, &[]));
    loop {
        link.exchange(&request).await?.expect_success()?;
        stream.until(b"event: change").await?;
    }
}
