//! API keys of a server: list, create, revoke; for admins.

use windlass_api::key::{KeyBody, Keys};

use super::Remote;
use super::client::Call;
use super::error::unknown;
use crate::error::{ActionError, StoreError};
use crate::key::{KeyHash, KeyId, KeySecret};
use crate::store::command::key::NewKey;
use crate::store::methods::auth::{ApiKey, CreatedKey};
use crate::store::wire::key::stored_key;

impl Remote {
    pub(crate) async fn create_key(&self, new: NewKey) -> Result<CreatedKey, ActionError> {
        let call = Call::post("/keys").json(&KeyBody::from(new));
        let asked = self.client.ask::<windlass_api::key::CreatedKey>(call).await;
        let shown = asked.map_err(|error| error.into_act(unknown("keys")))?;
        let secret = KeySecret::parse(&shown.secret);
        let lost = || StoreError::Unreachable("it created a key but did not return its secret".into());
        let secret = secret.ok_or_else(lost)?;
        Ok(CreatedKey { key: stored_key(shown.key, secret.hash()), secret })
    }

    pub(crate) async fn revoke_key(&self, id: KeyId) -> Result<(), ActionError> {
        let done = self.client.done(Call::delete(format!("/keys/{id}"))).await;
        done.map(drop).map_err(|error| error.into_act(ActionError::NoSuchKey(id)))
    }

    pub(crate) async fn keys(&self) -> Result<Vec<ApiKey>, ActionError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let asked = self.client.ask::<Keys>(Call::get("/keys").query_if("cursor", cursor)).await;
            let page = asked.map_err(|error| error.into_act(unknown("keys")))?;
            found.extend(page.keys.into_iter().map(|key| stored_key(key, KeyHash::unknown())));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }
}
