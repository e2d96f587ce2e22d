//! The partial output of jobs.

use windlass_api::json::Json;
use windlass_api::stream::{self as shown, StreamPart};
use windlass_api::text::Text;

use crate::store::command::attempt_writes::AttemptWrite;
use crate::store::query::stream::{StreamChunk, StreamPage};

/// Chunks as a write of an attempt.
pub fn stream_write(offset: Option<u64>, chunks: &[Json]) -> AttemptWrite {
    AttemptWrite::Stream { offset, chunks: chunks.iter().map(|chunk| chunk.bytes().to_vec()).collect() }
}

/// Chunks as they are sent; `None` if one is not JSON, which no server accepts.
pub fn sent_chunks(offset: Option<u64>, chunks: &[Vec<u8>]) -> Option<StreamPart> {
    let chunks = chunks.iter().map(|chunk| Json::stored(chunk)).collect::<Option<_>>()?;
    Some(StreamPart { offset, chunks })
}

impl From<StreamChunk> for shown::StreamChunk {
    fn from(chunk: StreamChunk) -> shown::StreamChunk {
        let StreamChunk { number, attempt, at, is_restart, chunk } = chunk;
        shown::StreamChunk { number, attempt, at: at.into(), restart: is_restart, chunk: Json(chunk) }
    }
}

impl From<StreamPage> for shown::StreamPage {
    fn from(page: StreamPage) -> shown::StreamPage {
        let StreamPage { chunks, last, dropped, state } = page;
        let chunks = chunks.into_iter().map(Into::into).collect();
        shown::StreamPage { chunks, last, dropped, state: Text(state) }
    }
}

impl From<shown::StreamPage> for StreamPage {
    fn from(shown: shown::StreamPage) -> StreamPage {
        let read = |chunk: shown::StreamChunk| StreamChunk {
            number: chunk.number,
            attempt: chunk.attempt,
            at: chunk.at.0,
            is_restart: chunk.restart,
            chunk: chunk.chunk.0,
        };
        StreamPage {
            chunks: shown.chunks.into_iter().map(read).collect(),
            last: shown.last,
            dropped: shown.dropped,
            state: shown.state.0,
        }
    }
}
