//! API keys in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::caller::Role;
use windlass_core::job::Tenant;
use windlass_core::key::KeyId;
use windlass_core::skip_none;

use crate::expires::Expiry;
use crate::text::Text;
use crate::time::Moment;

/// A key without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// Id.
    pub id: Text<KeyId>,
    /// Name of the key's holder.
    pub name: String,
    /// Role.
    #[schemars(with = "String")]
    pub role: Text<Role>,
    /// The tenant whose jobs it can access; null for all tenants.
    pub tenant: Option<Text<Tenant>>,
    /// When it was created.
    pub created_at: Moment,
    /// Who created it.
    pub created_by: String,
    /// When it expires; null if it does not.
    pub expires_at: Option<Moment>,
    /// When it was last used; null if it was not.
    pub last_used_at: Option<Moment>,
}

/// API keys, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyList")]
pub struct Keys {
    /// The keys.
    pub keys: Vec<Key>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// An API key to create.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyRequest")]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    /// Name of the key's holder.
    pub name: String,
    /// `admin`, `operator`, `submitter`, `worker`, `app` (submitter and worker in one) or `viewer`.
    pub role: Text<Role>,
    /// The tenant whose jobs it can access; `default` if not given, all tenants for an admin.
    pub tenant: Option<Text<Tenant>>,
    /// When it expires: a duration or a time.
    pub expires: Option<Expiry>,
}

/// A new API key.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The secret; it cannot be read again.
    pub secret: String,
}
