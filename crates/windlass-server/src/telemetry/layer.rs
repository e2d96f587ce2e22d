//! Records spans and forwards finished ones. A span's fields describe it: `otel.name`, `otel.kind` and `otel.status_code`
//! as usual, `traceparent` for a remote parent, `link` for the `traceparent` of another trace that caused it, and `own` for
//! a context that was assigned before.

use std::fmt::Debug;

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use windlass::clock::{Clock, Stopwatch, SystemClock};
use windlass::entropy::Entropy;

use super::context::SpanContext;
use super::sampler::Sampler;

/// A recorded span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) context: SpanContext,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Nanoseconds since 1970.
    pub(super) began: u128,
    pub(super) ended: u128,
    pub(super) is_error: bool,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    /// The span of another trace that caused it.
    pub(super) link: Option<SpanContext>,
}

/// The kind of a span, by the numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Within this process.
    Internal = 1,
    /// Handles a request.
    Server = 2,
    /// Asks a server for something.
    Client = 3,
    /// Submits a job.
    Producer = 4,
    /// Processes a job.
    Consumer = 5,
}

/// An attribute's value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(String),
    Number(i64),
    Truth(bool),
}

/// Records spans.
pub(super) struct SpanLayer {
    ended: mpsc::Sender<Span>,
    entropy: Entropy,
    sampler: Sampler,
    /// Wall time at the start, and a monotonic clock since then: children never start before their parents.
    began: u128,
    watch: Stopwatch,
}

impl SpanLayer {
    /// Forwards to this channel; spans that do not fit are dropped, since nothing waits for a collector.
    pub(super) fn new(ended: mpsc::Sender<Span>, sampler: Sampler) -> SpanLayer {
        let millis = u128::try_from(SystemClock::new().now().as_millis()).unwrap_or_default();
        let began = millis * 1_000_000;
        SpanLayer { ended, entropy: Entropy::from_system(), sampler, began, watch: Stopwatch::start() }
    }

    /// As a layer that records only this project's spans.
    pub(super) fn watching<S>(self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let is_ours = filter_fn(|metadata| {
            metadata.is_span()
                && *metadata.level() <= Level::DEBUG
                && metadata.target().starts_with("windlass")
        });
        self.with_filter(is_ours.with_max_level_hint(tracing::level_filters::LevelFilter::DEBUG)).boxed()
    }

    fn now(&self) -> u128 {
        self.began + self.watch.elapsed().as_nanos()
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = span.parent().and_then(|parent| Some(parent.extensions().get::<Span>()?.context));
        let named = |text: &Option<String>| text.as_deref().and_then(SpanContext::named);
        let (remote, own, link) = (named(&fields.traceparent), named(&fields.own), named(&fields.link));
        let place = own.unwrap_or_else(|| match (remote, parent) {
            (Some(remote), _) => remote.child_of_remote(&self.entropy, self.sampler),
            (None, Some(parent)) => parent.child(&self.entropy),
            (None, None) => SpanContext::root(&self.entropy, self.sampler, link),
        });
        let mut begun = Span {
            context: place,
            name: span.name().to_owned(),
            kind: Kind::Internal,
            began: self.now(),
            ended: 0,
            is_error: false,
            attributes: Vec::new(),
            link,
        };
        fields.describe(&mut begun);
        span.extensions_mut().insert(begun);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(begun) = span.extensions_mut().get_mut::<Span>() {
            fields.describe(begun);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(ended) = span.extensions_mut().remove::<Span>() else { return };
        if ended.context.is_sampled {
            // A slow collector gets fewer spans; jobs do not wait for it.
            if self.ended.try_send(Span { ended: self.now(), ..ended }).is_err() {
                super::count_dropped(1);
            }
        }
    }
}

/// The fields of a span.
#[derive(Default)]
struct Fields {
    traceparent: Option<String>,
    own: Option<String>,
    link: Option<String>,
    name: Option<String>,
    kind: Option<Kind>,
    is_error: bool,
    attributes: Vec<(&'static str, Attribute)>,
}

impl Fields {
    fn describe(self, span: &mut Span) {
        if let Some(name) = self.name {
            span.name = name;
        }
        if let Some(kind) = self.kind {
            span.kind = kind;
        }
        span.is_error |= self.is_error;
        span.attributes.extend(self.attributes);
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "traceparent" => self.traceparent = Some(value.to_owned()),
            "link" => self.link = Some(value.to_owned()),
            "own" => self.own = Some(value.to_owned()),
            "otel.name" => self.name = Some(value.to_owned()),
            "otel.status_code" => self.is_error = value == "error",
            "otel.kind" => {
                self.kind = match value {
                    "server" => Some(Kind::Server),
                    "client" => Some(Kind::Client),
                    "producer" => Some(Kind::Producer),
                    "consumer" => Some(Kind::Consumer),
                    _ => None,
                }
            }
            name => self.attributes.push((name, Attribute::Text(value.to_owned()))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push((field.name(), Attribute::Number(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attributes.push((field.name(), Attribute::Truth(value)));
    }
}
