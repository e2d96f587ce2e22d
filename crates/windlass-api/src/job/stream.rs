//! The partial output of a running job: what its worker sends, and what readers get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::job::{JobState, WorkerId};
use windlass_core::skip_none;

use crate::json::Json;
use crate::text::Text;
use crate::time::Moment;

/// Chunks of a running job's output.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StreamRequest")]
#[serde(deny_unknown_fields)]
pub struct StreamBody {
    /// The fence of the claim.
    pub fence: u64,
    /// The worker that claimed the job. Checked if given; without it the fence alone identifies the claim.
    #[schemars(with = "Option<Text<WorkerId>>")]
    pub worker_id: Option<String>,
    /// How many chunks this attempt has sent before these. Chunks that are stored already are left out, so that the
    /// request can be repeated. Without it all are appended.
    pub offset: Option<u64>,
    /// The chunks, each any JSON of at most 64 KiB; together at most 1 MiB.
    #[schemars(length(min = 1, max = 1000))]
    pub chunks: Vec<Json>,
}

/// Chunks that are sent together with other writes of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StreamedChunks")]
#[serde(deny_unknown_fields)]
pub struct StreamPart {
    /// How many chunks this attempt has sent before these. Chunks that are stored already are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The chunks, each any JSON of at most 64 KiB; together at most 1 MiB.
    #[schemars(length(min = 1, max = 1000))]
    pub chunks: Vec<Json>,
}

/// A page of a job's output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobStream")]
pub struct StreamPage {
    /// The chunks, in order.
    pub chunks: Vec<StreamChunk>,
    /// Number of the last chunk that the job has written; 0 if it has written none.
    pub last: u64,
    /// Number of the last chunk that was dropped because the job wrote more than it may keep; 0 if none was.
    pub dropped: u64,
    /// The job's state. If it is final, nothing is written after `last`.
    pub state: Text<JobState>,
}

/// A piece of a job's output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StreamChunk {
    /// Its number in the job, from 1, for `after`.
    pub number: u64,
    /// Number of the attempt that wrote it.
    pub attempt: u32,
    /// When.
    pub at: Moment,
    /// Whether output starts over with it: an earlier attempt that had written some ended without parking.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
    /// The chunk: any JSON.
    pub chunk: Json,
}

/// The last event of a stream: nothing follows.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnd {
    /// The job's final state, if it has one; else the server ended the stream for `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Text<JobState>>,
    /// `final`, or why the server ended the stream before the job was final: `draining`, `too_slow`, `unauthorized` or
    /// `stopped`.
    pub reason: String,
}
