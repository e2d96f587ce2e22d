//! `windlass tickets key`: a new key to sign tickets with.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use windlass::entropy::Entropy;
use windlass::ticket::TicketKey;

use super::output;

/// Make what tickets are signed with.
#[derive(Subcommand)]
pub(super) enum TicketsCommand {
    /// Print a new key, for a file that only the server reads; its public part goes to standard error.
    Key {
        /// Print JSON with both parts.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn tickets(command: &TicketsCommand) -> anyhow::Result<ExitCode> {
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
