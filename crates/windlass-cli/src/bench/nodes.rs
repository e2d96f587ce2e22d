//! `windlass bench --nodes --rtt`: what more nodes, and more distance to PostgreSQL, cost. Each node is a process; a
//! proxy adds the distance.

mod child;
mod link;
mod process;
mod protocol;
#[cfg(not(target_os = "linux"))]
#[path = "nodes/no_proxy.rs"]
mod proxy;
#[cfg(target_os = "linux")]
mod proxy;
mod scratch;

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass::bench::endpoint::Endpoint;
use windlass::bench::node::{CallTimes, Coordinator};
use windlass::bench::{Figure, Times};

pub(crate) use self::child::be_a_node;
use self::link::Link;
use self::process::Nodes;
use self::protocol::Order;
use self::scratch::Scratch;
use crate::error::Failure;
use crate::limits::BENCH_NODE_REPLY_MAX;

/// Concurrent callers of each node.
const CALLERS: usize = 4;
/// Jobs that each node runs at once.
const SLOTS: usize = 50;
/// Pause between single jobs, so that the nodes are idle again: this, and so many round trips.
const IDLE: Duration = Duration::from_millis(20);
const IDLE_ROUND_TRIPS: u32 = 4;
/// So many round trips are added to the time of a drain, so that some jobs finish at any distance.
const DRAIN_ROUND_TRIPS: u32 = 20;

/// What to measure.
pub(crate) struct Combinations {
    pub(crate) nodes: Vec<usize>,
    /// Time added to each round trip.
    pub(crate) rtts: Vec<Duration>,
    /// Size of a payload in bytes.
    pub(crate) payload: usize,
    pub(crate) is_quick: bool,
}

impl Combinations {
    /// Duration of each timed workload.
    fn time(&self) -> Duration {
        Duration::from_secs(if self.is_quick { 1 } else { 4 })
    }

    fn backlog(&self) -> usize {
        if self.is_quick { 10_000 } else { 100_000 }
    }
}

/// Measures every combination on the PostgreSQL at an address. Reports each figure as it is measured.
pub(crate) async fn measure(
    address: &str,
    combinations: &Combinations,
    report: &mut dyn FnMut(Figure),
) -> anyhow::Result<()> {
    if combinations.rtts.iter().any(|rtt| !rtt.is_zero()) {
        refuse_proxy(address)?;
    }
    let most = combinations.nodes.iter().copied().max().unwrap_or(1);
    scratch::refuse_too_many(address, most).await?;
    let mut interruption = Interruption::listen()?;
    for &rtt in &combinations.rtts {
        let mut first_drain = None;
        for &nodes in &combinations.nodes {
            let millis = rtt.as_secs_f64() * 1_000.0;
            let plural = if nodes == 1 { "" } else { "s" };
            let mut report = |figure: Figure| {
                let what = format!("{nodes} node{plural}, rtt {millis} ms: {}", figure.what);
                report(Figure { what, nodes: Some(nodes), rtt_ms: Some(millis), ..figure });
            };
            let scratch = Scratch::create(address).await?;
            let one = Combination { combinations, nodes, rtt };
            let measured = tokio::select! {
                biased;
                interrupted = interruption.wait() => interrupted,
                measured = one.measure(&scratch, &mut first_drain, &mut report) => measured,
            };
            let removed = scratch.remove().await.context("the schemas of the benchmark could not be removed");
            match (measured, removed) {
                (Err(why), Err(left)) => return Err(left.context(format!("{why:#}"))),
                (measured, removed) => measured.and(removed)?,
            }
        }
    }
    Ok(())
}

/// Fails if no proxy can be put in front of the database.
fn refuse_proxy(address: &str) -> anyhow::Result<()> {
    if cfg!(not(target_os = "linux")) {
        return Err(Failure::usage("--rtt needs Linux, whose timers are precise enough"));
    }
    Endpoint::from_address(address).map_err(|error| Failure::usage(format!("--rtt: {error}")))?;
    Ok(())
}

/// The signals that end the process. They are awaited before there is any data, so that it is removed in any case.
struct Interruption([Signal; 3]);

impl Interruption {
    fn listen() -> anyhow::Result<Interruption> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hang_up] = kinds.map(signal);
        Ok(Interruption([interrupt?, terminate?, hang_up?]))
    }

    /// Returns an error when one arrives.
    async fn wait(&mut self) -> anyhow::Result<()> {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        anyhow::bail!("interrupted")
    }
}

