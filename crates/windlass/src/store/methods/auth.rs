//! Authentication with API keys. Keys are part of the configuration; this process caches them for a moment,
//! so that a request needs no database read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Deadline, Timestamp, WaitLimit};
use crate::error::{ActionError, FieldError, FieldProblem, StoreError};
use crate::job::{JobId, Tenant};
use crate::key::{JobToken, KeyHash, KeyId, KeySecret};
use crate::limits;
use crate::store::caller::{Caller, Permission, Role};
use crate::store::command::key::{self, NewKey};
use crate::store::documents::config::Config;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::{Command, Kind};
use crate::store::tx::write_tx::WriteTx;
use crate::store::{ReadKind, Store};

/// A stored API key: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApiKey {
    /// The key's id.
    pub id: KeyId,
    /// The holder's name: the actor in the audit trail and the owner of the jobs it submits. Two keys of one name are
    /// one actor, so that a key can be replaced without losing ownership.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The tenant it can access; all tenants if `None` (admins).
    pub tenant: Option<Tenant>,
    /// The hash of its secret.
    pub hash: KeyHash,
    /// When it was created.
    pub created_at: Timestamp,
    /// Who created it.
    pub created_by: String,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it has not expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// A newly created key with its secret, which is shown only this once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedKey {
    /// The key.
    pub key: ApiKey,
    /// Its secret.
    pub secret: KeySecret,
}

/// This process's cache of the keys.
#[derive(Debug, Default)]
pub struct KeyCache {
    cached: Mutex<CachedKey>,
    /// Held by the one read whose result is for all who wait for it.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct CachedKey {
    /// Grows with every change by this process, so that keys read before a change are not cached after it.
    generation: u64,
    /// How many reads have begun.
    reads: u64,
    known: Option<KnownKeys>,
    /// When each key's last use was written.
    used: HashMap<KeyId, Timestamp>,
}

/// The result of a read.
#[derive(Debug)]
struct KnownKeys {
    /// Which read it was.
    read: u64,
    trust: WaitLimit,
    config: Arc<Config>,
}

impl KeyCache {
    fn remembered(&self) -> MutexGuard<'_, CachedKey> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        let mut remembered = self.remembered();
        remembered.generation += 1;
        remembered.known = None;
    }

    /// Whether the use of a key should be written now.
    fn is_use_due(&self, key: &ApiKey, now: Timestamp) -> bool {
        let mut remembered = self.remembered();
        let last = remembered.used.get(&key.id).copied().max(key.last_used_at);
        let is_due = last.is_none_or(|last| now.since(last) >= limits::KEY_USE_WRITTEN_EVERY);
        if is_due {
            if remembered.used.len() >= limits::API_KEYS_MAX {
                remembered.used.clear();
            }
            remembered.used.insert(key.id.clone(), now);
        }
        is_due
    }
}

impl Store {
    /// Creates a key; admins only. The secret is in the answer and stored nowhere.
    ///
    /// # Errors
    /// [`ActionError`] if the caller is not an admin or a value is not allowed.
    pub async fn create_key(&self, caller: &Caller, new: NewKey) -> Result<CreatedKey, ActionError> {
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| key::create(tx, &caller, &new);
        let created = self.write("create_key", Kind::Ordinary, work).await;
        self.env.keys.clear();
        created
    }

    /// Creates the admin key `bootstrap` from this secret if the store never had a key; returns whether it did.
    ///
    /// # Errors
    /// [`ActionError`] if the caller is not an admin, or the store is served by another process.
    pub async fn bootstrap_key(&self, caller: &Caller, secret: KeySecret) -> Result<bool, ActionError> {
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| key::bootstrap(tx, &caller, &secret);
        let is_made = self.write("bootstrap_key", Kind::Ordinary, work).await;
        self.env.keys.clear();
        is_made
    }

    /// Revokes a key: in this process immediately, in other processes within a second; admins only.
    ///
    /// # Errors
    /// [`ActionError::NoSuchKey`] if there is none with this id.
    pub async fn revoke_key(&self, caller: &Caller, id: KeyId) -> Result<(), ActionError> {
        let caller = caller.clone();
        let work = move |tx: &mut WriteTx<'_>| key::revoke(tx, &caller, &id);
        let revoked = self.write("revoke_key", Kind::Ordinary, work).await;
        self.env.keys.clear();
        if revoked.is_ok() && self.keys_in_force().await.is_ok_and(|config| config.keys.is_empty()) {
            tracing::warn!(
                "the last API key was revoked: all requests are refused until a key is created directly on the store"
            );
        }
        revoked
    }

