//! Flags for how jobs are kept: how large, for how long, and signed with what.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use windlass::limits;
use windlass::store::environment::{StoreOptions, TicketOptions};
use windlass::ticket::{TicketKey, TicketPublicKey};

use crate::http::Span;

/// How jobs are kept.
#[derive(Args)]
pub(super) struct KeepingArgs {
    /// Largest payload, result or checkpoint in bytes.
    #[arg(
        long,
        env = "WINDLASS_PAYLOAD_BYTES_MAX",
        value_name = "BYTES",
        default_value_t = limits::PAYLOAD_BYTES_DEFAULT,
        value_parser = payload_bytes,
    )]
    payload_bytes_max: usize,
    /// For how long idempotency keys are remembered.
    #[arg(long, env = "WINDLASS_IDEMPOTENCY_WINDOW", value_name = "DURATION", default_value = "1d")]
    idempotency_window: Span,
    /// For how long jobs are kept after their end.
    #[arg(long, env = "WINDLASS_RETENTION", value_name = "DURATION", default_value = "7d")]
    retention: Span,
    /// For how long dead letters are kept.
    #[arg(long, env = "WINDLASS_RETENTION_DEAD_LETTER", value_name = "DURATION", default_value = "30d")]
    retention_dead_letter: Span,
    /// A file with the key that tickets are signed with, from `windlass tickets key`; without it there are no tickets.
    #[arg(long, env = "WINDLASS_TICKET_KEY", value_name = "FILE")]
    ticket_key: Option<PathBuf>,
    /// Public parts of other keys whose tickets are good, separated by commas: that of the key before, those of other nodes.
    #[arg(long, env = "WINDLASS_TICKET_TRUSTED", value_name = "PUBLIC_KEYS", value_delimiter = ',')]
    ticket_trusted: Vec<TicketPublicKey>,
    /// How long a ticket is good at most; as long as its job lives if not given.
    #[arg(long, env = "WINDLASS_TICKET_LIFETIME", value_name = "DURATION")]
    ticket_lifetime: Option<Span>,
}

/// Reads how large a payload or result may be.
pub(super) fn payload_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "is no number of bytes".to_owned())?;
    if (1..=limits::PAYLOAD_BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("allowed is 1 to {}", limits::PAYLOAD_BYTES_MAX))
}

impl KeepingArgs {
    /// The options that these flags ask for.
    pub(super) fn store_options(&self) -> anyhow::Result<StoreOptions> {
        let span = |Span(duration): Span| -> Duration { duration };
        Ok(StoreOptions {
            payload_bytes_max: self.payload_bytes_max,
            idempotency_window: span(self.idempotency_window),
            retention: span(self.retention),
            retention_dead_letter: span(self.retention_dead_letter),
            tickets: self.ticket_options()?,
            ..StoreOptions::default()
        })
    }

    fn ticket_options(&self) -> anyhow::Result<Option<TicketOptions>> {
        let Some(path) = &self.ticket_key else {
            anyhow::ensure!(
                self.ticket_trusted.is_empty() && self.ticket_lifetime.is_none(),
                "ticket_trusted and ticket_lifetime are for tickets, which ticket_key switches on"
            );
            return Ok(None);
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let key: TicketKey = text.parse().with_context(|| format!("in {shown}"))?;
        let lifetime = self.ticket_lifetime.map(|Span(duration)| duration);
        anyhow::ensure!(lifetime != Some(Duration::ZERO), "ticket_lifetime: no ticket would be good");
        Ok(Some(TicketOptions { trusted: self.ticket_trusted.clone(), lifetime, ..TicketOptions::new(key) }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        keeping: KeepingArgs,
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
