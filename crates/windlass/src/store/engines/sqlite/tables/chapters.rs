//! The chapters of the contract. Each method is implemented in the module named for it; this is only the list.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Holds, Tables};
use crate::audit::Record;
use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobId, JobMetadata, JobRecord, Lane, Need, Payload, Seq, Spec, Tenant};
use crate::store::engine::{
    AuditLog, AuditLogMut, ClaimOrder, CountChange, Counters, CountersMut, Counts, Document, DocumentKind,
    DocumentRange, Documents, DocumentsMut, Edge, EngineResult, Export, Graph, GraphMut, Import, JobData,
    JobDataQuery, JobDataTable, JobDataTableMut, JobDataWrite, JobTable, JobTableMut, Key, KeyChange,
    KeyHolder, Keys, KeysMut, LaneCursor, NewRow, Read, ReadyIndex, RecordQuery, SequenceNumbers, Side,
    Write,
};
use crate::store::engines::sql::columns::limit;
use crate::store::filter::{Found, Scan};

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
    fn search(&mut self, scan: &Scan, reach: usize) -> EngineResult<Found> {
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

impl<C: Holds> Keys for Tables<C> {
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        self.key_holders(keys)
    }
}

impl<C: Holds> Graph for Tables<C> {
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        self.edges_of(seqs, side)
    }
    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>> {
        self.edges_from(dependency, after, max)
    }
}

impl<C: Holds> JobDataTable for Tables<C> {
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>> {
        self.read_job_data(query)
    }
}

impl<C: Holds> Documents for Tables<C> {
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        self.read_document(kind, key)
    }
    fn configuration_version(&mut self) -> EngineResult<u64> {
        Ok(self.meta.config_version)
    }
    fn documents_in(&mut self, kind: DocumentKind, range: DocumentRange<'_>) -> EngineResult<Vec<Document>> {
        self.read_documents_in(kind, range)
    }
}

impl<C: Holds> AuditLog for Tables<C> {
    fn records(&mut self, query: &RecordQuery) -> EngineResult<Vec<Record>> {
        self.read_records(query)
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

impl<C: Holds> Read for Tables<C> {
    fn cache_generation(&mut self) -> u64 {
        self.generation
    }
    fn damage(&mut self) -> EngineResult<Vec<String>> {
        self.find_damage()
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

impl<C: Holds> KeysMut for Tables<C> {
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        self.delete_keys(keys)
    }
    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize> {
        self.delete_expired_keys(now, max)
    }
}

impl<C: Holds> GraphMut for Tables<C> {
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()> {
        self.insert_edges(edges)
    }
}

impl<C: Holds> JobDataTableMut for Tables<C> {
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()> {
        writes.iter().try_for_each(|write| self.put_job_data(write))
    }
}

impl<C: Holds> DocumentsMut for Tables<C> {
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        self.write_document(kind, key, body)
    }
}

impl<C: Holds> AuditLogMut for Tables<C> {
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()> {
        self.append_records(records)
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
    fn import(&mut self) -> Option<&mut dyn Import> {
        Some(self)
    }
}
