//! Keys that stand for jobs: idempotency keys and unique keys, each with its holder.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobType, Tenant};
use crate::store::engine::{EngineResult, KeyHolder};

/// The purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// Submitting again with the same key returns the same job.
    Idempotency,
    /// At most one unfinished job per key.
    Unique,
}

/// A key within its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The purpose of the key.
    pub kind: KeyKind,
    /// The tenant the key belongs to.
    pub tenant: Tenant,
    /// The job type the key applies to.
    pub job_type: JobType,
    /// The key as given by the caller.
    pub text: String,
}

/// Reading keys.
pub trait Keys {
    /// The holders of these keys, in this order, expired or not: what an expired holder means is not for an engine to
    /// decide.
    fn keyed(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>>;
}

/// Writing keys. They are taken with the job that holds them, by [`JobTableMut::insert`](super::JobTableMut::insert),
/// which replaces an earlier holder, and outlive it as [`JobTableMut::remove`](super::JobTableMut::remove) says.
pub trait KeysMut: Keys {
    /// Releases keys; those without a holder are skipped.
    fn release_keys(&mut self, keys: &[Key]) -> EngineResult<()>;
    /// Removes up to `max` expired idempotency keys of removed jobs, the earliest first; returns how many.
    fn remove_expired_keys(&mut self, now: Timestamp, max: usize) -> EngineResult<usize>;
}
