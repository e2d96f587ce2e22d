//! The log: lines on standard error, for people or for machines. It never contains payloads, results, keys or queries of
//! requests.

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::Telemetry;

/// Log options.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Format of log lines.
    #[arg(long, env = "WINDLASS_LOG_FORMAT", default_value = "pretty", value_name = "FORMAT")]
    log: LogFormat,
    /// Log level: error, warn, info, debug (every request), trace, or off.
    #[arg(long, env = "WINDLASS_LOG", default_value = "info", value_name = "LEVEL")]
    log_level: LevelFilter,
}

/// Format of log lines.
#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// Text for people.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl LogArgs {
    /// Whether the format is text for people.
    pub(crate) fn is_for_people(&self) -> bool {
        matches!(self.log, LogFormat::Pretty)
    }

    /// Whether informational lines are off.
    pub(crate) fn is_quiet(&self) -> bool {
        self.log_level < LevelFilter::INFO
    }

    /// Starts logging, and sending traces if the environment names a collector.
    pub(crate) fn start(&self) -> anyhow::Result<Telemetry> {
        // Only this project's lines: those of dependencies might contain data of requests.
        let ours = Targets::new().with_target("windlass", self.log_level);
        let lines = fmt::layer().with_writer(std::io::stderr);
        let lines = match self.log {
            LogFormat::Pretty => lines.with_target(false).boxed(),
            LogFormat::Json => {
                lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
            }
        };
        let (telemetry, spans) = Telemetry::from_environment()?;
        tracing_subscriber::registry().with(spans).with(lines.with_filter(ours)).try_init()?;
        Ok(telemetry)
    }
}

/// Logs only warnings and errors: for commands that print their own messages.
pub(crate) fn warn_only() -> anyhow::Result<Telemetry> {
    LogArgs { log: LogFormat::Pretty, log_level: LevelFilter::WARN }.start()
}
