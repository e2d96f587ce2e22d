//! The partial output of a job, page by page.

use serde_json::value::RawValue;

use super::job_details::readable;
use super::snapshot::is_expected;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobState};
use crate::limits;
use crate::store::caller::Caller;
use crate::store::command::attempt_writes::StreamBlock;
use crate::store::documents::config::parse;
use crate::store::engine::{JobDataKind, JobDataQuery};
use crate::store::tx::read_tx::ReadTx;

/// A piece of a job's partial output.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamChunk {
    /// Its number in the job, from 1.
    pub number: u64,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// When it was written.
    pub at: Timestamp,
    /// Whether output starts over with it: an earlier attempt that had streamed ended without parking.
    pub is_restart: bool,
    /// The chunk, as JSON.
    pub chunk: Box<RawValue>,
}

impl StreamChunk {
    /// The chunk as text: a JSON string as it is, any other value as JSON.
    pub fn text(&self) -> String {
        serde_json::from_str::<String>(self.chunk.get()).unwrap_or_else(|_| self.chunk.get().to_owned())
    }
}

/// A page of a job's partial output.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamPage {
    /// The chunks, in order.
    pub chunks: Vec<StreamChunk>,
    /// Number of the last chunk that the job has written.
    pub last: u64,
    /// Number of the last chunk that was dropped because the job wrote more than it may keep; 0 if none was.
    pub dropped: u64,
    /// The job's state.
    pub state: JobState,
}

impl StreamPage {
    /// Whether no chunk will come after this page, which was read with `after`.
    pub fn is_end(&self, after: u64) -> bool {
        let read = self.chunks.last().map_or(after, |chunk| chunk.number);
        self.state.is_final() && read >= self.last
    }
}

/// Chunks with a number greater than `after`, at most `limit`; `None` if there is no such job. Also whether the job is
/// still in the inbox.
pub(crate) fn stream_page(
    tx: &mut ReadTx<'_>,
    caller: &Caller,
    id: JobId,
    (after, limit): (u64, usize),
) -> Result<(Option<StreamPage>, bool), StoreError> {
    let Some(job) = readable(tx, caller, id)? else { return Ok((None, is_expected(tx, caller, id)?)) };
    let totals = job.details.stream.unwrap_or_default();
    let mut page =
        StreamPage { chunks: Vec::new(), last: totals.last, dropped: totals.dropped, state: job.state };
    let missing = |number: u64| StoreError::Damaged(format!("chunk {number} of job {id} is missing"));
    let (mut next, mut room) = (after.max(totals.dropped).saturating_add(1), limits::STREAM_PAGE_BYTES);
    while next <= totals.last && page.chunks.len() < limit && room > 0 {
        let rows = (limit - page.chunks.len()).min(limits::STREAM_BLOCKS_AT_ONCE);
        let (seq, kind, above) = (job.seq, JobDataKind::Stream, Some(next - 1));
        let rows = tx.db.job_data(JobDataQuery { seq, kind, name: None, above, limit: rows })?;
        if rows.is_empty() {
            return Err(missing(next));
        }
        for data in rows {
            let block: StreamBlock<Box<RawValue>> = parse(&data.body)?;
            let first = (data.number + 1).saturating_sub(block.chunks.len() as u64);
            if first > next {
                return Err(missing(next));
            }
            let from = next;
            for (number, chunk) in (first..).zip(block.chunks).skip_while(|(number, _)| *number < from) {
                if page.chunks.len() == limit || room == 0 {
                    return Ok((Some(page), false));
                }
                room = room.saturating_sub(chunk.get().len());
                next = number + 1;
                let (attempt, at) = (block.attempt, block.at);
                let is_restart = block.is_restart && number == first;
                page.chunks.push(StreamChunk { number, attempt, at, is_restart, chunk });
            }
        }
    }
    Ok((Some(page), false))
}
