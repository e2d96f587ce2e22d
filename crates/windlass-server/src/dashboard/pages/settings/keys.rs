//! API keys: create, with the secret shown once, and revoke.

use std::str::FromStr;

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::job::Tenant;
use windlass::key::KeyId;
use windlass::store::caller::Role;
use windlass::store::{CreatedKey, NewKey};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::requests::context::FormContext;

#[derive(Template)]
#[template(path = "key.html")]
struct KeyPage {
    layout: Layout,
    name: String,
    role: &'static str,
    secret: String,
    is_first: bool,
}

/// `POST /keys`
pub(in crate::dashboard) async fn create(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    let role = Role::from_str(form.need("role")?)
        .map_err(|problem| PageError::invalid(format!("role: {problem}")))?;
    let tenant = form.get("tenant").map(Tenant::new).transpose();
    let tenant = tenant.map_err(|problem| PageError::invalid(format!("tenant: {problem}")))?;
    let new =
        NewKey { name: form.need("name")?.to_owned(), role, tenant, expires: form.duration("expires")? };
    let CreatedKey { key, secret, .. } = board.store().create_key(&visitor.caller, new).await?;
    let page = KeyPage {
        layout: Layout::bare(&visitor, "settings", "New key"),
        name: key.name,
        role: key.role.as_str(),
        secret: secret.reveal().to_owned(),
        is_first: visitor.is_local,
    };
    show(&page)
}

/// `POST /keys/{id}/revoke`
pub(in crate::dashboard) async fn revoke(
    Path(id): Path<String>,
    FormContext { board, visitor, .. }: FormContext,
) -> Result<Response, PageError> {
    let id = KeyId::from_str(&id).map_err(|_| PageError::not_found("no such key"))?;
    board.store().revoke_key(&visitor.caller, id).await?;
    Ok(Redirect::to("/settings?done=revoked").into_response())
}
