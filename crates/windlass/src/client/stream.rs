//! Follows the partial output of a job.

use std::collections::VecDeque;

use super::Client;
use crate::error::StoreError;
use crate::job::{JobId, JobState};
use crate::limits;
use crate::store::query::stream::StreamChunk;

/// The output of a job, chunk by chunk, as it is written; from [`JobHandle::stream`](super::JobHandle::stream).
pub struct JobStream {
    client: Client,
    id: JobId,
    after: u64,
    read: VecDeque<StreamChunk>,
    ended: Option<JobState>,
    dropped: u64,
}

impl JobStream {
    pub(super) fn new(client: Client, id: JobId) -> JobStream {
        JobStream { client, id, after: 0, read: VecDeque::new(), ended: None, dropped: 0 }
    }

    /// Continues after the chunk with this number.
    #[must_use]
    pub fn after(self, number: u64) -> JobStream {
        JobStream { after: number, ..self }
    }

    /// The next chunk; waits for it. `None` once the job is final and everything was returned, or if there is no such
    /// job. A chunk with `is_restart` starts the output over.
    ///
    /// # Errors
    /// If the caller may not read the job's payload, or if the store or server fails. The call may be repeated and
    /// continues where it was.
    pub async fn next(&mut self) -> Result<Option<StreamChunk>, StoreError> {
        loop {
            if let Some(chunk) = self.read.pop_front() {
                self.after = chunk.number;
                return Ok(Some(chunk));
            }
            if self.ended.is_some() {
                return Ok(None);
            }
            let (api, caller) = (self.client.api(), self.client.caller());
            let (limit, wait) = (limits::STREAM_PAGE_CHUNKS_MAX, limits::SERVER_WAIT_MAX);
            let Some(page) = api.stream(caller, self.id, self.after, limit, wait).await? else {
                return Ok(None);
            };
            self.ended = Some(page.state).filter(|_| page.is_end(self.after));
            self.dropped = page.dropped;
            self.read = page.chunks.into();
        }
    }

    /// The job's final state, once all of its output was read.
    pub fn ended(&self) -> Option<JobState> {
        self.ended.filter(|_| self.read.is_empty())
    }

    /// Number of the last chunk that was dropped because the job wrote more than it may keep; 0 if none was.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
