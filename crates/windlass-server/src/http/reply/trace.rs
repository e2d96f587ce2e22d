//! The trace of a request in W3C Trace Context format: the client's, or a new one.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use windlass::entropy::Entropy;
use windlass::job::{TraceHeaders, Traceparent};
use windlass::limits::{BAGGAGE_CHARS_MAX, TRACESTATE_CHARS_MAX};

use crate::http::app::App;

/// The trace header of requests and responses.
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace of a request, if it has a well-formed one.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<Traceparent> {
    Traceparent::parse(headers.get(&TRACEPARENT)?.to_str().ok()?)
}

/// The trace headers of a request, if it has a well-formed trace. Values that are too long are left out: a request does not
/// fail because of what a proxy added.
fn trace_headers(headers: &HeaderMap) -> Option<TraceHeaders> {
    let joined = |name: &str, chars_max: usize| {
        let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(|line| line.to_str().ok()).collect();
        let text = lines?.join(",");
        (!text.is_empty() && text.len() <= chars_max && !text.contains(char::is_control)).then_some(text)
    };
    Some(TraceHeaders {
        traceparent: trace_of(headers)?,
        tracestate: joined("tracestate", TRACESTATE_CHARS_MAX),
        baggage: joined("baggage", BAGGAGE_CHARS_MAX),
    })
}

/// The trace of a request; starts a new one and adds it to the headers if there is none.
pub(crate) fn start_trace(headers: &mut HeaderMap, entropy: &Entropy) -> HeaderValue {
    let trace = trace_of(headers).unwrap_or_else(|| {
        // It belongs to the trace that is missing.
        headers.remove("tracestate");
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
pub(crate) struct MaybeTrace(pub(crate) Option<TraceHeaders>);

impl FromRequestParts<App> for MaybeTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<MaybeTrace, Infallible> {
        Ok(MaybeTrace(trace_headers(&parts.headers)))
    }
}
