//! `windlass tickets key`: creates a ticket signing key; and the flags for signing and verifying tickets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use windlass::entropy::Entropy;
use windlass::store::TicketOptions;
use windlass::ticket::{TicketKey, TicketPublicKey};

use windlass_api::time::Span;

use crate::output;

/// Ticket signing and verification.
#[derive(Args)]
#[allow(clippy::struct_field_names, reason = "a field has the name of its flag")]
pub(crate) struct TicketArgs {
    /// A file with the ticket signing key from `windlass tickets key`; tickets are off without it.
    #[arg(long, env = "WINDLASS_TICKET_KEY", value_name = "FILE")]
    ticket_key: Option<PathBuf>,
    /// Other trusted public keys, separated by commas: the previous key, or the keys of other nodes.
    #[arg(long, env = "WINDLASS_TICKET_TRUSTED", value_name = "PUBLIC_KEYS", value_delimiter = ',')]
    ticket_trusted: Vec<TicketPublicKey>,
    /// Maximum validity of a ticket; the lifetime of its job by default.
    #[arg(long, env = "WINDLASS_TICKET_LIFETIME", value_name = "DURATION")]
    ticket_lifetime: Option<Span>,
}

impl TicketArgs {
    /// The file with the ticket signing key.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        self.ticket_key.as_deref()
    }

    /// The options for a process that opens the store itself.
    pub(crate) fn options(&self) -> anyhow::Result<Option<TicketOptions>> {
        let Some(path) = &self.ticket_key else {
            anyhow::ensure!(
                self.ticket_trusted.is_empty() && self.ticket_lifetime.is_none(),
                "ticket_trusted and ticket_lifetime require ticket_key, which enables tickets"
            );
            return Ok(None);
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let key: TicketKey = text.parse().with_context(|| format!("in {shown}"))?;
        let lifetime = self.ticket_lifetime.map(|Span(duration)| duration);
        anyhow::ensure!(
            lifetime != Some(Duration::ZERO),
            "ticket_lifetime must not be zero: every ticket would be expired"
        );
        Ok(Some(TicketOptions { trusted: self.ticket_trusted.clone(), lifetime, ..TicketOptions::new(key) }))
    }

    /// The trusted keys for a worker that gets its jobs from a server: the server signs, the worker verifies.
    pub(crate) fn trusted(&self) -> anyhow::Result<Vec<TicketPublicKey>> {
        anyhow::ensure!(
            self.ticket_key.is_none() && self.ticket_lifetime.is_none(),
            "ticket_key and ticket_lifetime require --store; a worker of a server verifies with \
             --ticket-trusted"
        );
        Ok(self.ticket_trusted.clone())
    }
}

/// Create signing keys for tickets.
#[derive(Subcommand)]
pub(crate) enum TicketsCommand {
    /// Print a new key, for a file that only the server can read; the public key goes to standard error.
    Key {
        /// Print JSON with both keys.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn tickets(command: &TicketsCommand) -> anyhow::Result<ExitCode> {
    let TicketsCommand::Key { json: is_json } = command;
    let entropy = Entropy::from_system();
    let key = TicketKey::new([entropy.bits(), entropy.bits()]);
    if *is_json {
        output::json(&json!({"key": key.reveal(), "public": key.public().to_string()}))?;
    } else {
        output::line(&key.reveal())?;
        output::note(&format!("public key, for workers that verify tickets: {}", key.public()));
    }
    Ok(ExitCode::SUCCESS)
}
