//! API keys: list, create, revoke; for admins.

use windlass::store::NewKey;
use windlass_api::key::{CreatedKey, KeyBody, Keys};

use crate::http::reply::error::ApiError;
use crate::http::reply::response::{Created, JsonOk, NoContent};
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::KeyPath;
use crate::http::request::query::Query;

/// `GET /keys`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Keys>, ApiError> {
    let keys = app.store().keys(&caller).await?;
    // In order of creation.
    let (keys, next_cursor) =
        query.take(&keys, |key| format!("{:020}.{}", key.created_at.as_millis(), key.id))?;
    Ok(JsonOk(Keys { keys: keys.into_iter().map(Into::into).collect(), next_cursor }))
}

/// `POST /keys`
pub(crate) async fn create(
    Call { app, caller }: Call,
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
pub(crate) async fn revoke(Call { app, caller }: Call, KeyPath(id): KeyPath) -> Result<NoContent, ApiError> {
    app.store().revoke_key(&caller, id).await?;
    Ok(NoContent)
}
