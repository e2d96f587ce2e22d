//! `windlass restore`: a backup becomes a store again, checked, and with fences that no worker of old can pass.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass::store::restore::{self, Restoring};

use super::{StoreArgs, output};

/// Flags of `restore`.
#[derive(Args)]
pub(super) struct RestoreArgs {
    /// The backup, as `windlass backup` wrote it.
    from: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(super) async fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let Some(to) = args.store.store.strip_prefix("sqlite:") else {
        anyhow::bail!(
            "only files are restored: a store in PostgreSQL is restored with that server's own tools"
        )
    };
    let told = |stage| match stage {
        Restoring::Copying => output::note(&format!("copying {}", args.from.display())),
        Restoring::Checking => output::note("checking every page and every invariant"),
        Restoring::Fencing(jobs) => output::note(&format!("raising the fences: {jobs} jobs")),
    };
    let restored = restore::restore(&args.from, to.as_ref(), told).await?;
    if args.json {
        let whole = json!({
            "store": args.store.store, "jobs": restored.jobs, "fenced": restored.fenced,
            "released": restored.released, "invariants": restored.invariants,
        });
        output::json(&whole)?;
    } else {
        output::line(&format!(
            "{} jobs, {} of them not over; {} were running and run again",
            restored.jobs, restored.fenced, restored.released
        ))?;
    }
    output::note(&format!(
        "restored to {0}: serve it with `windlass serve --store {0}`; what happened after the backup is not in it",
        args.store.store
    ));
    Ok(ExitCode::SUCCESS)
}
