//! Numbers: how many jobs there are per lane and state and per concurrency key, and which sequence numbers come next.

use std::collections::BTreeMap;

use crate::job::{ConcurrencyKey, Seq, Tenant};
use crate::store::engine::{CountChange, Counts, EngineResult, KeyChange};

/// The next sequence numbers, and the generation that is part of every fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The store's generation, from 1.
    pub generation: u64,
    /// The sequence number of the next job.
    pub seq: Seq,
    /// The number of the next audit record.
    pub record: u64,
}

/// Reading counts and numbers.
pub trait Counters {
    /// The number of jobs per lane and state: the sum of all changes so far, including those of this commit. Read in
    /// almost every commit, so an engine keeps them in memory until another connection commits.
    fn counts(&mut self) -> EngineResult<&Counts>;
    /// How many concurrency keys the open jobs of a tenant have.
    fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64>;
    /// How many open jobs of a tenant have each of these concurrency keys, in this order.
    fn jobs_with_keys(&mut self, tenant: &Tenant, keys: &[ConcurrencyKey]) -> EngineResult<Vec<u64>>;
    /// How many concurrency keys are in use, of each tenant that uses any.
    fn all_keys_in_use(&mut self) -> EngineResult<BTreeMap<Tenant, u64>>;
    /// The next sequence numbers.
    fn numbers(&mut self) -> EngineResult<SequenceNumbers>;
}

/// Writing counts and numbers.
pub trait CountersMut: Counters {
    /// Changes counts, by the lanes and states that jobs have left and entered.
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()>;
    /// Changes the numbers of open jobs per concurrency key; each key at most once.
    fn count_keys(&mut self, changes: &[KeyChange]) -> EngineResult<()>;
    /// The first of `count` new sequence numbers for jobs. Ascending; a number that was given out is not used again,
    /// unless its commit was rolled back.
    fn allocate(&mut self, count: usize) -> EngineResult<Seq>;
    /// Continues with these numbers: when a new generation begins, and when another store's rows were moved here.
    fn adopt(&mut self, numbers: SequenceNumbers) -> EngineResult<()>;
}
