//! API keys: list, create, revoke; for admins.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::job::Tenant;
use windlass::key::KeyId;
use windlass::store::api::auth::ApiKey;
use windlass::store::caller::Role;
use windlass::store::command::key::NewKey;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::{Created, JsonOk, NoContent};
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::request::path::KeyPath;
use crate::http::request::query::Query;
use crate::http::wire::expires::Expiry;
use crate::http::wire::page::PageQuery;
use crate::http::wire::text::Text;
use crate::http::wire::time::Moment;

/// A key without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub(crate) struct KeyView {
    id: Text<KeyId>,
    name: String,
    role: &'static str,
    /// The tenant whose jobs it can access; null for all tenants.
    tenant: Option<Text<Tenant>>,
    created_at: Moment,
    created_by: String,
    expires_at: Option<Moment>,
    last_used_at: Option<Moment>,
}

impl From<&ApiKey> for KeyView {
    fn from(key: &ApiKey) -> KeyView {
        KeyView {
            id: Text(key.id.clone()),
            name: key.name.clone(),
            role: key.role.as_str(),
            tenant: key.tenant.clone().map(Text),
            created_at: key.created_at.into(),
            created_by: key.created_by.clone(),
            expires_at: key.expires_at.map(Moment),
            last_used_at: key.last_used_at.map(Moment),
        }
    }
}

/// API keys, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Keys {
    keys: Vec<KeyView>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// `GET /keys`
pub(crate) async fn list(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Keys>, ApiError> {
    let keys = app.store().keys(&caller).await?;
    // In order of creation.
    let (keys, next_cursor) =
        query.of(&keys, |key| format!("{:020}.{}", key.created_at.as_millis(), key.id))?;
    Ok(JsonOk(Keys { keys: keys.into_iter().map(KeyView::from).collect(), next_cursor }))
}

/// An API key to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// Name of the key's holder.
    name: String,
    /// `admin`, `operator`, `submitter`, `worker`, `app` (submitter and worker in one) or `viewer`.
    role: Text<Role>,
    /// The tenant whose jobs it can access; `default` if not given, all tenants for an admin.
    tenant: Option<Text<Tenant>>,
    /// When it expires: a duration or a time.
    expires: Option<Expiry>,
}

/// A new API key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedKey {
    #[serde(flatten)]
    key: KeyView,
    /// The secret; it cannot be read again.
    secret: String,
}

/// `POST /keys`
pub(crate) async fn create(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Body(body): Body<KeyBody>,
) -> Result<Created<CreatedKey>, ApiError> {
    let new = NewKey {
        name: body.name,
        role: body.role.0,
        tenant: body.tenant.map(|tenant| tenant.0),
        expires: body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?,
    };
    let created = app.store().create_key(&caller, new).await?;
    let secret = created.secret.reveal().to_owned();
    Ok(Created(CreatedKey { key: (&created.key).into(), secret }))
}

/// `DELETE /keys/{id}`
pub(crate) async fn revoke(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    KeyPath(id): KeyPath,
) -> Result<NoContent, ApiError> {
    app.store().revoke_key(&caller, id).await?;
    Ok(NoContent)
}
