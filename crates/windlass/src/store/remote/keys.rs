//! API keys of a server: list, create, revoke; for admins.

use serde::Deserialize;
use serde_json::json;

use super::Remote;
use super::actions::given;
use super::client::Call;
use super::operations::unknown;
use super::text::{Moment, Span};
use crate::error::{ActError, StoreError};
use crate::job::Tenant;
use crate::key::{KeyHash, KeyId, KeySecret};
use crate::store::api::auth::{ApiKey, CreatedKey};
use crate::store::caller::Role;
use crate::store::command::key::NewKey;

#[derive(Deserialize)]
struct ShownKey {
    id: KeyId,
    name: String,
    role: Role,
    tenant: Option<Tenant>,
    created_at: Moment,
    created_by: String,
    expires_at: Option<Moment>,
    last_used_at: Option<Moment>,
    /// Only present if it was just created.
    secret: Option<String>,
}

impl ShownKey {
    fn into_key(self, hash: KeyHash) -> ApiKey {
        ApiKey {
            id: self.id,
            name: self.name,
            role: self.role,
            tenant: self.tenant,
            hash,
            created_at: self.created_at.0,
            created_by: self.created_by,
            expires_at: self.expires_at.map(|moment| moment.0),
            last_used_at: self.last_used_at.map(|moment| moment.0),
        }
    }
}

#[derive(Deserialize)]
struct ShownKeys {
    keys: Vec<ShownKey>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl Remote {
    pub(crate) async fn create_key(&self, new: NewKey) -> Result<CreatedKey, ActError> {
        let expires = new.expires.map(Span);
        let body = json!({"name": new.name, "role": new.role, "tenant": new.tenant, "expires": expires});
        let asked = self.client.ask::<ShownKey>(Call::post("/keys").json(&given(body))).await;
        let shown = asked.map_err(|error| error.into_act(unknown("keys")))?;
        let secret = shown.secret.as_deref().and_then(KeySecret::parse);
        let lost = || StoreError::Unreachable("it created a key but did not return its secret".into());
        let secret = secret.ok_or_else(lost)?;
        Ok(CreatedKey { key: shown.into_key(secret.hash()), secret })
    }

    pub(crate) async fn revoke_key(&self, id: KeyId) -> Result<(), ActError> {
        let done = self.client.done(Call::delete(format!("/keys/{id}"))).await;
        done.map(drop).map_err(|error| error.into_act(ActError::NoSuchKey(id)))
    }

    pub(crate) async fn keys(&self) -> Result<Vec<ApiKey>, ActError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let asked = self.client.ask::<ShownKeys>(Call::get("/keys").query_if("cursor", cursor)).await;
            let page = asked.map_err(|error| error.into_act(unknown("keys")))?;
            found.extend(page.keys.into_iter().map(|key| key.into_key(KeyHash::unknown())));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }
}
