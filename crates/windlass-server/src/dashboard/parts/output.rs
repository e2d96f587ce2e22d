//! The partial output of a job: the end of what its latest attempt wrote.

use std::time::Duration;

use windlass::limits::STREAM_PAGE_CHUNKS_MAX;
use windlass::store::{Snapshot, StreamChunk};

use crate::dashboard::Dashboard;
use crate::dashboard::page::PageError;
use crate::dashboard::pages::limits;
use crate::dashboard::requests::middleware::Visitor;

/// Partial output as text.
pub(in crate::dashboard) struct Output {
    /// How many chunks the job wrote, and what is not shown.
    pub(in crate::dashboard) remark: String,
    pub(in crate::dashboard) text: String,
}

/// The end of a job's output, if it has any and the visitor may read it.
pub(in crate::dashboard) async fn load(
    board: &Dashboard,
    visitor: &Visitor,
    snapshot: &Snapshot,
) -> Result<Option<Output>, PageError> {
    let job = &snapshot.job;
    let Some(totals) = job.details.stream.filter(|_| !snapshot.is_redacted) else { return Ok(None) };
    // As many chunks as may fit, if they are of equal size.
    let size = (totals.bytes / (totals.last - totals.dropped).max(1)).max(1);
    let count = (limits::OUTPUT_BYTES_SHOWN as u64 / size)
        .clamp(limits::OUTPUT_CHUNKS_MIN, STREAM_PAGE_CHUNKS_MAX as u64);
    let (mut after, mut chunks) = (totals.last.saturating_sub(count), Vec::new());
    while after < totals.last {
        let read =
            board.store().stream(&visitor.caller, job.id, after, STREAM_PAGE_CHUNKS_MAX, Duration::ZERO);
        let Some(page) = read.await? else { return Ok(None) };
        let Some(last) = page.chunks.last() else { break };
        after = last.number;
        chunks.extend(page.chunks);
    }
    Ok(Some(shown(totals.last, chunks)))
}

/// The latest output that fits, from the chunk on with which it started over.
fn shown(last: u64, mut chunks: Vec<StreamChunk>) -> Output {
    let restart = chunks.iter().rposition(|chunk| chunk.is_restart).unwrap_or(0);
    chunks.drain(..restart);
    let (mut room, mut texts) = (limits::OUTPUT_BYTES_SHOWN, Vec::new());
    for chunk in chunks.iter().rev() {
        let text = chunk.text();
        if text.len() > room {
            break;
        }
        room -= text.len();
        // Texts continue each other; of other values each has a line.
        texts.push(if chunk.chunk.get().starts_with('"') { text } else { format!("{text}\n") });
    }
    let mut remark = if last == 1 { "1 chunk".to_owned() } else { format!("{last} chunks") };
    let first = chunks.len() - texts.len();
    if let Some(chunk) = chunks.get(first) {
        if chunk.is_restart {
            remark = format!("{remark} · started over in attempt {}", chunk.attempt);
        } else if chunk.number > 1 {
            remark = format!("{remark} · from chunk {}", chunk.number);
        }
    }
    texts.reverse();
    Output { remark, text: texts.concat() }
}
