//! Writing to the tables. The only possible error is a change to a job that does not exist, which is a caller's mistake
//! that no engine may hide.

use super::tables::{Row, Tables};
use crate::audit::Record;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobMetadata, JobRecord, Payload, Seq};
use crate::store::engine::{
    AuditLogMut, CountChange, CountersMut, DocumentKind, DocumentsMut, Edge, EngineResult, Graph, GraphMut,
    Import, JobDataKind, JobDataTableMut, JobDataWrite, JobTableMut, Key, KeyChange, KeysMut, NewRow,
    SequenceNumbers, Side, Write,
};

impl Tables {
    fn remove_one(&mut self, seq: Seq, now: Timestamp) -> EngineResult<()> {
        let Some(row) = self.rows.get(&seq) else { return Ok(()) };
        // A key may have expired and been taken by another job since.
        let state = row.job.state;
        let held = row.keys.iter().filter_map(|key| {
            let holder = self.keys.get(key).filter(|holder| holder.seq == seq)?;
            Some((key.clone(), holder.outlive(state, now)))
        });
        for (key, left) in held.collect::<Vec<_>>() {
            self.set_key(key, left);
        }
        for side in [Side::Dependency, Side::Dependent] {
            for edge in self.edges(&[seq], side)? {
                self.set_edge(edge, false);
            }
        }
        let start = (seq, JobDataKind::Attempt, String::new(), 0);
        let job_data = self.job_data.range(start..).take_while(|(key, _)| key.0 == seq);
        let job_data: Vec<_> = job_data.map(|(key, _)| key.clone()).collect();
        for key in job_data {
            self.set_job_data(key, None);
        }
        self.set_row(seq, None);
        Ok(())
    }
}

impl JobTableMut for Tables {
    fn insert(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        for new in rows {
            let seq = new.job.seq;
            for (key, holder) in &new.keys {
                self.set_key(key.clone(), Some(*holder));
            }
            let keys = new.keys.iter().map(|(key, _)| key.clone()).collect();
            self.set_row(seq, Some(Row { job: new.job.clone(), spec: new.spec.clone(), keys }));
        }
        Ok(())
    }

    fn update(&mut self, jobs: &[JobRecord]) -> EngineResult<()> {
        jobs.iter().try_for_each(|job| there_is(self.set_job(job), job.seq))
    }

    fn set_metadata(&mut self, metadata: &[(Seq, JobMetadata)]) -> EngineResult<()> {
        metadata
            .iter()
            .try_for_each(|(seq, metadata)| there_is(self.replace_metadata(*seq, metadata.clone()), *seq))
    }

    fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()> {
        there_is(self.set_payload(seq, payload.clone()), seq)
    }

    fn remove(&mut self, seqs: &[Seq], now: Timestamp) -> EngineResult<()> {
        seqs.iter().try_for_each(|seq| self.remove_one(*seq, now))
    }
}

impl KeysMut for Tables {
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        for key in keys {
            self.set_key(key.clone(), None);
        }
        Ok(())
    }

    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize> {
        let gone = self.keys.iter().filter(|(_, holder)| holder.removed().is_some());
        let over = gone.filter(|(_, holder)| holder.expires_at <= now);
        let mut expired: Vec<(Timestamp, Key)> =
            over.map(|(key, holder)| (holder.expires_at, key.clone())).collect();
        expired.sort_unstable();
        expired.truncate(max);
        let count = expired.len();
        for (_, key) in expired {
            self.set_key(key, None);
        }
        Ok(count)
    }
}

impl GraphMut for Tables {
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()> {
        for edge in edges {
            self.set_edge(*edge, true);
        }
        Ok(())
    }
}

impl JobDataTableMut for Tables {
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()> {
        for write in writes {
            match write {
                JobDataWrite::Put(data) => {
                    let key = (data.seq, data.kind, data.name.clone(), data.number);
                    self.set_job_data(key, Some(data.body.clone()));
                }
                JobDataWrite::Drop { seq, kind, name, number } => {
                    self.set_job_data((*seq, *kind, name.clone(), *number), None);
                }
            }
        }
        Ok(())
    }
}

impl DocumentsMut for Tables {
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        self.set_document(kind, key.to_owned(), body.map(<[u8]>::to_vec));
        Ok(())
    }
}

impl AuditLogMut for Tables {
    fn append(&mut self, records: &mut [Record]) -> EngineResult<()> {
        for record in records {
            record.seq = self.add_record(record);
        }
        Ok(())
    }
}

impl CountersMut for Tables {
    fn count(&mut self, changes: &[CountChange]) -> EngineResult<()> {
        for change in changes {
            self.move_count(change.clone());
        }
        Ok(())
    }

    fn count_keys(&mut self, changes: &[KeyChange]) -> EngineResult<()> {
        for change in changes {
            self.move_key_count(change.clone());
        }
        Ok(())
    }

    fn allocate(&mut self, count: usize) -> EngineResult<Seq> {
        let first = self.last_seq + 1;
        self.last_seq += i64::try_from(count).expect("a batch is smaller than 2^63");
        Ok(Seq(first))
    }

    fn adopt(&mut self, numbers: SequenceNumbers) -> EngineResult<()> {
        self.last_seq = numbers.seq.0 - 1;
        self.set_generations_over(numbers.generation - 1);
        Ok(())
    }
}

impl Write for Tables {
    fn import(&mut self) -> Option<&mut dyn Import> {
        Some(self)
    }
}

fn there_is(found: bool, seq: Seq) -> EngineResult<()> {
    if found { Ok(()) } else { Err(StoreError::Damaged(format!("no job with number {}", seq.0))) }
}