/// One combination.
struct Combination<'a> {
    combinations: &'a Combinations,
    nodes: usize,
    rtt: Duration,
}

impl Combination<'_> {
    async fn measure(
        &self,
        scratch: &Scratch,
        first_drain: &mut Option<f64>,
        report: &mut dyn FnMut(Figure),
    ) -> anyhow::Result<()> {
        // The store is created before nodes open it.
        let coordinator = Coordinator::open(&scratch.store).await?;
        let link = Link::start(scratch, self.rtt)?;
        link.round_trips(scratch, report).await?;
        let payload = self.combinations.payload;
        let open = Order::Open { store: link.store.clone(), plain: link.plain.clone(), payload };
        let mut nodes = Nodes::start(self.nodes, &open).await?;
        self.submit(&mut nodes, report).await?;
        let drained = self.drain(&mut nodes, &coordinator).await?;
        let what = format!("drained through handlers that do nothing, {SLOTS} at once in each");
        report(Figure::new("drain", what).rate(drained).beside(*first_drain));
        first_drain.get_or_insert(drained);
        self.pick_up(&mut nodes, &coordinator, report).await?;
        nodes.end().await?;
        coordinator.close();
        Ok(())
    }

    /// Submissions one by one beside inserts one by one.
    async fn submit(&self, nodes: &mut Nodes, report: &mut dyn FnMut(Figure)) -> anyhow::Result<()> {
        let time = self.combinations.time();
        nodes.order(|_| Order::Insert { time }).await?;
        nodes.go().await?;
        let (inserted, inserts) = sum(&nodes.measured(time).await?);
        let what = format!("plain INSERT one by one, {CALLERS} connections each");
        report(Figure::new("submit", what).rate(inserted).times(inserts));
        nodes.order(|_| Order::Submit { time }).await?;
        nodes.go().await?;
        let (submitted, submits) = sum(&nodes.measured(time).await?);
        let what = format!("submit one by one, {CALLERS} callers each, beside plain INSERT");
        report(Figure::new("submit", what).rate(submitted).times(submits).beside(Some(inserted)));
        Ok(())
    }

    /// A backlog, handled by the workers of all nodes; the rate.
    async fn drain(&self, nodes: &mut Nodes, coordinator: &Coordinator) -> anyhow::Result<f64> {
        coordinator.prepare(self.combinations.backlog(), self.combinations.payload).await?;
        nodes.order(|_| Order::Work).await?;
        nodes.go().await?;
        self.await_workers(coordinator).await?;
        let time = self.combinations.time() + self.rtt * DRAIN_ROUND_TRIPS;
        let drained = coordinator.drain(time).await?;
        nodes.stop().await?;
        Ok(drained)
    }

    /// Single jobs of the first node, picked up by the idle workers of all.
    async fn pick_up(
        &self,
        nodes: &mut Nodes,
        coordinator: &Coordinator,
        report: &mut dyn FnMut(Figure),
    ) -> anyhow::Result<()> {
        let time = self.combinations.time();
        let pause = IDLE + self.rtt * IDLE_ROUND_TRIPS;
        nodes.order(|index| Order::PickUp { pause: (index == 0).then_some(pause), time }).await?;
        self.await_workers(coordinator).await?;
        nodes.go().await?;
        nodes.await_first(time).await?;
        within(coordinator.await_pings()).await?;
        let (_, picked_up) = sum(&nodes.stop().await?);
        let what = "pick-up by idle workers of all nodes: submit on one to handler";
        report(Figure::new("pick-up", what).times(picked_up));
        Ok(())
    }

    async fn await_workers(&self, coordinator: &Coordinator) -> anyhow::Result<()> {
        within(coordinator.await_workers(self.nodes)).await
    }
}

/// On a thread that may block: connections without Windlass are driven by their owner.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

async fn within(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let done = tokio::time::timeout(BENCH_NODE_REPLY_MAX, work).await;
    done.with_context(|| format!("the nodes did nothing within {BENCH_NODE_REPLY_MAX:?}"))?
}

/// The rate of all nodes together, and the times of all.
fn sum(measured: &[CallTimes]) -> (f64, Times) {
    let rate = measured.iter().map(CallTimes::rate).sum();
    (rate, Times::new(measured.iter().flat_map(CallTimes::times).collect()))
}
