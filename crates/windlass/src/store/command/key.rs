//! API keys: create, revoke, record use. The secret is returned once, on creation; only its hash is stored.

use std::time::Duration;

use serde_json::json;

use super::effects::audit::RecordActor;
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::{ActionError, FieldError, FieldProblem, StoreError};
use crate::job::{Tenant, check_text};
use crate::key::{KeyId, KeySecret};
use crate::limits;
use crate::store::caller::{Caller, Permission, Role};
use crate::store::documents::config::encode;
use crate::store::engine::DocumentKind;
use crate::store::methods::auth::{ApiKey, CreatedKey};
use crate::store::tx::write_tx::WriteTx;

/// The name of the key that a server creates from a given secret.
const BOOTSTRAP_NAME: &str = "bootstrap";

/// An API key to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The holder's name.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The tenant whose jobs it can access; `default` unless set. An admin's key applies to all tenants and must not
    /// name one.
    pub tenant: Option<Tenant>,
    /// How long until it expires.
    pub expires: Option<Duration>,
}

impl NewKey {
    /// A key in the default tenant that does not expire.
    pub fn new(name: impl Into<String>, role: Role) -> NewKey {
        NewKey { name: name.into(), role, tenant: None, expires: None }
    }

    fn check(&self) -> Result<(), FieldError> {
        if self.name.trim().is_empty() {
            return Err(FieldError::new("name", FieldProblem::Missing));
        }
        check_text("name", Some(&self.name), limits::NAME_CHARS_MAX)?;
        if self.name.chars().any(char::is_control) {
            return Err(FieldError::new(
                "name",
                FieldProblem::Contradiction("contains a control character".into()),
            ));
        }
        if self.role == Role::Admin && self.tenant.is_some() {
            let problem = "an admin key applies to all tenants: omit the tenant, or create an operator key";
            return Err(FieldError::new("tenant", FieldProblem::Contradiction(problem.into())));
        }
        match self.expires {
            Some(expires) if expires.is_zero() || expires > limits::DURATION_MAX => {
                let (value, min) = (format!("{expires:?}"), "1ms".into());
                Err(FieldError::new(
                    "expires",
                    FieldProblem::OutOfRange { value, min, max: "100 years".into() },
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Creates a key.
pub(crate) fn create(tx: &mut WriteTx<'_>, caller: &Caller, new: &NewKey) -> Result<CreatedKey, ActionError> {
    caller.require(Permission::Administer)?;
    new.check()?;
    let config = tx.config()?;
    if config.keys.len() >= limits::API_KEYS_MAX {
        let problem = FieldProblem::TooLong { length: config.keys.len() + 1, limit: limits::API_KEYS_MAX };
        return Err(FieldError::new("keys", problem).into());
    }
    let secret = KeySecret::random(&tx.env.entropy);
    let key = insert(tx, caller, new, &secret)?;
    Ok(CreatedKey { key, secret })
}

/// Creates the admin key `bootstrap` from an existing secret, if the store never had a key. A revoked key is not
/// restored.
pub(crate) fn bootstrap(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    secret: &KeySecret,
) -> Result<bool, ActionError> {
    caller.require(Permission::Administer)?;
    if tx.config()?.had_keys {
        return Ok(false);
    }
    insert(tx, caller, &NewKey::new(BOOTSTRAP_NAME, Role::Admin), secret)?;
    Ok(true)
}

fn insert(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    new: &NewKey,
    secret: &KeySecret,
) -> Result<ApiKey, StoreError> {
    let key = ApiKey {
        id: secret.id(),
        name: new.name.clone(),
        role: new.role,
        tenant: match new.role {
            Role::Admin => None,
            Role::Operator | Role::Submitter | Role::Worker | Role::App | Role::Viewer => {
                Some(new.tenant.clone().unwrap_or_default())
            }
        },
        hash: secret.hash(),
        created_at: tx.now,
        created_by: caller.id.clone(),
        expires_at: new.expires.map(|after| tx.now.plus(after)),
        last_used_at: None,
    };
    tx.put_key(&key)?;
    tx.stay_closed()?;
    record(tx, caller, AuditEvent::KeyCreated, &key);
    Ok(key)
}

/// Revokes a key.
pub(crate) fn revoke(tx: &mut WriteTx<'_>, caller: &Caller, id: &KeyId) -> Result<(), ActionError> {
    caller.require(Permission::Administer)?;
    let (config, now) = (tx.config()?, tx.now);
    let key = config.keys.get(id).cloned().ok_or_else(|| ActionError::NoSuchKey(id.clone()))?;
    let is_admin = |key: &&ApiKey| key.role == Role::Admin && key.is_valid(now);
    if is_admin(&&key) && !config.keys.values().filter(is_admin).any(|other| other.id != *id) {
        return Err(ActionError::LastAdminKey(id.clone()));
    }
    tx.stay_closed()?;
    tx.put_document(DocumentKind::ApiKey, id.as_str(), None, |config| {
        config.keys.remove(id);
    })?;
    record(tx, caller, AuditEvent::KeyRevoked, &key);
    Ok(())
}

/// Records `count` uses of invalid API keys from one address since the last such record.
pub(crate) fn record_refused(tx: &mut WriteTx<'_>, from: &str, count: u32) {
    let context = json!({"address": from, "count": count});
    tx.record_operation(AuditEvent::KeyRefused, Tenant::default(), &RecordActor::system(), &context);
}

/// Records the use of a key, unless that was just done.
pub(crate) fn note_use(tx: &mut WriteTx<'_>, id: &KeyId, at: Timestamp) -> Result<(), StoreError> {
    let Some(key) = tx.config()?.keys.get(id).cloned() else { return Ok(()) };
    if key.last_used_at.is_some_and(|last| at.since(last) < limits::KEY_USE_WRITTEN_EVERY) {
        return Ok(());
    }
    tx.put_key(&ApiKey { last_used_at: Some(at), ..key })
}

fn record(tx: &mut WriteTx<'_>, caller: &Caller, event: AuditEvent, key: &ApiKey) {
    let context = json!({
        "actor_id": caller.id,
        "key_id": key.id.as_str(),
        "name": key.name,
        "role": key.role.as_str(),
        "tenant": key.tenant,
    });
    let tenant = key.tenant.clone().unwrap_or_default();
    tx.record_operation(event, tenant, &RecordActor::caller(caller, None), &context);
}

impl WriteTx<'_> {
    /// Records that API keys exist: when none is left, the store refuses all requests instead of accepting all.
    fn stay_closed(&mut self) -> Result<(), StoreError> {
        if self.config()?.had_keys {
            return Ok(());
        }
        self.put_document(DocumentKind::Closed, "keys", Some(b"{}"), |config| config.had_keys = true)
    }

    fn put_key(&mut self, key: &ApiKey) -> Result<(), StoreError> {
        self.put_document(DocumentKind::ApiKey, key.id.as_str(), Some(&encode(key)), |config| {
            config.keys.insert(key.id.clone(), key.clone());
        })
    }
}
