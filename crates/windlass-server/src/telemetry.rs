//! Traces for a collector, as OpenTelemetry has them: what the standard variables ask for, and the end in good order. Which
//! spans there are is decided where they are made; no payload, result or key is in any.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod context;
#[cfg(feature = "otel")]
mod layer;
#[cfg(feature = "otel")]
mod otlp;
#[cfg(feature = "otel")]
mod settings;
#[cfg(all(test, feature = "otel"))]
mod tests;

use tracing_subscriber::Layer;
use tracing_subscriber::registry::Registry;

#[cfg(feature = "otel")]
pub(crate) use self::context::adopt;

/// Traces on their way to a collector; nothing if nobody asked for them.
#[must_use = "the last spans are sent by `finish`"]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    collector: Option<collector::Collector>,
}

/// What watches spans, if anything does.
type Watcher = Option<Box<dyn Layer<Registry> + Send + Sync>>;

impl Telemetry {
    /// Begins to send traces, if the environment names a collector; what is returned beside it must watch the spans.
    #[cfg(feature = "otel")]
    pub(crate) fn from_environment() -> anyhow::Result<(Telemetry, Watcher)> {
        let Some(settings) = settings::Settings::from_environment()? else {
            return Ok((Telemetry { collector: None }, None));
        };
        let (collector, spans) = collector::Collector::start(settings);
        context::set_traced();
        Ok((Telemetry { collector: Some(collector) }, Some(layer::SpanLayer::new(spans).watching())))
    }

    /// Without the feature `otel` there is nothing to send.
    #[cfg(not(feature = "otel"))]
    #[allow(clippy::unnecessary_wraps, reason = "the same signature as with the feature")]
    pub(crate) fn from_environment() -> anyhow::Result<(Telemetry, Watcher)> {
        Ok((Telemetry {}, None))
    }

    /// Sends what is left.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_async, reason = "the same signature"))]
    pub(crate) async fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(collector) = self.collector {
            collector.finish().await;
        }
    }
}