    /// Records in the audit trail how many invalid API keys an address has used since the last such record. A server
    /// does so at most once a minute per address.
    pub async fn record_refused_keys(&self, from: &str, count: u32) -> Result<(), StoreError> {
        let from = from.to_owned();
        let work = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
            key::record_refused(tx, &from, count);
            Ok(())
        };
        self.write("record_refused_keys", Kind::Ordinary, work).await
    }

    /// All keys, the oldest first; admins only.
    pub async fn keys(&self, caller: &Caller) -> Result<Vec<ApiKey>, ActionError> {
        caller.require(Permission::Administer)?;
        let mut keys: Vec<ApiKey> = self.config(caller).await?.keys.values().cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    /// Whether callers need a key: from the first key on, even after the last one was revoked or has expired. Access is
    /// restored only by creating another key directly on the store.
    pub async fn has_keys(&self) -> Result<bool, StoreError> {
        // The first key takes effect at once, whichever process created it.
        Ok(self.keys_in_force().await?.had_keys || self.keys_now().await?.had_keys)
    }

    /// The caller that a secret authenticates; `None` if the secret is malformed or unknown, or its key was revoked or
    /// has expired.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Caller>, StoreError> {
        let Some(secret) = KeySecret::parse(secret) else { return Ok(None) };
        let mut config = self.keys_in_force().await?;
        if !config.keys.contains_key(&secret.id()) {
            // Another process may have created it a moment ago.
            config = self.keys_now().await?;
        }
        let now = self.env.clock.now();
        let known =
            config.keys.get(&secret.id()).filter(|key| key.hash.matches(&secret) && key.is_valid(now));
        let Some(key) = known else { return Ok(None) };
        if self.env.keys.is_use_due(key, now) {
            self.write_use(key.id.clone(), now);
        }
        let caller = Caller::new(key.name.clone(), key.role, key.tenant.clone());
        Ok(Some(Caller { key: Some(key.id.clone()), ..caller }))
    }

    /// A token that reads this job, as the caller itself may, for this long. It ends earlier if the caller's key is
    /// revoked or expires.
    ///
    /// # Errors
    /// [`ActionError`] if the caller has no key, if the time is out of range, or if there is no such job.
    pub async fn job_token(
        &self,
        caller: &Caller,
        id: JobId,
        lasts: Duration,
    ) -> Result<JobToken, ActionError> {
        if lasts.is_zero() || lasts > limits::JOB_TOKEN_MAX {
            let (value, max) = (format!("{lasts:?}"), format!("{:?}", limits::JOB_TOKEN_MAX));
            let problem = FieldProblem::OutOfRange { value, min: "1ms".into(), max };
            return Err(FieldError::new("expires", problem).into());
        }
        self.job(caller, id).await?.ok_or(ActionError::NotFound(id))?;
        let config = self.keys_in_force().await?;
        let Some(key) = caller.key.as_ref().and_then(|key| config.keys.get(key)) else {
            let problem = FieldProblem::Contradiction("tokens are made with an API key".into());
            return Err(FieldError::new("key", problem).into());
        };
        let expires_at = self.env.clock.now().plus(lasts);
        Ok(JobToken::new(key.id.clone(), &key.hash, id, expires_at))
    }

    /// The caller that a token stands for when it reads this job; `None` if the token is of another job, malformed or
    /// expired, or its key was revoked or has expired.
    pub async fn authenticate_token(&self, token: &str, job: JobId) -> Result<Option<Caller>, StoreError> {
        let Some(token) = JobToken::parse(token).filter(|token| token.job == job) else { return Ok(None) };
        let config = self.keys_in_force().await?;
        let now = self.env.clock.now();
        let is_valid =
            |key: &&ApiKey| key.is_valid(now) && token.expires_at > now && token.is_signed_with(&key.hash);
        let Some(key) = config.keys.get(&token.key).filter(is_valid) else { return Ok(None) };
        let caller = Caller::new(key.name.clone(), key.role, key.tenant.clone());
        Ok(Some(Caller { key: Some(key.id.clone()), ..caller }))
    }

    /// The keys as this process last read them, at most [`limits::KEY_CACHE_TTL`] ago.
    async fn keys_in_force(&self) -> Result<Arc<Config>, StoreError> {
        if let Some(known) = &self.env.keys.remembered().known
            && !known.trust.is_over()
        {
            return Ok(known.config.clone());
        }
        self.read_keys().await
    }

    /// The keys as they are stored now. All callers that wait share one read, so that unknown keys cost little.
    async fn keys_now(&self) -> Result<Arc<Config>, StoreError> {
        let begun = self.env.keys.remembered().reads;
        let _turn = self.env.keys.reading.lock().await;
        if let Some(known) = &self.env.keys.remembered().known
            && known.read > begun
        {
            return Ok(known.config.clone());
        }
        self.read_keys().await
    }

    async fn read_keys(&self) -> Result<Arc<Config>, StoreError> {
        let (generation, read) = {
            let mut remembered = self.env.keys.remembered();
            remembered.reads += 1;
            (remembered.generation, remembered.reads)
        };
        // Anything read from here on is at least as new as this moment.
        let trust = WaitLimit::for_duration(limits::KEY_CACHE_TTL);
        let config = self.read_as(ReadKind::Urgent, "keys", |tx: &mut ReadTx<'_>| tx.config()).await?;
        let mut remembered = self.env.keys.remembered();
        let is_newest = remembered.known.as_ref().is_none_or(|known| known.read < read);
        if remembered.generation == generation && is_newest {
            remembered.known = Some(KnownKeys { read, trust, config: config.clone() });
        }
        Ok(config)
    }

    /// Records the use of a key in the background; errors are ignored.
    fn write_use(&self, id: KeyId, at: Timestamp) {
        let work = move |tx: &mut WriteTx<'_>| key::note_use(tx, &id, at);
        let deadline = Deadline::after(self.env.timing.request_max);
        let (task, _no_caller_waits) = Command::with_answer(Kind::Ordinary, deadline, work);
        self.engine.write(task);
    }
}
