//! Flags for how jobs are stored: maximum sizes, retention, checks.

use std::time::Duration;

use clap::Args;
use windlass::limits;
use windlass::store::{FileCheck, StoreOptions};
use windlass_api::time::Span;

use crate::commands::manage::tickets::TicketArgs;

/// How jobs are stored.
#[derive(Args)]
pub(crate) struct RetentionFlags {
    /// Maximum size of a payload, result or checkpoint in bytes.
    #[arg(
        long,
        env = "WINDLASS_PAYLOAD_BYTES_MAX",
        value_name = "BYTES",
        default_value_t = limits::PAYLOAD_BYTES_DEFAULT,
        value_parser = payload_bytes,
    )]
    payload_bytes_max: usize,
    /// How long idempotency keys are remembered.
    #[arg(long, env = "WINDLASS_IDEMPOTENCY_WINDOW", value_name = "DURATION", default_value = "1d")]
    idempotency_window: Span,
    /// How long final jobs are kept.
    #[arg(long, env = "WINDLASS_RETENTION", value_name = "DURATION", default_value = "7d")]
    retention: Span,
    /// How long dead letters are kept.
    #[arg(long, env = "WINDLASS_RETENTION_DEAD_LETTER", value_name = "DURATION", default_value = "30d")]
    retention_dead_letter: Span,
    /// When to check a SQLite file for damage at startup: in the background, or before serving.
    #[arg(long, env = "WINDLASS_FILE_CHECK", value_name = "WHEN", default_value = "background")]
    file_check: CheckTime,
    #[command(flatten)]
    pub(crate) tickets: TicketArgs,
}

/// When a file is checked.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CheckTime {
    Background,
    Before,
}

/// Parses the maximum size of a payload or result.
pub(crate) fn payload_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "is not a number of bytes".to_owned())?;
    if (1..=limits::PAYLOAD_BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("must be 1 to {}", limits::PAYLOAD_BYTES_MAX))
}

impl RetentionFlags {
    /// The store options these flags define.
    pub(crate) fn store_options(&self) -> anyhow::Result<StoreOptions> {
        let span = |Span(duration): Span| -> Duration { duration };
        Ok(StoreOptions {
            payload_bytes_max: self.payload_bytes_max,
            idempotency_window: span(self.idempotency_window),
            retention: span(self.retention),
            retention_dead_letter: span(self.retention_dead_letter),
            tickets: self.tickets.options()?,
            file_check: match self.file_check {
                CheckTime::Background => FileCheck::InBackground,
                CheckTime::Before => FileCheck::BeforeServing,
            },
            ..StoreOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        keeping: RetentionFlags,
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let flags = Flags::try_parse_from(["windlass"]).unwrap_or_else(|error| panic!("{error}"));
        let (ours, theirs) = (flags.keeping.store_options().unwrap(), StoreOptions::default());
        assert_eq!(ours.payload_bytes_max, theirs.payload_bytes_max);
        assert_eq!(ours.idempotency_window, theirs.idempotency_window);
        assert_eq!(
            (ours.retention, ours.retention_dead_letter),
            (theirs.retention, theirs.retention_dead_letter)
        );
        assert_eq!(ours.tickets, theirs.tickets);
    }
}
