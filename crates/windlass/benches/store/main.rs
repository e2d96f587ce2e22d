//! How fast the store is, with every answer on disk: on SQLite beside what bare SQLite does with the same columns and the
//! same disk writes, or, with `-- --postgres`, on a PostgreSQL server of its own. The workloads are those of
//! `windlass bench`; this runs them on a server that it starts itself, and under a profiler.
//!
//! `cargo bench -p windlass --bench store` runs all of it; `-- --quick` leaves out the million-job backlogs, `-- --drain`
//! only drains and `-- --handlers` only handles, for a profiler; `-- --pick-up` only picks up single jobs; `-- --limits` only shows what large
//! backlogs and blocked jobs cost others, `-- --blocked` the latter alone.

#[path = "../../../windlass-testkit/src/cluster.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use more of it")]
mod cluster;
mod fleet;
mod place;
/// Where the tests take a disk in memory, a real one is measured.
mod store_folder {
    pub(crate) fn store_folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder for the server")
    }
}

use std::time::Duration;

use windlass::bench::handlers::{self, Plan};
use windlass::bench::limited::HeldBack;
use windlass::bench::{BenchWorker, Figure, figure, postgres_floor, sqlite_floor};

const MILLION: usize = 1_000_000;

/// What was measured so far.
#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    fn report(&mut self, figure: Figure) {
        eprintln!("{} {}: {} {}", figure.workload, figure.what, figure.value(), figure.beside_what());
        self.0.push(figure);
    }
}

fn main() -> anyhow::Result<()> {
    let is_asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    // Cargo also starts this when it only lists or checks benches.
    if is_asked("--list") || is_asked("--test") {
        return Ok(());
    }
    let worker = std::env::args().skip_while(|argument| argument != fleet::WORK).nth(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Figures::default();
    if let Some(address) = worker {
        return runtime.block_on(fleet::work(&address));
    }
    runtime.block_on(async {
        if is_asked("--fleet") {
            return fleet(&mut figures).await;
        }
        if is_asked("--pick-up") {
            return pick_up(&mut figures).await;
        }
        if is_asked("--drain") {
            return drain_only().await;
        }
        if is_asked("--handlers") {
            handle(&mut figures, 50).await?;
            return handle(&mut figures, 100).await;
        }
        if !is_asked("--limits") && !is_asked("--blocked") {
            for payload in [100, 1024] {
                submit_and_drain(&mut figures, payload).await?;
            }
            pick_up(&mut figures).await?;
            handle(&mut figures, 50).await?;
            handle(&mut figures, 100).await?;
            fleet(&mut figures).await?;
        }
        if !is_asked("--quick") && !is_asked("--blocked") {
            flatness(&mut figures).await?;
        }
        if !is_asked("--quick") {
            blocked(&mut figures).await?;
        }
        anyhow::Ok(())
    })?;
    print!("{}", figure::table(&figures.0));
    Ok(())
}

async fn pick_up(figures: &mut Figures) -> anyhow::Result<()> {
    let (_files, address) = place::new();
    let bench = BenchWorker::open(&address, 100).await?;
    figures.report(bench.pick_up(500).await?);
    figures.report(bench.pick_up_remote(&address, 500).await?);
    bench.close().await
}

async fn with_new_store(
    payload: usize,
    measure: impl AsyncFnOnce(&BenchWorker) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (_files, address) = place::new();
    let bench = BenchWorker::open(&address, payload).await?;
    measure(&bench).await?;
    bench.close().await
}

async fn submit_and_drain(figures: &mut Figures, payload: usize) -> anyhow::Result<()> {
    let floor = if place::is_postgres() {
        let (_files, address) = place::new();
        std::thread::spawn(move || postgres_floor::measure(&address, payload))
            .join()
            .map_err(|_| anyhow::anyhow!("the floor could not be measured"))??
    } else {
        sqlite_floor::measure(tempfile::tempdir_in(".")?.path(), 200_000, payload)?
    };
    let (insert, work) = (Some(floor.insert), Some(floor.claim_and_finish));
    with_new_store(payload, async |bench| {
        let submitted = bench.submit_batches(300_000).await?.beside(insert);
        figures.report(Figure { what: format!("{}, {payload} B", submitted.what), ..submitted });
        for (jobs, callers) in [(200_000, 4), (90_000, 1)] {
            let drained = bench.drain(jobs, callers).await?;
            let what = format!("claim(100) + finish, {callers} callers, {payload} B");
            figures.report(Figure::new("drain", what).rate(drained).beside(work));
        }
        Ok(())
    })
    .await?;
    with_new_store(payload, async |bench| {
        let submitted = bench.submit_singly(60_000, 32).await?;
        figures.report(Figure { what: format!("{}, {payload} B", submitted.what), ..submitted });
        Ok(())
    })
    .await
}

async fn handle(figures: &mut Figures, concurrency: usize) -> anyhow::Result<()> {
    let (_files, address) = place::new();
    let plan = Plan { concurrency, jobs: 200_000, rounds: 500, idle: Duration::from_secs(10) };
    handlers::measure(&address, plan, &mut |figure| figures.report(figure)).await
}

/// Whether several worker processes are worse than one.
async fn fleet(figures: &mut Figures) -> anyhow::Result<()> {
    for processes in [1, 4] {
        figures.report(fleet::measure(processes).await?);
    }
    Ok(())
}

async fn flatness(figures: &mut Figures) -> anyhow::Result<()> {
    with_new_store(100, async |bench| bench.flatness(MILLION, &mut |figure| figures.report(figure)).await)
        .await
}

async fn blocked(figures: &mut Figures) -> anyhow::Result<()> {
    for how in HeldBack::ALL {
        with_new_store(100, async |bench| {
            figures.report(bench.beside(how).await?);
            Ok(())
        })
        .await?;
    }
    with_new_store(100, async |bench| {
        figures.report(bench.fairness(MILLION).await?);
        Ok(())
    })
    .await
}

async fn drain_only() -> anyhow::Result<()> {
    with_new_store(100, async |bench| {
        bench.submit_batches(500_000).await?;
        eprintln!("drain {:.0}/s", bench.drain(480_000, 4).await?);
        Ok(())
    })
    .await
}
