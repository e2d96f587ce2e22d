//! The chapters of the contract that need several modules; the others are implemented in the module named for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Holds, Tables};
use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobId, JobMetadata, JobRecord, Lane, Payload, Seq, Spec, Tenant};
use crate::store::engine::{
    Caches, ClaimOrder, CountChange, Counters, CountersMut, Counts, Damage, Derived, DerivedMut, Edge,
    EngineResult, Export, GraphMut, Import, JobTable, JobTableMut, KeyChange, LaneCursor, NewRow, Read,
    ReadyIndex, SequenceNumbers, Write,
};
use crate::store::engines::sql::columns::limit;
use crate::store::filter::{Scan, SearchResult};

impl<C: Holds> JobTable for Tables<C> {
    fn find(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<JobRecord>>> {
        self.find_jobs(ids)
    }
    fn load(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<JobRecord>>> {
        self.load_jobs(seqs)
    }
    fn specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>> {
        self.load_specs(seqs)
    }
    fn damaged_spec(&mut self, seq: Seq) -> EngineResult<Option<Spec>> {
        self.load_unchecked_spec(seq)
    }
    fn search(&mut self, scan: &Scan, reach: usize) -> EngineResult<SearchResult> {
        self.search_jobs(scan, reach)
    }
}

impl<C: Holds> ReadyIndex for Tables<C> {
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>> {
        lanes.iter().map(|cursor| self.ready_in(cursor, each_max)).collect()
    }
    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        self.heads_of(lanes, max)
    }
    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>> {
        self.due_jobs(now, max)
    }
    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        lanes.iter().map(|lane| self.due_in_lane(lane, now, each_max)).collect()
    }
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>> {
        self.first_due()
    }
    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>> {
        self.first_aside(key)
    }
}

impl<C: Holds> Counters for Tables<C> {
    fn counts(&mut self) -> EngineResult<&Counts> {
        self.load_counts()
    }
    fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64> {
        self.read_keys_in_use(tenant)
    }
    fn jobs_with_keys(&mut self, tenant: &Tenant, keys: &[ConcurrencyKey]) -> EngineResult<Vec<u64>> {
        self.read_jobs_with_keys(tenant, keys)
    }
    fn all_keys_in_use(&mut self) -> EngineResult<BTreeMap<Tenant, u64>> {
        self.read_all_keys_in_use()
    }
    fn numbers(&mut self) -> EngineResult<SequenceNumbers> {
        let generation = self.meta.generation;
        Ok(SequenceNumbers { generation, seq: Seq(self.meta.next_seq), record: self.meta.next_record })
    }
}

impl<C: Holds> Caches for Tables<C> {
    fn cache_generation(&mut self) -> u64 {
        self.generation
    }
}

impl<C: Holds> Read for Tables<C> {
    fn committed_at(&mut self) -> EngineResult<Timestamp> {
        Ok(self.meta.stamp.at)
    }
    fn damage(&mut self) -> EngineResult<Vec<Damage>> {
        self.find_damage()
    }
    fn derived(&mut self) -> Option<&mut dyn Derived> {
        Some(self)
    }
    fn export(&mut self) -> Option<&mut dyn Export> {
        Some(self)
    }
}

impl<C: Holds> JobTableMut for Tables<C> {
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        self.insert_rows(rows)
    }
    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()> {
        self.update_jobs(jobs)
    }
    fn set_metadata(&mut self, metadata: &[(Seq, JobMetadata)]) -> EngineResult<()> {
        metadata.iter().try_for_each(|(seq, metadata)| self.set_job_metadata(*seq, metadata))
    }
    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()> {
        self.rewrite_payload(seq, payload)
    }
    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()> {
        seqs.iter().try_for_each(|seq| self.remove_job(*seq, now))
    }
}

impl<C: Holds> GraphMut for Tables<C> {
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()> {
        self.insert_edges(edges)
    }
}

impl<C: Holds> CountersMut for Tables<C> {
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()> {
        self.move_counts(changes)
    }
    fn count_keys(&mut self, changes: &[KeyChange]) -> EngineResult<()> {
        self.move_key_counts(changes)
    }
    fn allocate(&mut self, count: usize) -> EngineResult<Seq> {
        let first = self.meta.next_seq;
        self.meta.next_seq = first.saturating_add(limit(count));
        Ok(Seq(first))
    }
    fn adopt(&mut self, numbers: SequenceNumbers) -> EngineResult<()> {
        self.meta.next_seq = numbers.seq.0;
        self.meta.next_record = numbers.record;
        self.meta.generation = numbers.generation;
        Ok(())
    }
}

impl<C: Holds> Write for Tables<C> {
    fn why_put_back(&mut self) -> EngineResult<Option<String>> {
        let generation = self.meta.generation;
        let pending = self.put_back.as_ref().filter(|(_, found)| generation <= *found);
        Ok(pending.map(|(reason, _)| reason.clone()))
    }
    fn derived_mut(&mut self) -> Option<&mut dyn DerivedMut> {
        Some(self)
    }
    fn import(&mut self) -> Option<&mut dyn Import> {
        Some(self)
    }
}
