//! API keys.

use windlass_api::expires::Expiry;
use windlass_api::key::{Key, KeyBody};
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use crate::key::KeyHash;
use crate::store::command::key::NewKey;
use crate::store::methods::auth::ApiKey;

impl From<&ApiKey> for Key {
    fn from(key: &ApiKey) -> Key {
        Key {
            id: Text(key.id.clone()),
            name: key.name.clone(),
            role: Text(key.role),
            tenant: key.tenant.clone().map(Text),
            created_at: key.created_at.into(),
            created_by: key.created_by.clone(),
            expires_at: key.expires_at.map(Moment),
            last_used_at: key.last_used_at.map(Moment),
        }
    }
}

/// A key of a server, with the hash of its secret.
pub fn stored_key(shown: Key, hash: KeyHash) -> ApiKey {
    ApiKey {
        id: shown.id.0,
        name: shown.name,
        role: shown.role.0,
        tenant: shown.tenant.map(|tenant| tenant.0),
        hash,
        created_at: shown.created_at.0,
        created_by: shown.created_by,
        expires_at: shown.expires_at.map(|moment| moment.0),
        last_used_at: shown.last_used_at.map(|moment| moment.0),
    }
}

impl From<NewKey> for KeyBody {
    fn from(new: NewKey) -> KeyBody {
        KeyBody {
            name: new.name,
            role: Text(new.role),
            tenant: new.tenant.map(Text),
            expires: new.expires.map(|time| Expiry::After(Span(time))),
        }
    }
}
