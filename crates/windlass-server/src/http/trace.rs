//! The trace a request belongs to, as W3C Trace Context writes it. A malformed one counts as none, as that standard asks.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::app::App;

/// A `traceparent` header that is well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace(String);

impl Trace {
    /// The trace of a request, if it has one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Trace> {
        Trace::parse(headers.get("traceparent")?.to_str().ok()?)
    }

    /// A header's value, if it is well-formed.
    pub(crate) fn parse(text: &str) -> Option<Trace> {
        let parts: Vec<&str> = text.split('-').collect();
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
        let &[version, trace, parent, flags] = parts.as_slice() else { return None };
        let is_fit = is_hex(version, 2) && version != "ff" && is_hex(flags, 2);
        let has_ids = is_hex(trace, 32) && !is_zero(trace) && is_hex(parent, 16) && !is_zero(parent);
        (is_fit && has_ids).then(|| Trace(text.to_owned()))
    }

    /// The trace's own id.
    pub(crate) fn id(&self) -> &str {
        &self.0[3..35]
    }

    /// The span that the request is part of.
    #[cfg(feature = "otel")]
    pub(crate) fn span_id(&self) -> &str {
        &self.0[36..52]
    }

    /// Whether whoever began the trace wants it to be kept.
    #[cfg(feature = "otel")]
    pub(crate) fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.0[53..55], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The whole header.
    pub(crate) fn parent(&self) -> &str {
        &self.0
    }
}

/// The trace of this request, if it has one.
pub(crate) struct MaybeTrace(pub(crate) Option<Trace>);

impl FromRequestParts<App> for MaybeTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<MaybeTrace, Infallible> {
        Ok(MaybeTrace(parts.extensions.get::<Trace>().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn a_malformed_trace_counts_as_none() {
        let fine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(Trace::parse(fine).unwrap().id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
    }
}
