//! The log: lines on standard error, for people or for machines. It tells what the server does and never what it carries: no
//! payload, no result, no key, no query of a request.

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::Telemetry;

/// How to log.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// How lines of the log look.
    #[arg(long, env = "WINDLASS_LOG_FORMAT", default_value = "pretty", value_name = "FORMAT")]
    log: LogFormat,
    /// What is logged: error, warn, info, debug (every request), trace, or off.
    #[arg(long, env = "WINDLASS_LOG", default_value = "info", value_name = "LEVEL")]
    log_level: LevelFilter,
}

/// How lines of the log look.
#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// Text for people.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl LogArgs {
    /// Whether lines are text that a person reads.
    pub(crate) fn is_for_people(&self) -> bool {
        matches!(self.log, LogFormat::Pretty)
    }

    /// Whether what goes well is left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.log_level < LevelFilter::INFO
    }

    /// Logs from here on, and sends traces if the environment names a collector.
    pub(crate) fn start(&self) -> anyhow::Result<Telemetry> {
        // Only what this project says: what others would say of what they carry is not ours to vouch for.
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

/// Logs only what went wrong: for commands that have their own way to say what they do.
pub(crate) fn warn_only() -> anyhow::Result<Telemetry> {
    LogArgs { log: LogFormat::Pretty, log_level: LevelFilter::WARN }.start()
}
