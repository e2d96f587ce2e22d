//! `windlass audit`: reads the audit trail over HTTP, and proves on the store that it is as it was sealed.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use windlass::audit::Seal;
use windlass::store::verify::AuditCheck;
use windlass::ticket::TicketPublicKey;

use crate::cli::connection::client::Call;
use crate::cli::connection::connect::ConnectArgs;
use crate::cli::exit_code::Exit;
use crate::cli::manage::audit_list::{self, AuditListArgs};
use crate::cli::stores::verify::{Bar, report};
use crate::cli::{Missing, ReportArgs, output};

/// What to do about the audit trail; without a word it is listed.
#[derive(Args)]
pub(in crate::cli) struct AuditArgs {
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
    Verify(Box<VerifyArgs>),
    /// Print the head of the trail, NUMBER:HASH, to keep outside the store for `audit verify --expect-head`; asks the server
    Head(ConnectArgs),
}

/// What the trail is compared with.
#[derive(Args)]
struct VerifyArgs {
    #[command(flatten)]
    report: ReportArgs,
    /// A head that was kept outside the store, as `windlass audit head` printed it: the record with its number must still have its
    /// hash. The trail may have grown since
    #[arg(long, value_name = "NUMBER:HASH")]
    expect_head: Option<Seal>,
    /// Public keys whose signatures on seals count, separated by commas; the newest seal must then be signed by one of them.
    /// Without it signatures are checked against the keys that they name
    #[arg(long, env = "WINDLASS_TICKET_TRUSTED", value_name = "PUBLIC_KEYS", value_delimiter = ',')]
    trusted: Vec<TicketPublicKey>,
}

pub(in crate::cli) async fn audit(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => audit_list::audit(&args.list).await,
        Some(AuditCommand::List(list)) => audit_list::audit(list).await,
        Some(AuditCommand::Verify(args)) => verify(args).await,
        Some(AuditCommand::Head(connect)) => head(connect).await,
    }
}

async fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let is_json = args.report.json;
    let store = args.report.store.open(Missing::Refuse)?;
    let bar = Bar::new("records", is_json);
    let check = AuditCheck { expected_head: args.expect_head.clone(), trusted: args.trusted.clone() };
    let verdict = store.verify_audit_telling(check, bar.teller()).await;
    bar.remove();
    store.close();
    report(&[verdict?], is_json)
}

async fn head(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let found = connect.client()?.value(Call::get(&["audit", "head"])).await?;
    if connect.json {
        output::json(&found)?;
        return Ok(Exit::Done.into());
    }
    match found["head"].as_str() {
        Some(head) => output::line(head)?,
        None => output::note("nothing is sealed yet"),
    }
    Ok(Exit::Done.into())
}
