//! `windlass migrate`: migrates a store to this version's schema, or prints the steps.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass::store::Schema;

use crate::commands::store_args::{Missing, StoreArgs};
use crate::output;

/// Flags of `migrate`.
#[derive(Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Only print what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn migrate(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let place = args.store.shown();
    let schema = Schema::read(&args.store.store).map_err(|error| {
        anyhow::anyhow!("cannot read {place}: {}", error.to_string().replace(&args.store.store, &place))
    })?;
    if !args.dry_run && !schema.pending.is_empty() {
        // Opening a store migrates it, under a lock; each step is one transaction.
        args.store.open(Missing::Create)?.close();
    }
    if args.json {
        let whole = json!({
            "store": place, "found": schema.found, "known": schema.known, "steps": schema.pending,
            "done": !args.dry_run,
        });
        output::json(&whole)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&match (schema.found, schema.pending.len()) {
        (found, 0) => format!("{place} has schema {found}, the newest; nothing to do"),
        (0, _) => format!("{place} has no schema yet; this version has schema {}", schema.known),
        (found, _) => format!("{place} has schema {found}; this version has schema {}", schema.known),
    })?;
    let word = if args.dry_run { "would be done" } else { "done" };
    for step in &schema.pending {
        output::line(&format!("{word}: {step}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
