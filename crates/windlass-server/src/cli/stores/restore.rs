//! `windlass restore`: a backup becomes a store again. A file is copied and checked; a database that was put back with
//! PostgreSQL's own tools stays where it is. Either way a new generation begins: no fence given out before is accepted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass::store::api::restore::{self, Restoring};
use windlass::store::caller::Caller;

use crate::cli::{Missing, StoreArgs, output};

/// Flags of `restore`.
#[derive(Args)]
pub(in crate::cli) struct RestoreArgs {
    /// The backup, as `windlass backup` wrote it. None for a store in PostgreSQL: put the database back with that server's
    /// own tools first.
    from: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) async fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    match (args.store.store.strip_prefix("sqlite:"), &args.from) {
        (Some(to), Some(from)) => restore_file(args, from, to.as_ref()).await,
        (Some(_), None) => anyhow::bail!("name the backup: windlass restore BACKUP --store sqlite:PATH"),
        (None, None) if args.store.store.starts_with("postgres") => begin_generation(args).await,
        (None, Some(_)) => anyhow::bail!(
            "only files are copied: put a store in PostgreSQL back with that server's own tools, then run \
             `windlass restore --store postgres://...` without a backup"
        ),
        (None, None) => anyhow::bail!("only stores in files and in PostgreSQL are restored"),
    }
}

async fn restore_file(args: &RestoreArgs, from: &Path, to: &Path) -> anyhow::Result<ExitCode> {
    let told = |stage| match stage {
        Restoring::Copying => output::note(&format!("copying {}", from.display())),
        Restoring::Checking => output::note("checking every page and every invariant"),
        Restoring::Fencing => output::note("beginning a new generation"),
    };
    let restored = restore::restore(from, to, told).await?;
    if args.json {
        let whole = json!({
            "store": args.store.store, "generation": restored.generation, "jobs": restored.jobs,
            "open": restored.open, "released": restored.released, "invariants": restored.invariants,
        });
        output::json(&whole)?;
    } else {
        output::line(&format!(
            "generation {}: {} jobs, {} of them not final; {} were running and run again",
            restored.generation, restored.jobs, restored.open, restored.released
        ))?;
    }
    output::note(&format!(
        "restored to {0}: serve it with `windlass serve --store {0}`; what happened after the backup is not in it",
        args.store.store
    ));
    Ok(ExitCode::SUCCESS)
}

/// For a database that was put back: makes the fences of before stale, also those that nobody noticed the loss of.
async fn begin_generation(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let begun = store.begin_generation(&Caller::local(), "the database was restored").await;
    store.close();
    let begun = begun?;
    if args.json {
        output::json(&json!({"generation": begun.number, "released": begun.released}))?;
    } else {
        output::line(&format!(
            "generation {}: {} jobs were running and run again",
            begun.number, begun.released
        ))?;
    }
    output::note("workers from before the restore cannot write any more; `windlass verify` checks the data");
    Ok(ExitCode::SUCCESS)
}
