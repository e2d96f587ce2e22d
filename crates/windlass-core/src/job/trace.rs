//! Trace ids in W3C Trace Context format. Nothing here exports spans.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of a trace: 16 bytes, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceId(u128);

impl TraceId {
    /// The id with these bits; zero becomes another id.
    pub fn new(bits: u128) -> TraceId {
        TraceId(bits.max(1))
    }

    /// The id with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> TraceId {
        TraceId(u128::from_be_bytes(bytes))
    }

    /// The id's 16 bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A well-formed `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traceparent(String);

impl Traceparent {
    /// The first span of a sampled trace, from random bits.
    pub fn new(trace: u128, span: u64) -> Traceparent {
        Traceparent(format!("00-{}-{:016x}-01", TraceId::new(trace), span.max(1)))
    }

    /// Parses a header value; `None` if it is malformed, which the standard treats as absent.
    pub fn parse(text: &str) -> Option<Traceparent> {
        let parts: Vec<&str> = text.split('-').collect();
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
        let &[version, trace, parent, flags] = parts.as_slice() else { return None };
        let is_fit = is_hex(version, 2) && version != "ff" && is_hex(flags, 2);
        let has_ids = is_hex(trace, 32) && !is_zero(trace) && is_hex(parent, 16) && !is_zero(parent);
        (is_fit && has_ids).then(|| Traceparent(text.to_owned()))
    }

    /// The trace id.
    pub fn trace_id(&self) -> TraceId {
        TraceId(u128::from_str_radix(self.id(), 16).expect("it was parsed as hexadecimal digits"))
    }

    /// The trace id as text.
    pub fn id(&self) -> &str {
        &self.0[3..35]
    }

    /// The parent span of the work it is passed to.
    pub fn span_id(&self) -> &str {
        &self.0[36..52]
    }

    /// Whether the sampled flag is set.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.0[53..55], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The whole header value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The trace headers of a request, for the jobs that it submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeaders {
    /// The trace and the span of the caller.
    pub traceparent: Traceparent,
    /// Data of tracing systems about this trace, such as sampling decisions.
    pub tracestate: Option<String>,
    /// Data of the application, for everything that the request causes.
    pub baggage: Option<String>,
}
