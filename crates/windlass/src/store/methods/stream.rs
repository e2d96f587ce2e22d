//! The partial output of jobs, for readers that wait for more.

use std::time::Duration;

use crate::clock::{Stopwatch, WaitLimit};
use crate::error::StoreError;
use crate::job::JobId;
use crate::limits;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::notify::wakeup::StreamNotice;
use crate::store::query::stream::{self, StreamPage};
use crate::store::tx::read_tx::ReadTx;

impl Store {
    /// The chunks that a job has streamed with a number greater than `after`, at most `limit`. While there are none and
    /// the job is not final, waits for up to `wait`. `None` if there is no such job.
    pub async fn stream(
        &self,
        caller: &Caller,
        id: JobId,
        after: u64,
        limit: usize,
        wait: Duration,
    ) -> Result<Option<StreamPage>, StoreError> {
        let wait_limit = WaitLimit::for_duration(wait.min(limits::SERVER_WAIT_MAX));
        let limit = limit.clamp(1, limits::STREAM_PAGE_CHUNKS_MAX);
        let mut has_read = false;
        loop {
            // Subscribing comes before the query: output that arrives in between is not missed.
            let mut written = self.env.wakeups.stream(id);
            let asking = caller.clone();
            let query = move |tx: &mut ReadTx<'_>| stream::stream_page(tx, &asking, id, (after, limit));
            let since_read = Stopwatch::start();
            let is_settled = match self.read::<_, StoreError>("stream", query).await {
                // A caller with very many readers: this one waits for its turn.
                Err(StoreError::TooManyReads { .. }) if has_read && !wait_limit.is_over() => None,
                answer => {
                    let (page, is_expected) = answer?;
                    let is_there = page
                        .as_ref()
                        .map_or(!is_expected, |page| !page.chunks.is_empty() || page.state.is_final());
                    Some(page).filter(|_| is_there || wait_limit.is_over())
                }
            };
            if let Some(page) = is_settled {
                return Ok(page);
            }
            has_read = true;
            let notice = async {
                if written.notified().await == StreamNotice::Foreign {
                    // Other processes do not say which job it was: readers do not all query at every commit.
                    let pause = limits::STREAM_FOREIGN_READ_EVERY.saturating_sub(since_read.elapsed());
                    tokio::time::sleep(pause).await;
                }
            };
            wait_limit.wait_for(notice, self.env.timing.backstop_every).await;
        }
    }
}
