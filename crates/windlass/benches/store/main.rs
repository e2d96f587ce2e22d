//! How fast the store is, with every answer on disk: on SQLite beside what bare SQLite does with the same columns and the
//! same disk writes, or, with `-- --postgres`, on a PostgreSQL server of its own. Prints a table for `docs/performance.md`.
//!
//! `cargo bench -p windlass --bench store` runs all of it; `-- --quick` leaves out the million-job backlogs, `-- --drain`
//! only drains and `-- --handlers` only handles, for a profiler; `-- --limits` only shows what blocked jobs cost others.

#[path = "../../tests/it/fixture/cluster.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster;
mod floor;
mod handlers;
mod limits;
mod place;
mod report;
mod workload;

use report::Report;
use workload::Bench;

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    // Cargo also starts this when it only lists or checks benches.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    if std::env::args().any(|argument| argument == "--drain") {
        return drain_only();
    }
    if std::env::args().any(|argument| argument == "--handlers") {
        return handlers_only();
    }
    if std::env::args().any(|argument| argument == "--limits") {
        return limits_only();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut report = Report::default();
    for payload in [100, 1024] {
        // The floor is SQLite's; a server's has not been written yet.
        let floor = (!place::is_postgres()).then(|| floor::measure(payload));
        let (insert, work) =
            floor.map_or((None, None), |floor| (Some(floor.insert), Some(floor.claim_and_finish)));
        runtime.block_on(async {
            let bench = Bench::open(payload).await;
            let submit = bench.submit_batches(300_000, 1_000).await;
            report.add(format!("W2 submit, batches of 1000, {payload} B"), submit, insert);
            let drain = bench.drain(200_000, 4).await;
            report.add(format!("W3 claim(100)+finish, {payload} B"), drain, work);
            let one = bench.drain(90_000, 1).await;
            report.add(format!("W3 one caller, {payload} B"), one, work);
            bench.close();
            let bench = Bench::open(payload).await;
            let (rate, p50, p99) = bench.submit_singly(60_000, 32).await;
            report.add(format!("W1 submit singly, 32 callers, {payload} B"), rate, None);
            report.add_times(format!("W1 answer, {payload} B"), p50, p99);
            bench.close();
        });
    }
    runtime.block_on(async {
        let bench = Bench::open(100).await;
        let (p50, p99) = bench.pick_up(500).await;
        report.add_times("W4 pick-up on an idle store".into(), p50, p99);
        bench.close();
    });
    runtime.block_on(async {
        handlers::measure(&mut report, 50).await;
        handlers::measure(&mut report, 100).await;
    });
    if !is_quick {
        runtime.block_on(workload::flatness(&mut report));
        runtime.block_on(limits::measure(&mut report));
    }
    report.print();
}

fn limits_only() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut report = Report::default();
    runtime.block_on(limits::measure(&mut report));
    report.print();
}

fn drain_only() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let bench = Bench::open(100).await;
        bench.submit_batches(500_000, 1_000).await;
        eprintln!("drain {:.0}/s", bench.drain(480_000, 4).await);
        bench.close();
    });
}

fn handlers_only() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut report = Report::default();
    runtime.block_on(handlers::measure(&mut report, 50));
}
