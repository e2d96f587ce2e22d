//! `windlass audit`: reads the audit trail over HTTP, and verifies the hash chain in the store.

pub(crate) mod list;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use windlass::audit::Seal;
use windlass::store::verify::AuditCheck;
use windlass::ticket::TicketPublicKey;
use windlass_api::record::HeadView;

use self::list::AuditListArgs;
use crate::commands::store_args::{Missing, ReportArgs};
use crate::commands::stores::verify::{Bar, report};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;

/// Arguments of `audit`; lists records if no subcommand is given.
#[derive(Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    list: AuditListArgs,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// List records, oldest first
    List(Box<AuditListArgs>),
    /// Check that no record was edited, removed, added or moved; exits with 1 if one was
    Verify(Box<VerifyArgs>),
    /// Print the head of the audit chain as NUMBER:HASH, to be stored outside the database for `audit verify
    /// --expect-head`; queries the server
    Head(ConnectArgs),
}

/// What to compare the audit chain with.
#[derive(Args)]
struct VerifyArgs {
    #[command(flatten)]
    report: ReportArgs,
    /// A head printed earlier by `windlass audit head`: the record with this number must still have this hash. Later
    /// records are allowed
    #[arg(long, value_name = "NUMBER:HASH")]
    expect_head: Option<Seal>,
    /// Trusted public keys, separated by commas; the newest seal must be signed by one of them. Without
    /// this, signatures are checked against the keys they name
    #[arg(long, env = "WINDLASS_TICKET_TRUSTED", value_name = "PUBLIC_KEYS", value_delimiter = ',')]
    trusted: Vec<TicketPublicKey>,
}

pub(crate) async fn audit(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list::audit(&args.list).await,
        Some(AuditCommand::List(list)) => list::audit(list).await,
        Some(AuditCommand::Verify(args)) => verify(args).await,
        Some(AuditCommand::Head(connect)) => head(connect).await,
    }
}

async fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let is_json = args.report.json;
    let store = args.report.store.open(Missing::Refuse)?;
    let bar = Bar::new("records", is_json);
    let check = AuditCheck { expected_head: args.expect_head.clone(), trusted: args.trusted.clone() };
    let result = store.verify_audit_with_progress(check, bar.teller()).await;
    bar.remove();
    store.close();
    report(&[result?], is_json)
}

async fn head(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let found = connect.client()?.show::<HeadView>(Call::get(&["audit", "head"])).await?;
    match found.map(|found| found.head) {
        Some(Some(head)) => output::line(&head)?,
        Some(None) => output::note("the audit trail has no seal yet"),
        None => {}
    }
    Ok(Exit::Done.into())
}
