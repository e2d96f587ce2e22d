//! The trace a request belongs to, as W3C Trace Context writes it: the client's, or one that the server starts.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use windlass::entropy::Entropy;
use windlass::job::Traceparent;

use crate::http::app::App;

/// The header in which a trace is passed on, in requests and in answers.
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace of a request, if it has one that is well-formed.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<Traceparent> {
    Traceparent::parse(headers.get(&TRACEPARENT)?.to_str().ok()?)
}

/// The trace of a request; one that has none is given a new one, which whatever reads its headers then finds.
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
