//! The trace context of a span: from its own fields, from its parent, or a new one.

use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderValue};
use windlass::entropy::Entropy;
use windlass::job::Traceparent;

use super::sampler::Sampler;
use crate::http::trace_of;

/// Which traces this process sends; unset if it sends none.
static SAMPLER: OnceLock<Sampler> = OnceLock::new();

/// Marks this process as sending traces.
pub(super) fn set_traced(sampler: Sampler) {
    SAMPLER.get_or_init(|| sampler);
}

/// A span's trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// The parent span, if there is one.
    pub(super) parent: Option<u64>,
    /// Whether the trace is sampled.
    pub(super) is_sampled: bool,
}

impl SpanContext {
    /// The first span of a new trace. If another trace caused it, that one is its caller for the sampler.
    pub(super) fn root(entropy: &Entropy, sampler: Sampler, link: Option<SpanContext>) -> SpanContext {
        let trace = entropy.bits().max(1);
        let is_sampled = sampler.samples(trace, link.map(|link| link.is_sampled));
        SpanContext { trace, span: span_id(entropy), parent: None, is_sampled }
    }

    /// A child of a span of another process.
    pub(super) fn child_of_remote(self, entropy: &Entropy, sampler: Sampler) -> SpanContext {
        SpanContext { is_sampled: sampler.samples(self.trace, Some(self.is_sampled)), ..self.child(entropy) }
    }

    /// A child span.
    pub(super) fn child(self, entropy: &Entropy) -> SpanContext {
        SpanContext { span: span_id(entropy), parent: Some(self.span), ..self }
    }

    /// Parses a `traceparent`.
    pub(super) fn named(traceparent: &str) -> Option<SpanContext> {
        let trace = Traceparent::parse(traceparent)?;
        Some(SpanContext {
            trace: u128::from_str_radix(trace.id(), 16).ok()?,
            span: u64::from_str_radix(trace.span_id(), 16).ok()?,
            parent: None,
            is_sampled: trace.is_sampled(),
        })
    }

    /// The `traceparent` of this span.
    fn header(self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "half of the random bits are as random")]
fn span_id(entropy: &Entropy) -> u64 {
    (entropy.bits() as u64).max(1)
}

/// Starts a trace for a request without one, if traces are sent, so that the jobs it submits belong to it; returns its
/// `traceparent`.
pub(crate) fn adopt(headers: &mut HeaderMap, entropy: &Entropy) -> Option<String> {
    let sampler = *SAMPLER.get()?;
    if trace_of(headers).is_some() {
        return None;
    }
    // It would belong to the trace that is missing.
    headers.remove("tracestate");
    let own = SpanContext::root(entropy, sampler, None).header();
    headers.insert("traceparent", HeaderValue::from_str(&own).expect("digits are a header value"));
    Some(own)
}

#[cfg(test)]
mod tests {
    use windlass::entropy::Entropy;

    use super::{Sampler, SpanContext};

    #[test]
    fn a_span_is_named_and_found_by_its_header() {
        let root = SpanContext::root(&Entropy::seeded(1), Sampler::default(), None);
        assert_eq!(SpanContext::named(&root.header()), Some(root));
        let child = root.child(&Entropy::seeded(2));
        assert_eq!((child.trace, child.parent), (root.trace, Some(root.span)));
        assert_ne!(child.span, root.span);
        let unwanted = root.header().replace("-01", "-00");
        assert!(!SpanContext::named(&unwanted).unwrap().is_sampled);
        assert_eq!(SpanContext::named("x"), None);
    }
}
