//! Traces for an OpenTelemetry collector, configured by the standard variables, and the flush at shutdown. Spans are
//! defined where they are created; none contains payloads, results or keys.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod context;
#[cfg(feature = "otel")]
mod layer;
#[cfg(feature = "otel")]
mod otlp;
#[cfg(feature = "otel")]
mod resource;
#[cfg(feature = "otel")]
mod sampler;
#[cfg(feature = "otel")]
mod settings;
#[cfg(all(test, feature = "otel"))]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use tracing_subscriber::Layer;
use tracing_subscriber::registry::Registry;

#[cfg(feature = "otel")]
pub(crate) use self::context::adopt;

/// Spans of this process that were not sent.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many spans of this process were not sent: there were too many at once, or the collector did not accept them.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

#[cfg(feature = "otel")]
fn count_dropped(spans: usize) {
    DROPPED.fetch_add(u64::try_from(spans).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Traces being sent to a collector; empty if none is configured.
#[must_use = "`finish` sends the last spans"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    collector: Option<collector::Collector>,
}

/// The layer that records spans, if there is one.
type Watcher = Option<Box<dyn Layer<Registry> + Send + Sync>>;

impl Telemetry {
    /// Starts sending traces if the environment names a collector; the returned layer must be installed.
    #[cfg(feature = "otel")]
    pub fn from_environment() -> anyhow::Result<(Telemetry, Watcher)> {
        let Some(settings) = settings::Settings::from_environment()? else {
            return Ok((Telemetry { collector: None }, None));
        };
        let sampler = settings.sampler;
        let (collector, spans) = collector::Collector::start(settings);
        context::set_traced(sampler);
        Ok((Telemetry { collector: Some(collector) }, Some(layer::SpanLayer::new(spans, sampler).watching())))
    }

    /// Without the feature `otel` there is nothing to send.
    #[cfg(not(feature = "otel"))]
    #[allow(clippy::unnecessary_wraps, reason = "the same signature as with the feature")]
    pub fn from_environment() -> anyhow::Result<(Telemetry, Watcher)> {
        Ok((Telemetry {}, None))
    }

    /// Sends the remaining spans.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_async, reason = "the same signature"))]
    pub async fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(collector) = self.collector {
            collector.finish().await;
        }
    }
}
