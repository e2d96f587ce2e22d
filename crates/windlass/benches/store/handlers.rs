//! Through handlers: jobs as types, a worker with many slots, handlers that do nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windlass::handler::State;
use windlass::queue::{Job, Queue};
use windlass::worker::Worker;

use crate::report::{Report, percentile};

#[derive(Clone, Serialize, Deserialize)]
struct Nothing {
    data: String,
}

impl Job for Nothing {
    const TYPE: &'static str = "bench.nothing";
    type Output = ();
}

/// How many were handled, and when the last was.
#[derive(Default)]
struct Seen {
    count: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
}

async fn nothing(_job: Nothing, State(seen): State<Arc<Seen>>) -> Result<(), std::convert::Infallible> {
    if seen.count.fetch_add(1, Ordering::Relaxed) + 1 == seen.wanted.load(Ordering::Relaxed) {
        seen.reached.notify_one();
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Drains through handlers, then picks up single jobs on the idle worker, then sits idle.
pub(crate) async fn measure(report: &mut Report, concurrency: usize) {
    let (_files, address) = crate::place::new();
    let queue = Queue::open(&address).await.expect("a new queue opens");
    let job = Nothing { data: "x".repeat(90) };
    let jobs = 200_000;
    for _ in 0..jobs / 1_000 {
        queue.submit_all(vec![job.clone(); 1_000]).await.expect("are taken");
    }
    let seen = Arc::new(Seen::default());
    seen.wanted.store(jobs, Ordering::Relaxed);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&queue).with(seen.clone()).queue("default", concurrency).handle(nothing);
    let (start, cpu) = (now(), cpu_ticks());
    let running = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
    seen.reached.notified().await;
    while !is_drained(&queue).await {}
    #[allow(clippy::cast_precision_loss)]
    let rate = jobs as f64 / start.elapsed().as_secs_f64();
    report.add(format!("W3 through handlers, {concurrency} at once, 100 B"), rate, None);
    // A tick is a hundredth of a second.
    #[allow(clippy::cast_precision_loss)]
    let cpu = (cpu_ticks() - cpu) as f64 * 10_000.0 / jobs as f64;
    report.push("W3 processor time per job".into(), format!("{cpu:.1} µs"), String::new());
    let (p50, p99) = pick_up(&queue, &seen, &job).await;
    report.add_times("W4 pick-up by an idle worker's handler".into(), p50, p99);
    let idle = idle_share().await;
    report.push("W10 idle worker".into(), format!("{idle:.2} % of a core"), String::new());
    stop.send(()).expect("the worker runs");
    running.await.expect("the worker ends").expect("the worker ends well");
    queue.close();
}

async fn is_drained(queue: &Queue) -> bool {
    let stats = queue.store().stats(queue.caller()).await.expect("is answered");
    stats.states.iter().all(|(state, count)| state.is_final() || *count == 0)
}

async fn pick_up(queue: &Queue, seen: &Seen, job: &Nothing) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..500 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        seen.wanted.store(seen.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let start = now();
        let submitted = async { drop(queue.submit(job.clone()).await.expect("is taken")) };
        tokio::join!(submitted, async {
            seen.reached.notified().await;
            times.push(start.elapsed());
        });
    }
    (percentile(&mut times, 0.5), percentile(&mut times, 0.99))
}

/// Share of a core that this process uses while nothing happens, in percent.
async fn idle_share() -> f64 {
    let before = cpu_ticks();
    tokio::time::sleep(Duration::from_secs(10)).await;
    #[allow(clippy::cast_precision_loss)]
    let ticks = (cpu_ticks() - before) as f64;
    // A tick is a hundredth of a second.
    ticks / 10.0
}

fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |at: usize| after_name.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok());
    field(11).unwrap_or(0) + field(12).unwrap_or(0)
}
