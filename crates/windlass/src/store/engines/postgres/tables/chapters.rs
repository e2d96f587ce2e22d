//! The chapters of the contract that need several modules; the others are implemented in the module named for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tables;
use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobId, JobMetadata, JobRecord, Lane, Payload, Seq, Spec, Tenant};
use crate::store::engine::{
    AppendedJobs, Appends, Caches, ClaimOrder, CountChange, Counters, CountersMut, Counts, Damage, Derived,
    DerivedMut, Edge, EngineResult, Export, GraphMut, Import, Inbox, InboxCounts, InboxEntry, InboxMut,
    JobTable, JobTableMut, KeyChange, LaneCursor, NewRow, Prefetch, Read, ReadyIndex, SequenceNumbers, Write,
};
use crate::store::engines::sql::columns::{limit, number};
use crate::store::filter::{Scan, SearchResult};

impl JobTable for Tables {
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

impl ReadyIndex for Tables {
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>> {
        self.ready_in(lanes, each_max)
    }
    fn fronts(&mut self, lanes: &[Arc<Lane>]) -> EngineResult<Vec<Option<ClaimOrder>>> {
        self.fronts_of(lanes)
    }
    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        self.heads_of(lanes, max)
    }
    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>> {
        self.due_jobs(now.as_millis(), max)
    }
    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        self.due_in_lanes(lanes, now.as_millis(), each_max)
    }
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>> {
        Ok(self.first_due()?.map(Timestamp::from_millis))
    }
    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>> {
        self.first_aside(key)
    }
}

impl Counters for Tables {
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
        Ok(SequenceNumbers {
            generation: self.meta.generation.unsigned_abs(),
            seq: Seq(self.meta.next_seq),
            record: self.meta.next_record.unsigned_abs(),
        })
    }
}

impl Caches for Tables {
    fn cache_generation(&mut self) -> u64 {
        self.generation
    }
    fn changed_by_others(&mut self) -> Option<Vec<Seq>> {
        self.running.take_foreign()
    }
    fn added_by_others(&mut self) -> Option<Vec<(Arc<Lane>, ClaimOrder)>> {
        self.take_added()
    }
}

impl Read for Tables {
    fn committed_at(&mut self) -> EngineResult<Timestamp> {
        Ok(Timestamp::from_millis(self.meta.at))
    }
    fn damage(&mut self) -> EngineResult<Vec<Damage>> {
        self.find_damage()
    }
    fn derived(&mut self) -> Option<&mut dyn Derived> {
        Some(self)
    }
    fn inbox(&mut self) -> Option<&mut dyn Inbox> {
        Some(self)
    }
    fn export(&mut self) -> Option<&mut dyn Export> {
        Some(self)
    }
    fn prefetch(&mut self) -> Option<&mut dyn Prefetch> {
        Some(self)
    }
}

impl JobTableMut for Tables {
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
        self.remove_jobs(seqs, now)
    }
}

impl GraphMut for Tables {
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()> {
        self.insert_edges(edges)
    }
}

impl CountersMut for Tables {
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()> {
        self.move_counts(changes);
        Ok(())
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
        self.meta.next_record = number(numbers.record);
        let generation = number(numbers.generation);
        if generation != self.meta.generation {
            // Appends are refused until their node knows it: a loss of theirs counts in the generation that they name.
            self.meta.config_version += 1;
        }
        self.meta.generation = generation;
        self.has_written = true;
        Ok(())
    }
}

impl Write for Tables {
    fn why_put_back(&mut self) -> EngineResult<Option<String>> {
        self.find_put_back()
    }
    fn inbox_mut(&mut self) -> Option<&mut dyn InboxMut> {
        Some(self)
    }
    fn derived_mut(&mut self) -> Option<&mut dyn DerivedMut> {
        Some(self)
    }
    fn appends(&mut self) -> Option<&mut dyn Appends> {
        Some(self)
    }
    fn import(&mut self) -> Option<&mut dyn Import> {
        Some(self)
    }
}

impl Appends for Tables {
    fn take_appended(&mut self) -> EngineResult<(Vec<AppendedJobs>, Timestamp)> {
        let last = Timestamp::from_millis(self.meta.at);
        Ok((self.absorb_all()?, last))
    }
    fn was_appended(&mut self, number: i64, since: i64) -> EngineResult<Option<bool>> {
        self.find_append(number, since)
    }
}

impl Inbox for Tables {
    fn expected(&mut self, id: JobId) -> EngineResult<Option<Tenant>> {
        self.inbox_tenant(id)
    }
    fn inbox_counts(&mut self) -> EngineResult<InboxCounts> {
        self.count_inbox()
    }
}

impl InboxMut for Tables {
    fn take_inbox(&mut self, max: usize) -> EngineResult<Vec<InboxEntry>> {
        self.read_inbox(max)
    }
    fn quarantine_inbox_entry(&mut self, why: &str) -> EngineResult<()> {
        self.quarantine_first(why)
    }
    fn set_inbox_paused(&mut self, is_paused: bool) -> EngineResult<()> {
        self.pause_inbox(is_paused)
    }
}
