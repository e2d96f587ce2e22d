//! `windlass tickets key`: a new key to sign tickets with; and the flags of those who sign and verify.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use windlass::entropy::Entropy;
use windlass::store::environment::TicketOptions;
use windlass::ticket::{TicketKey, TicketPublicKey};

use crate::http::Span;

use crate::cli::output;

/// Which tickets are signed, and which are good.
#[derive(Args)]
#[allow(clippy::struct_field_names, reason = "a field has the name of its flag")]
pub(in crate::cli) struct TicketArgs {
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

impl TicketArgs {
    /// The file with the key that tickets are signed with.
    pub(in crate::cli) fn key_file(&self) -> Option<&Path> {
        self.ticket_key.as_deref()
    }

    /// What they mean for a process that keeps a store.
    pub(in crate::cli) fn options(&self) -> anyhow::Result<Option<TicketOptions>> {
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

    /// What they mean for a worker that is handed jobs by a server: that one signs, and this one verifies.
    pub(in crate::cli) fn trusted(&self) -> anyhow::Result<Vec<TicketPublicKey>> {
        anyhow::ensure!(
            self.ticket_key.is_none() && self.ticket_lifetime.is_none(),
            "ticket_key and ticket_lifetime are for --store: through a server, jobs are verified with --ticket-trusted"
        );
        Ok(self.ticket_trusted.clone())
    }
}

/// Make what tickets are signed with.
#[derive(Subcommand)]
pub(in crate::cli) enum TicketsCommand {
    /// Print a new key, for a file that only the server reads; its public part goes to standard error.
    Key {
        /// Print JSON with both parts.
        #[arg(long)]
        json: bool,
    },
}

pub(in crate::cli) fn tickets(command: &TicketsCommand) -> anyhow::Result<ExitCode> {
    let TicketsCommand::Key { json: is_json } = command;
    let entropy = Entropy::from_system();
    let key = TicketKey::new([entropy.bits(), entropy.bits()]);
    if *is_json {
        output::json(&json!({"key": key.reveal(), "public": key.public().to_string()}))?;
    } else {
        output::line(&key.reveal())?;
        output::note(&format!("its public part, for workers that verify: {}", key.public()));
    }
    Ok(ExitCode::SUCCESS)
}
