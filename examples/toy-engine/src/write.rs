//! Writing, to the copy that becomes the data when the commit succeeds.

use std::sync::Arc;

use windlass::audit::Record;
use windlass::clock::Timestamp;
use windlass::error::StoreError;
use windlass::job::{JobMetadata, JobRecord, Payload, Seq};
use windlass::store::engine::{
    AuditLogMut, CountChange, CountersMut, DocumentKind, DocumentsMut, Edge, EngineResult, GraphMut,
    JobDataTableMut, JobDataWrite, JobTableMut, Key, KeyChange, KeyHolder, KeysMut, NewRow, SequenceNumbers,
    Write,
};

use crate::tables::{Row, Tables};

impl Tables {
    /// A job to be changed.
    fn row(&mut self, seq: Seq) -> EngineResult<&mut Row> {
        let row = Arc::make_mut(&mut self.jobs).get_mut(&seq);
        row.map(Arc::make_mut).ok_or_else(|| StoreError::Damaged(format!("no job with number {}", seq.0)))
    }

    fn remove_one(&mut self, seq: Seq, now: Timestamp) {
        let Some(row) = Arc::make_mut(&mut self.jobs).remove(&seq) else { return };
        Arc::make_mut(&mut self.ids).remove(&row.job.id);
        let held: Vec<(Key, KeyHolder)> = self
            .keys
            .iter()
            .filter(|(_, holder)| holder.seq == seq)
            .map(|(key, holder)| (key.clone(), *holder))
            .collect();
        for (key, holder) in held {
            match holder.outlive(row.job.state, now) {
                Some(left) => Arc::make_mut(&mut self.keys).insert(key, left),
                None => Arc::make_mut(&mut self.keys).remove(&key),
            };
        }
        Arc::make_mut(&mut self.edges).retain(|edge| edge.dependency != seq && edge.dependent != seq);
        Arc::make_mut(&mut self.job_data).retain(|(of, ..), _| *of != seq);
    }
}

impl JobTableMut for Tables {
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        for NewRow { job, spec, keys } in rows {
            let row = Row { job: job.clone(), spec: spec.clone() };
            Arc::make_mut(&mut self.jobs).insert(job.seq, Arc::new(row));
            Arc::make_mut(&mut self.ids).insert(job.id, job.seq);
            Arc::make_mut(&mut self.keys).extend(keys.iter().cloned());
        }
        Ok(())
    }

    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()> {
        jobs.iter().try_for_each(|job| self.row(job.seq).map(|row| row.job = job.clone()))
    }

    fn set_metadata(&mut self, metadata: &[(Seq, JobMetadata)]) -> EngineResult<()> {
        metadata
            .iter()
            .try_for_each(|(seq, metadata)| self.row(*seq).map(|row| row.spec.metadata = metadata.clone()))
    }

    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()> {
        self.row(seq).map(|row| row.spec.payload = payload.clone())
    }

    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()> {
        for seq in seqs {
            self.remove_one(*seq, now);
        }
        Ok(())
    }
}

impl KeysMut for Tables {
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        let held = Arc::make_mut(&mut self.keys);
        for key in keys {
            held.remove(key);
        }
        Ok(())
    }

    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize> {
        let of_removed = self.keys.iter().filter(|(_, holder)| holder.removed().is_some());
        let expired = of_removed.filter(|(_, holder)| holder.expires_at <= now);
        let mut expired: Vec<(Timestamp, Key)> =
            expired.map(|(key, holder)| (holder.expires_at, key.clone())).collect();
        expired.sort_unstable();
        expired.truncate(max);
        let keys: Vec<Key> = expired.into_iter().map(|(_, key)| key).collect();
        self.release_keys(&keys)?;
        Ok(keys.len())
    }
}

impl GraphMut for Tables {
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()> {
        Arc::make_mut(&mut self.edges).extend(edges);
        Ok(())
    }
}

impl JobDataTableMut for Tables {
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()> {
        let all = Arc::make_mut(&mut self.job_data);
        for write in writes {
            match write {
                JobDataWrite::Put(data) => {
                    let key = (data.seq, data.kind, data.name.clone(), data.number);
                    all.insert(key, data.body.clone())
                }
                JobDataWrite::Drop { seq, kind, name, number } => {
                    all.remove(&(*seq, *kind, name.clone(), *number))
                }
            };
        }
        Ok(())
    }
}

impl DocumentsMut for Tables {
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        let (documents, key) = (Arc::make_mut(&mut self.documents), (kind, key.to_owned()));
        match body {
            Some(body) => documents.insert(key, body.to_vec()),
            None => documents.remove(&key),
        };
        if kind.is_configuration() {
            self.configuration_version += 1;
        }
        Ok(())
    }
}

impl AuditLogMut for Tables {
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()> {
        let all = Arc::make_mut(&mut self.records);
        for record in records {
            record.seq = all.len() as u64 + 1;
            all.push(Arc::new(record.clone()));
        }
        Ok(())
    }
}

impl CountersMut for Tables {
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()> {
        let counts = Arc::make_mut(&mut self.counts);
        for change in changes {
            counts.add(&change.lane, change.state, change.by);
        }
        Ok(())
    }

    fn count_keys(&mut self, changes: &[KeyChange]) -> EngineResult<()> {
        let counts = Arc::make_mut(&mut self.key_counts);
        for KeyChange { tenant, key, by } in changes {
            let jobs = counts.entry((tenant.clone(), *key)).or_default();
            *jobs = jobs.saturating_add_signed(*by);
        }
        counts.retain(|_, jobs| *jobs > 0);
        Ok(())
    }

    fn allocate(&mut self, count: usize) -> EngineResult<Seq> {
        let first = self.next_seq;
        self.next_seq = Seq(first.0 + i64::try_from(count).expect("a batch is smaller than 2^63"));
        Ok(first)
    }

    fn adopt(&mut self, numbers: SequenceNumbers) -> EngineResult<()> {
        self.next_seq = numbers.seq;
        self.generation = numbers.generation;
        Ok(())
    }
}

impl Write for Tables {}
