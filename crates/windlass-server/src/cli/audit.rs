//! `windlass audit`: reads the audit trail over HTTP, and proves on the store that it is as it was sealed.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::trail::{self, AuditListArgs};
use super::verify::{Bar, report};
use super::{Missing, ReportArgs};

/// What to do about the audit trail; without a word it is listed.
#[derive(Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    list: AuditListArgs,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// The records, oldest first
    List(Box<AuditListArgs>),
    /// Check that no record was edited, removed, added or moved; exits with 1 if one was
    Verify(ReportArgs),
}

pub(super) async fn audit(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => trail::audit(&args.list).await,
        Some(AuditCommand::List(list)) => trail::audit(list).await,
        Some(AuditCommand::Verify(report)) => verify(report).await,
    }
}

async fn verify(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let bar = Bar::new("records", args.json);
    let verdict = store.verify_audit_telling(bar.teller()).await;
    bar.remove();
    store.close();
    report(&[verdict?], args.json)
}
