//! Keys of a submission: idempotency keys, unique keys and concurrency keys.

use std::collections::HashMap;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Batch, DependencyRef, SubmitOptions, invalid};
use crate::error::{FieldProblem, StoreError, SubmitError};
use crate::job::{ConcurrencyKey, JobId, NewJob, Payload, Tenant};
use crate::store::engine::{Key, KeyHolder, KeyHolderCache, KeyKind};
use crate::store::tx::write_tx::WriteTx;

/// An earlier job with the same idempotency or debounce key.
pub(super) struct Duplicate {
    pub(super) target: DependencyRef,
    pub(super) payload_differs: bool,
    /// Whether the match is by debounce key; its payload and delay are then replaced.
    pub(super) is_debounced: bool,
    /// What its key still stores about it, if it was removed.
    pub(super) removed: Option<KeyHolderCache>,
}

impl Duplicate {
    fn idempotent(target: DependencyRef, payload_differs: bool) -> Duplicate {
        Duplicate { target, payload_differs, is_debounced: false, removed: None }
    }
}

impl Batch<'_> {
    /// Finds earlier jobs with the same idempotency keys.
    pub(super) fn find_duplicates(
        &self,
        tx: &mut WriteTx<'_>,
        options: SubmitOptions,
    ) -> Result<HashMap<usize, Duplicate>, SubmitError> {
        let mut duplicates = HashMap::new();
        if self.jobs.iter().all(|job| job.idempotency_key.is_none()) {
            return Ok(duplicates);
        }
        let mut first_with: HashMap<Key, usize> = HashMap::new();
        let held = self.held_keys(tx, KeyKind::Idempotency)?;
        for (index, job) in self.jobs.iter().enumerate() {
            let Some(text) = &job.idempotency_key else { continue };
            let key = self.key(KeyKind::Idempotency, index, text);
            if let Some(&first) = first_with.get(&key) {
                let differs = self.jobs[first].payload != job.payload;
                duplicates.insert(index, Duplicate::idempotent(DependencyRef::InBatch(first), differs));
            } else if let Some(duplicate) = live_holder(tx, held.get(&key), &job.payload)? {
                duplicates.insert(index, duplicate);
            } else {
                first_with.insert(key, index);
                continue;
            }
            if options.strict && duplicates[&index].payload_differs {
                return Err(differs(tx, index, &duplicates[&index])?);
            }
        }
        Ok(duplicates)
    }

    /// Refuses unique keys held by a job that is not final.
    pub(super) fn check_unique_keys(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let mut seen: HashMap<Key, usize> = HashMap::new();
        let held = self.held_keys(tx, KeyKind::Unique)?;
        for (index, job) in self.jobs.iter().enumerate() {
            let Some(text) = job.unique_key.as_ref().filter(|_| !duplicates.contains_key(&index)) else {
                continue;
            };
            let key = self.key(KeyKind::Unique, index, text);
            if let Some(first) = seen.insert(key.clone(), index) {
                let twice = format!("is held by job {first} of the same batch");
                return Err(invalid(index, "unique_key", FieldProblem::Contradiction(twice)));
            }
            if held.contains_key(&key)
                && let Some(holder) = unique_holder(tx, &key)?
                && !self.replaced.iter().any(|(_, id)| *id == holder)
            {
                return Err(SubmitError::UniqueKeyTaken { index, key: text.clone(), holder });
            }
        }
        Ok(())
    }

    /// The holders of the keys of this batch, read in one query.
    fn held_keys(&self, tx: &mut WriteTx<'_>, kind: KeyKind) -> Result<HashMap<Key, KeyHolder>, SubmitError> {
        let text = |job: &NewJob| match kind {
            KeyKind::Idempotency => job.idempotency_key.clone(),
            KeyKind::Unique => job.unique_key.clone(),
        };
        let texts = self.jobs.iter().enumerate().filter_map(|(index, job)| Some((index, text(job)?)));
        let keys: Vec<Key> = texts.map(|(index, text)| self.key(kind, index, &text)).collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let holders = tx.db()?.keyed(&keys)?;
        Ok(keys.into_iter().zip(holders).filter_map(|(key, holder)| Some((key, holder?))).collect())
    }

    pub(super) fn key(&self, kind: KeyKind, index: usize, text: &str) -> Key {
        let lane = &self.lanes[index];
        Key { kind, tenant: lane.tenant.clone(), job_type: lane.job_type.clone(), text: text.to_owned() }
    }
}

/// The error for a key that was used with another payload.
fn differs(tx: &mut WriteTx<'_>, index: usize, duplicate: &Duplicate) -> Result<SubmitError, SubmitError> {
    if let Some(removed) = duplicate.removed {
        return Ok(SubmitError::PayloadDiffers { index, existing: removed.id });
    }
    Ok(match duplicate.target {
        DependencyRef::Stored(seq) => {
            let existing = tx.job(seq)?.expect("the holder of the key was just found").id;
            SubmitError::PayloadDiffers { index, existing }
        }
        DependencyRef::InBatch(first) => {
            let twice = format!("job {first} of the same batch has it with another payload");
            invalid(index, "idempotency_key", FieldProblem::Contradiction(twice))
        }
    })
}

/// The job that holds an idempotency key, if its window is not over. Includes removed jobs.
fn live_holder(
    tx: &mut WriteTx<'_>,
    holder: Option<&KeyHolder>,
    payload: &Payload,
) -> Result<Option<Duplicate>, SubmitError> {
    let now = tx.now;
    let Some(holder) = holder.filter(|holder| holder.expires_at > now) else { return Ok(None) };
    let target = DependencyRef::Stored(holder.seq);
    if let Some(removed) = holder.removed() {
        let differs = removed.payload != payload.digest();
        return Ok(Some(Duplicate { removed: Some(removed), ..Duplicate::idempotent(target, differs) }));
    }
    if tx.job(holder.seq)?.is_none() {
        return match tx.spec(holder.seq)? {
            None => Ok(None),
            // It may have run, so that the job must not be submitted again.
            Some(_) => Err(StoreError::Damaged(format!("job {} cannot be read", holder.seq.0)).into()),
        };
    }
    let differs = tx.spec(holder.seq)?.is_some_and(|spec| spec.payload != *payload);
    Ok(Some(Duplicate::idempotent(target, differs)))
}

/// The job that holds a unique key, if it is not final.
pub(crate) fn unique_holder(tx: &mut WriteTx<'_>, key: &Key) -> Result<Option<JobId>, StoreError> {
    let Some(holder) = tx.db()?.keyed(std::slice::from_ref(key))?.pop().flatten() else { return Ok(None) };
    tx.apply_due_timers(holder.seq)?;
    // A key that a timer has just freed must be freed in the database first, or it would be taken from its next holder.
    tx.flush()?;
    Ok(tx.job(holder.seq)?.filter(|job| !job.state.is_final()).map(|job| job.id))
}

/// The digest of a concurrency key. It has 63 bits; jobs of two colliding keys would only wait for each other.
pub(crate) fn concurrency_key(tenant: &Tenant, key: &str) -> ConcurrencyKey {
    let digest = Sha256::digest(json!([tenant.as_str(), key]).to_string().as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    ConcurrencyKey(i64::from_be_bytes(bytes) & i64::MAX)
}
