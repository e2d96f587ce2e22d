//! `windlass bench`: benchmarks. Figures go to standard error as they are measured, and to standard output at the end.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass::bench::{Figure, figure};
use windlass_api::time::Span;

use crate::bench::{self, ChildServer, Combinations, Folder, Size};
use crate::config::shown;
use crate::error::Failure;
use crate::limits::{BENCH_COMBINATIONS_MAX, BENCH_NODES_MAX, BENCH_RTT_MAX};
use crate::output;
use crate::process::raise_open_files;

/// Arguments of `bench`.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct BenchArgs {
    /// Measure this store, `sqlite:PATH` or `postgres://HOST/DATABASE`, instead of a temporary one.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "server")]
    store: Option<String>,
    /// Measure the server at this address, over HTTP.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The API key for that server.
    #[arg(long, env = "WINDLASS_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
    /// Measure even if the store has jobs: they affect the figures, and are slowed down.
    #[arg(long)]
    i_know: bool,
    /// Do a twentieth of the work: faster, less exact.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also measure with a backlog of a million waiting, delayed and paused jobs; takes minutes.
    #[arg(long)]
    full: bool,
    /// Measure the dashboard with a million jobs instead, and the effect of ten open dashboards on claims; takes minutes.
    #[arg(long, conflicts_with_all = ["server", "full"])]
    dashboard: bool,
    /// Measure several nodes on one PostgreSQL instead, each a process of its own: a number, or several such as `1,8,24`.
    /// Needs `--store postgres://…`; the data is in a schema of its own, which is removed afterwards.
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["server", "full", "dashboard"],
        value_parser = node_count)]
    nodes: Vec<usize>,
    /// Add this to every round trip of the nodes to PostgreSQL: a duration, or several such as `0,0.5ms,2ms`. Every
    /// combination with `--nodes` is measured.
    #[arg(long, value_name = "DURATION", value_delimiter = ',', conflicts_with_all = ["server", "full", "dashboard"],
        value_parser = round_trip)]
    rtt: Vec<Duration>,
    /// Size of each job's payload in bytes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(11..=65_536), value_name = "BYTES")]
    payload: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl BenchArgs {
    fn size(&self) -> anyhow::Result<Size> {
        let payload = usize::try_from(self.payload)?;
        let size = Size { jobs: 200_000, rounds: 500, backlog: 0, time: Duration::from_secs(10), payload };
        Ok(match (self.quick, self.full) {
            (true, _) => Size { jobs: 10_000, rounds: 50, time: Duration::from_secs(2), ..size },
            (_, true) => Size { backlog: 1_000_000, ..size },
            _ => size,
        })
    }
}

pub(crate) async fn bench(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let size = args.size()?;
    // Two thousand idle clients of a server are two thousand open files in this process, too.
    raise_open_files();
    let mut figures = Vec::new();
    let mut report = |figure: Figure| {
        let (what, value, beside) = (&figure.what, figure.value(), figure.beside_what());
        output::note(format!("{:<10} {what}: {value} {beside}", figure.workload).trim_end());
        figures.push(figure);
    };
    if !args.nodes.is_empty() || !args.rtt.is_empty() {
        nodes(args, size.payload, &mut report).await?;
    } else if args.dashboard {
        dashboard(args, &mut report).await?;
    } else if let Some(url) = &args.server {
        let has_jobs = bench::server_has_jobs(url, args.key.clone()).await?;
        refuse_jobs(has_jobs && !args.i_know, &shown(url))?;
        bench::server(url, args.key.clone(), size, &mut report).await?;
    } else if let Some(address) = &args.store {
        refuse_jobs(bench::store_has_jobs(address).await? && !args.i_know, &shown(address))?;
        let folder = address.starts_with("sqlite:").then(Folder::new).transpose()?;
        bench::store(address, folder.as_ref(), size, &mut report).await?;
    } else {
        let folder = Folder::new()?;
        output::note(&format!("measuring in {}, which is deleted afterwards", folder.path().display()));
        bench::store(&folder.store("jobs.db"), Some(&folder), size, &mut report).await?;
        let server = ChildServer::start(&folder.store("served.db")).await?;
        bench::server(&server.url, None, size, &mut report).await?;
        server.stop().await?;
    }
    if args.json {
        let durability = "every response waits until its commit is on disk";
        output::json(&json!({"durability": durability, "payload_bytes": size.payload, "figures": figures}))?;
    } else {
        output::text(&figure::table(&figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn nodes(args: &BenchArgs, payload: usize, report: &mut dyn FnMut(Figure)) -> anyhow::Result<()> {
    let address = args.store.as_deref().filter(|address| address.starts_with("postgres"));
    let Some(address) = address else {
        let why = "--nodes and --rtt measure several nodes on one PostgreSQL: pass --store postgres://HOST/DATABASE";
        return Err(Failure::usage(why));
    };
    let nodes = if args.nodes.is_empty() { vec![1] } else { args.nodes.clone() };
    let rtts = if args.rtt.is_empty() { vec![Duration::ZERO] } else { args.rtt.clone() };
    let combinations = Combinations { nodes, rtts, payload, is_quick: args.quick };
    let count = combinations.nodes.len() * combinations.rtts.len();
    if count > BENCH_COMBINATIONS_MAX {
        return Err(Failure::usage(format!(
            "{count} combinations of --nodes and --rtt are more than {BENCH_COMBINATIONS_MAX}"
        )));
    }
    bench::nodes(address, &combinations, report).await
}

fn node_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=BENCH_NODES_MAX).contains(count));
    count.ok_or_else(|| format!("not a number from 1 to {BENCH_NODES_MAX}"))
}

/// A duration, also a fraction of milliseconds: `0`, `0.5ms`, `2ms`, `1s`.
fn round_trip(text: &str) -> Result<Duration, String> {
    let millis = text.strip_suffix("ms").or((text == "0").then_some(text));
    let millis = millis.and_then(|number| number.parse::<f64>().ok());
    let rtt = match millis.map(|millis| Duration::try_from_secs_f64(millis / 1_000.0)) {
        Some(Ok(rtt)) => rtt,
        _ => text.parse::<Span>()?.0,
    };
    if rtt > BENCH_RTT_MAX {
        return Err(format!("is more than {BENCH_RTT_MAX:?}"));
    }
    Ok(rtt)
}

/// Number of jobs for the dashboard benchmark.
const MILLION: usize = 1_000_000;

async fn dashboard(args: &BenchArgs, report: &mut dyn FnMut(Figure)) -> anyhow::Result<()> {
    let size = if args.quick { (MILLION / 50, 3) } else { (MILLION, 20) };
    if let Some(address) = &args.store {
        refuse_jobs(bench::store_has_jobs(address).await? && !args.i_know, &shown(address))?;
        return bench::dashboard(address, size, report).await;
    }
    let folder = Folder::new()?;
    output::note(&format!("measuring in {}, which is deleted afterwards", folder.path().display()));
    bench::dashboard(&folder.store("jobs.db"), size, report).await
}

fn refuse_jobs(is_refused: bool, place: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        !is_refused,
        "{place} has jobs; the benchmark would add and run many more in it. Use a new store, or pass --i-know"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_may_be_a_fraction_of_a_millisecond() {
        for (text, micros) in [("0", 0), ("0.5ms", 500), ("2ms", 2_000), ("1s", 1_000_000), ("0s", 0)] {
            assert_eq!(round_trip(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for bad in ["", "5", "-1ms", "NaNms", "1001ms", "2s", "infms", "ms", "1e9ms"] {
            assert!(round_trip(bad).is_err(), "{bad}");
        }
    }
}
