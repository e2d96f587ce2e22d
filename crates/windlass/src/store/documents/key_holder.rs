//! Holders of keys, and what an idempotency key stores about its job.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobId, JobState, Payload, PayloadDigest, Seq};

/// The holder of a key, and its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHolder {
    /// The job; it may have been removed since.
    pub seq: Seq,
    /// When the key expires.
    pub expires_at: Timestamp,
    /// What an idempotency key stores about its job; `None` for other keys.
    pub memory: Option<KeyHolderCache>,
}

/// What an idempotency key stores, so that it can refer to its job after the job was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHolderCache {
    /// The job's id.
    pub id: JobId,
    /// The digest of the payload submitted with the key.
    pub payload: PayloadDigest,
    /// The final state of a removed job; `None` while the job is stored.
    pub ended: Option<JobState>,
}

impl KeyHolder {
    /// A unique key: the job holds it until it ends.
    pub fn unique(seq: Seq) -> KeyHolder {
        KeyHolder { seq, expires_at: Timestamp::MAX, memory: None }
    }

    /// An idempotency key of a new job.
    pub fn idempotency(seq: Seq, id: JobId, payload: &Payload, expires_at: Timestamp) -> KeyHolder {
        let memory = KeyHolderCache { id, payload: payload.digest(), ended: None };
        KeyHolder { seq, expires_at, memory: Some(memory) }
    }

    /// What remains of the key when its job, which ended in `state`, is removed: an idempotency key stays until it
    /// expires.
    pub fn outlive(self, state: JobState, now: Timestamp) -> Option<KeyHolder> {
        let memory = self.memory.filter(|_| self.expires_at > now)?;
        Some(KeyHolder { memory: Some(KeyHolderCache { ended: Some(state), ..memory }), ..self })
    }

    /// What the key stores about a removed job.
    pub fn removed(&self) -> Option<KeyHolderCache> {
        self.memory.filter(|memory| memory.ended.is_some())
    }
}
