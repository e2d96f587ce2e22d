//! Query parameters. An empty value counts as not given; an invalid value is 422 and names the parameter. The middleware
//! rejects unknown parameters before.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::request::json::{dotted, misfit};

/// A request's query.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Query<T>, ApiError> {
        decode(parts.uri.query().unwrap_or_default()).map(Query)
    }
}

pub(super) fn decode<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let given = form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty());
    let given = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    let parameters = serde_urlencoded::Deserializer::new(form_urlencoded::parse(given.as_bytes()));
    serde_path_to_error::deserialize(parameters).map_err(|error| {
        let path = dotted(error.path());
        misfit(&path, &error.into_inner().to_string())
    })
}
