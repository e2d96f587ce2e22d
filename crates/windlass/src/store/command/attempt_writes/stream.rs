//! Partial output: the chunks of one call are stored as one row, numbered after its last chunk. The oldest rows are
//! dropped when a job has more than it may keep.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, WorkError};
use crate::job::{JobRecord, check_chunks};
use crate::limits;
use crate::store::documents::config::encode;
use crate::store::engine::{JobData, JobDataKind, JobDataQuery, JobDataWrite};
use crate::store::tx::write_tx::WriteTx;

/// The chunks of one call, as they are stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StreamBlock<T> {
    /// When they were written.
    pub(crate) at: Timestamp,
    /// The attempt that wrote them.
    pub(crate) attempt: u32,
    /// Whether output starts over with the first of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "restart")]
    pub(crate) is_restart: bool,
    /// The chunks, each any JSON.
    pub(crate) chunks: Vec<T>,
}

/// Checks what can be checked without the store.
pub(super) fn check(chunks: &[Vec<u8>]) -> Result<(), FieldError> {
    check_chunks(chunks.iter().map(Vec::as_slice))?;
    chunks.iter().enumerate().try_for_each(|(index, chunk)| {
        read(chunk).map(drop).map_err(|problem| FieldError::new(format!("chunks.{index}"), problem))
    })
}

/// A chunk as JSON.
fn read(chunk: &[u8]) -> Result<&RawValue, FieldProblem> {
    serde_json::from_slice(chunk)
        .map_err(|error| FieldProblem::Contradiction(format!("is not valid JSON: {error}")))
}

impl WriteTx<'_> {
    /// Appends chunks to a job's stream, without those that a repeated call has written before, and drops the oldest
    /// beyond the limit; the caller puts the job.
    pub(super) fn append_stream(
        &mut self,
        job: &mut JobRecord,
        offset: Option<u64>,
        chunks: &[Vec<u8>],
    ) -> Result<(), WorkError> {
        let mut totals = job.details.stream.unwrap_or_default();
        let new = &chunks[totals.known(job.attempt, offset, chunks.len())?..];
        if new.is_empty() {
            return Ok(());
        }
        let is_restart = totals.add(job.attempt, new.len() as u64).is_restart;
        let chunks = new.iter().map(|chunk| read(chunk)).collect::<Result<Vec<&RawValue>, _>>();
        let chunks = chunks.map_err(|problem| FieldError::new("chunks", problem))?;
        let block = encode(&StreamBlock { at: self.now, attempt: job.attempt, is_restart, chunks });
        totals.keep(block.len() as u64);
        let (seq, kind, name, number) = (job.seq, JobDataKind::Stream, String::new(), totals.last);
        self.write_job_data(JobDataWrite::Put(JobData { seq, kind, name, number, body: block.into() }));
        while totals.is_full() {
            // Rows of this very commit are not found; the next call drops them.
            let limit = limits::STREAM_BLOCKS_AT_ONCE;
            let query = JobDataQuery { seq, kind, name: None, above: Some(totals.dropped), limit };
            let oldest = self.raw(|db| db.job_data(query))?;
            if oldest.is_empty() {
                break;
            }
            for JobData { name, number, body, .. } in oldest {
                if totals.is_full() {
                    totals.drop_oldest(number, body.len() as u64);
                    self.write_job_data(JobDataWrite::Drop { seq, kind, name, number });
                }
            }
        }
        job.details_mut().stream = Some(totals);
        self.streamed(job.id);
        Ok(())
    }
}
