//! Export and import of all rows in memory: the specification of what a move reads and writes.

use std::ops::Bound;

use super::tables::Tables;
use crate::audit::Record;
use crate::error::StoreError;
use crate::job::Seq;
use crate::store::engine::{
    Edge, EngineResult, Export, Import, JobData, JobDataPosition, Key, KeyHolder, NewRow, Page,
};

impl Export for Tables {
    fn jobs_after(&mut self, after: Seq, page: Page) -> EngineResult<Vec<NewRow>> {
        let rows = self.rows.range((Bound::Excluded(after), Bound::Unbounded)).map(|(_, row)| row);
        let count = page.fitting(rows.clone().map(|row| row.spec.payload.bytes.len()));
        let found = rows.take(count).map(|row| NewRow {
            job: row.job.clone(),
            spec: row.spec.clone(),
            keys: Vec::new(),
        });
        Ok(found.collect())
    }

    fn job_data_after(&mut self, after: Option<&JobDataPosition>, page: Page) -> EngineResult<Vec<JobData>> {
        let start = after.map_or(Bound::Unbounded, |after| {
            Bound::Excluded((after.seq, after.kind, after.name.clone(), after.number))
        });
        let job_data = self.job_data.range((start, Bound::Unbounded));
        let count = page.fitting(job_data.clone().map(|(_, body)| body.len()));
        let found = job_data.take(count).map(|((seq, kind, name, number), body)| JobData {
            seq: *seq,
            kind: *kind,
            name: name.clone(),
            number: *number,
            body: body.clone(),
        });
        Ok(found.collect())
    }

    fn keys_after(&mut self, after: Option<&Key>, page: Page) -> EngineResult<Vec<(Key, KeyHolder)>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.keys.range((start, Bound::Unbounded)).take(page.rows);
        Ok(keys.map(|(key, holder)| (key.clone(), *holder)).collect())
    }

    fn edges_after(&mut self, after: Option<Edge>, page: Page) -> EngineResult<Vec<Edge>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.edges.range((start, Bound::Unbounded)).take(page.rows).copied().collect())
    }
}

impl Import for Tables {
    fn import_keys(&mut self, keys: &[(Key, KeyHolder)]) -> EngineResult<()> {
        for (key, holder) in keys {
            self.set_key(key.clone(), Some(*holder));
            if let Some(row) = self.rows.get_mut(&holder.seq) {
                // Undone with its row, which is not undone later than its keys.
                row.keys.push(key.clone());
            }
        }
        Ok(())
    }

    fn import_records(&mut self, records: &[Record]) -> EngineResult<()> {
        for record in records {
            if self.add_record(record) != record.seq {
                return Err(StoreError::Damaged(format!("audit record {} does not come next", record.seq)));
            }
        }
        Ok(())
    }
}
