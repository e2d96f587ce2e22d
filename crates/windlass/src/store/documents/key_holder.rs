//! Who has a key, and what an idempotency key remembers of its job.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobId, JobState, Payload, PayloadDigest, Seq};

/// Who has a key, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHolder {
    /// The job; it may have been removed since.
    pub seq: Seq,
    /// When the key is free again by itself.
    pub expires_at: Timestamp,
    /// What an idempotency key remembers of its job; none for other keys.
    pub memory: Option<KeyHolderCache>,
}

/// What an idempotency key remembers, so that it can still answer for its job after that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHolderCache {
    /// The job's id.
    pub id: JobId,
    /// The digest of the payload that was submitted with the key.
    pub payload: PayloadDigest,
    /// The state the job ended in, once it was removed; none while it is stored.
    pub ended: Option<JobState>,
}

impl KeyHolder {
    /// A unique key: the job has it until it ends.
    pub fn unique(seq: Seq) -> KeyHolder {
        KeyHolder { seq, expires_at: Timestamp::MAX, memory: None }
    }

    /// An idempotency key of a new job.
    pub fn idempotency(seq: Seq, id: JobId, payload: &Payload, expires_at: Timestamp) -> KeyHolder {
        let memory = KeyHolderCache { id, payload: payload.digest(), ended: None };
        KeyHolder { seq, expires_at, memory: Some(memory) }
    }

    /// What is left of the key when its job, which ended in `state`, is removed: an idempotency key stays until its own end.
    pub fn outlive(self, state: JobState, now: Timestamp) -> Option<KeyHolder> {
        let memory = self.memory.filter(|_| self.expires_at > now)?;
        Some(KeyHolder { memory: Some(KeyHolderCache { ended: Some(state), ..memory }), ..self })
    }

    /// What the key knows of a job that was removed.
    pub fn removed(&self) -> Option<KeyHolderCache> {
        self.memory.filter(|memory| memory.ended.is_some())
    }
}
