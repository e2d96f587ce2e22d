//! Everything that can be seen of a store, to be held beside another one's.

use std::fmt::Debug;

use windlass::audit::Record;
use windlass::error::StoreError;
use windlass::job::JobId;
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{ListRequest, Snapshot, Store};

use super::engines::Pair;
use super::operation::pages;

/// Records that one look at the audit trail takes.
const RECORDS: usize = 1_000;

/// Compares lists, numbers, settings and the checks of both; answers all jobs.
pub(super) async fn compare(pair: &Pair, with_rates: bool) -> Result<Vec<Snapshot>, String> {
    let [memory, durable] = [jobs(&pair.memory).await, jobs(&pair.durable).await];
    let (memory, durable) = (text_error(memory)?, text_error(durable)?);
    for (one, other) in memory.iter().zip(&durable) {
        same("a job", one, other)?;
    }
    same("the number of jobs", &memory.len(), &durable.len())?;
    let who = Caller::local();
    let stats = [pair.memory.stats(&who).await, pair.durable.stats(&who).await];
    let [mut one, mut other] = [text_error(stats[0].clone())?, text_error(stats[1].clone())?];
    if !with_rates {
        one.minutes.clear();
        other.minutes.clear();
    }
    same("the numbers", &one, &other)?;
    let me = Caller::local();
    let mut memory_config = text_error(pair.memory.config(&me).await)?;
    let mut durable_config = text_error(pair.durable.config(&me).await)?;
    pair.forget_signs_of_life([&mut memory_config, &mut durable_config]);
    same("the settings", &memory_config, &durable_config)?;
    check(&pair.memory, "memory").await?;
    check(&pair.durable, "durable").await?;
    Ok(memory)
}

/// Compares the data of a job.
pub(super) async fn compare_sides(pair: &Pair, id: JobId) -> Result<(), String> {
    let (who, one, other) = (Caller::local(), &pair.memory, &pair.durable);
    same("a job alone", &one.get(&who, id).await, &other.get(&who, id).await)?;
    same("attempts", &one.attempts(&who, id).await, &other.attempts(&who, id).await)?;
    same("checkpoints", &one.checkpoints(&who, id).await, &other.checkpoints(&who, id).await)?;
    same("logs", &one.logs(&who, id, 1).await, &other.logs(&who, id, 1).await)?;
    same("a result", &one.result(&who, id).await, &other.result(&who, id).await)?;
    same("groups", &one.groups(&who, id).await, &other.groups(&who, id).await)?;
    same("neighbours", &one.neighbours(&who, id).await, &other.neighbours(&who, id).await)?;
    same("reasons", &one.explain(&who, id).await, &other.explain(&who, id).await)
}

/// Compares the audit trail after a record; answers what is new in it.
pub(super) async fn compare_records(pair: &Pair, after: u64) -> Result<Vec<Record>, String> {
    let (who, mut query) = (Caller::local(), RecordQuery { after, limit: RECORDS, ..RecordQuery::default() });
    let mut found = Vec::new();
    loop {
        let memory = text_error(pair.memory.audit(&who, query.clone()).await)?;
        let durable = text_error(pair.durable.audit(&who, query.clone()).await)?;
        for (one, other) in memory.iter().zip(&durable) {
            same("a record", one, other)?;
        }
        same("the number of records", &memory.len(), &durable.len())?;
        let Some(last) = memory.last() else { return Ok(found) };
        query.after = last.seq;
        found.extend(memory);
    }
}

/// All jobs, oldest first.
pub(super) async fn jobs(store: &Store) -> Result<Vec<Snapshot>, StoreError> {
    let order = windlass::store::Order::Oldest;
    let request = ListRequest { order, limit: 500, ..ListRequest::default() };
    let pages = pages(store, &Caller::local(), &request).await?;
    Ok(pages.into_iter().flat_map(|page| page.jobs).collect())
}

/// Every invariant holds.
pub(super) async fn check(store: &Store, engine: &str) -> Result<(), String> {
    for result in text_error(store.verify().await)? {
        if !result.holds() {
            return Err(format!("{engine}: {} {}: {:#?}", result.code, result.promise, result.findings));
        }
    }
    Ok(())
}

fn same<T: PartialEq + Debug>(what: &str, memory: &T, durable: &T) -> Result<(), String> {
    if memory == durable {
        return Ok(());
    }
    Err(format!("{what} differs\n  memory: {memory:?}\n  durable: {durable:?}"))
}

pub(super) fn text_error<T>(answer: Result<T, StoreError>) -> Result<T, String> {
    answer.map_err(|error| format!("a question was not answered: {error}"))
}
