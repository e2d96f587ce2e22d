//! `windlass backup`: copies a store while it is in use.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use crate::commands::store_args::{Missing, StoreArgs};
use crate::output;

/// Arguments of `backup`.
#[derive(Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// The file to write; it must not exist.
    to: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn backup(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let to = args.to.display();
    let copied = store.backup(&args.to).await;
    store.close();
    copied.with_context(|| format!("cannot copy to {to}"))?;
    if args.json {
        output::json(&json!({"from": args.store.shown(), "store": format!("sqlite:{to}")}))?;
    } else {
        output::note(&format!("copied to {to}; it opens as sqlite:{to}"));
    }
    Ok(ExitCode::SUCCESS)
}
