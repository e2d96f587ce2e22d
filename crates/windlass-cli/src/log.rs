//! The log: lines on standard error, for people or for machines. It never contains payloads, results, keys or queries of
//! requests.

mod line;

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::line::{Line, SpanIds, has_ids};
use windlass_server::telemetry::Telemetry;

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
        let level = self.log_level;
        let ours = filter_fn(move |metadata| {
            metadata.target().starts_with("windlass")
                && (*metadata.level() <= level || level != LevelFilter::OFF && has_ids(metadata))
        });
        let ours = ours.with_max_level_hint(level.max(LevelFilter::DEBUG));
        let (line, ids) = match self.log {
            LogFormat::Pretty => (Line::Text, SpanIds::Text),
            LogFormat::Json => (Line::json(), SpanIds::Json),
        };
        let lines = fmt::layer().fmt_fields(ids).event_format(line);
        let lines = lines.with_writer(|| OneLine(std::io::stderr()));
        let (telemetry, spans) = Telemetry::from_environment()?;
        tracing_subscriber::registry().with(spans).with(lines.with_filter(ours)).try_init()?;
        Ok(telemetry)
    }
}

/// Logs only warnings and errors: for commands that print their own messages.
pub(crate) fn warn_only() -> anyhow::Result<Telemetry> {
    LogArgs { log: LogFormat::Pretty, log_level: LevelFilter::WARN }.start()
}

/// Writes each event as one line: control characters, which may come from a client, are escaped. Otherwise a key with a
/// line break could forge a line, or one with escape sequences change the terminal that shows it.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Writes an event, which arrives as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        if line.contains(char::is_control) {
            let escape =
                |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
            let escaped: String = line.chars().map(escape).collect();
            self.0.write_all(format!("{escaped}{end}").as_bytes())?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_a_client_sent() {
        let mut written = OneLine(Vec::new());
        written.write_all("refused: ä `x`\n".as_bytes()).unwrap();
        written.write_all(b"refused: `x\n2026-11-16  INFO forged\x1b[31m\r\x7f`\n").unwrap();
        let lines = "refused: ä `x`\nrefused: `x\\n2026-11-16  INFO forged\\u{1b}[31m\\r\\u{7f}`\n";
        assert_eq!(String::from_utf8(written.0).unwrap(), lines);
    }
}
