//! `windlass stats`: how many jobs are where.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use windlass::job::State;
use windlass::store::caller::Caller;
use windlass::store::query::stats::ByState;

use super::{Missing, ReportArgs};

pub(super) async fn stats(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let stats = store.stats(&Caller::local()).await?;
    store.close();
    if args.json {
        let queues: BTreeMap<&str, BTreeMap<&str, u64>> =
            stats.queues.iter().map(|(queue, counts)| (queue.as_str(), words(counts))).collect();
        println!("{}", json!({"states": words(&stats.states), "queues": queues}));
        return Ok(ExitCode::SUCCESS);
    }
    if stats.queues.is_empty() {
        eprintln!("no jobs");
        return Ok(ExitCode::SUCCESS);
    }
    let shown: Vec<State> = State::ALL
        .into_iter()
        .filter(|state| stats.states.get(state).is_some_and(|count| *count > 0))
        .collect();
    print!("{:<24}", "queue");
    for state in &shown {
        print!(" {:>11}", state.as_str());
    }
    println!();
    for (queue, counts) in &stats.queues {
        print!("{:<24}", queue.as_str());
        for state in &shown {
            print!(" {:>11}", counts.get(state).copied().unwrap_or(0));
        }
        println!();
    }
    Ok(ExitCode::SUCCESS)
}

fn words(counts: &ByState) -> BTreeMap<&'static str, u64> {
    counts.iter().map(|(state, count)| (state.as_str(), *count)).collect()
}
