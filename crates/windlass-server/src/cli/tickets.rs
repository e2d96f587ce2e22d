//! `windlass tickets key`: a new key to sign tickets with.

use std::process::ExitCode;

use clap::Subcommand;
use windlass::entropy::Entropy;
use windlass::ticket::TicketKey;

/// Make what tickets are signed with.
#[derive(Subcommand)]
pub(super) enum TicketsCommand {
    /// Print a new key, for a file that only the server reads; its public part goes to standard error.
    Key,
}

pub(super) fn tickets(command: &TicketsCommand) -> ExitCode {
    let TicketsCommand::Key = command;
    let entropy = Entropy::from_system();
    let key = TicketKey::new([entropy.bits(), entropy.bits()]);
    println!("{}", key.reveal());
    eprintln!("its public part, for workers that verify: {}", key.public());
    ExitCode::SUCCESS
}
