//! The trace of a request in W3C Trace Context format: the client's, or a new one.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use windlass::entropy::Entropy;
use windlass::job::Traceparent;

use crate::http::app::App;

/// The trace header of requests and responses.
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace of a request, if it has a well-formed one.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<Traceparent> {
    Traceparent::parse(headers.get(&TRACEPARENT)?.to_str().ok()?)
}

/// The trace of a request; starts a new one and adds it to the headers if there is none.
pub(crate) fn start_trace(headers: &mut HeaderMap, entropy: &Entropy) -> HeaderValue {
    let trace = trace_of(headers).unwrap_or_else(|| {
        let [trace, span] = [entropy.bits(), entropy.bits()];
        #[allow(clippy::cast_possible_truncation, reason = "half of the random bits are as random")]
        let span = span as u64;
        Traceparent::new(trace, span)
    });
    let value = HeaderValue::from_str(trace.as_str()).expect("digits are a header value");
    headers.insert(TRACEPARENT.clone(), value.clone());
    value
}

/// The trace of this request, if it has one.
pub(crate) struct MaybeTrace(pub(crate) Option<Traceparent>);

impl FromRequestParts<App> for MaybeTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<MaybeTrace, Infallible> {
        Ok(MaybeTrace(trace_of(&parts.headers)))
    }
}
