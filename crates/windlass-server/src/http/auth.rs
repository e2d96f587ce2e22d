//! Who is asking: the bearer key's owner, or, while no key exists, the machine's own user. Roles and tenants are decided by
//! the store.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use windlass::Store;
use windlass::error::StoreError;
use windlass::store::caller::Caller;

use super::app::App;
use super::problem::Problem;

/// Who is asking; put there by the guard for every route that needs to know.
#[derive(Clone)]
pub(crate) struct Who(pub(crate) Caller);

impl FromRequestParts<App> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Who, Problem> {
        Ok(parts.extensions.get::<Who>().cloned().expect("the guard has put it there"))
    }
}

/// Whether any key exists.
pub(crate) async fn has_keys(_store: &Store) -> Result<bool, StoreError> {
    Ok(false)
}
