//! `windlass restore`: turns a backup into a store. A file is copied and checked. A PostgreSQL database that was restored
//! with PostgreSQL's own tools stays in place. Both start a new generation: fences issued before are no longer accepted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass::store::caller::Caller;
use windlass::store::{self, Restoring};

use crate::commands::store_args::{Missing, StoreArgs};
use crate::output;

/// Flags of `restore`.
#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The backup, as written by `windlass backup`. Omit it for a store in PostgreSQL: restore the database with
    /// PostgreSQL's own tools first.
    from: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    match (args.store.store.strip_prefix("sqlite:"), &args.from) {
        (Some(to), Some(from)) => restore_file(args, from, to.as_ref()).await,
        (Some(_), None) => {
            anyhow::bail!("the backup is missing: windlass restore BACKUP --store sqlite:PATH")
        }
        (None, None) if args.store.store.starts_with("postgres") => begin_generation(args).await,
        (None, Some(_)) => anyhow::bail!(
            "only SQLite backups can be copied: restore a PostgreSQL database with PostgreSQL's own tools, \
             then run `windlass restore --store postgres://...` without a backup"
        ),
        (None, None) => anyhow::bail!("only SQLite and PostgreSQL stores can be restored"),
    }
}

async fn restore_file(args: &RestoreArgs, from: &Path, to: &Path) -> anyhow::Result<ExitCode> {
    let describe = |stage| match stage {
        Restoring::Copying => output::note(&format!("copying {}", from.display())),
        Restoring::Checking => output::note("checking every page and every invariant"),
        Restoring::Fencing => output::note("starting a new generation"),
        _ => {}
    };
    let restored = store::restore(from, to, describe).await?;
    if args.json {
        let whole = json!({
            "store": args.store.store, "generation": restored.generation, "jobs": restored.jobs,
            "open": restored.open, "released": restored.released, "invariants": restored.invariants,
        });
        output::json(&whole)?;
    } else {
        output::line(&format!(
            "generation {}: {} jobs, {} of them not final; {} were running and will run again",
            restored.generation, restored.jobs, restored.open, restored.released
        ))?;
    }
    output::note(&format!(
        "restored to {0}: serve it with `windlass serve --store {0}`; changes after the backup are lost",
        args.store.store
    ));
    Ok(ExitCode::SUCCESS)
}

/// For a restored database: invalidates the fences issued before, also if the loss was not detected.
async fn begin_generation(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let begun = store.begin_generation(&Caller::local(), "the database was restored").await;
    store.close();
    let begun = begun?;
    if args.json {
        output::json(&json!({"generation": begun.number, "released": begun.released}))?;
    } else {
        output::line(&format!(
            "generation {}: {} jobs were running and will run again",
            begun.number, begun.released
        ))?;
    }
    output::note("workers from before the restore can no longer write; `windlass verify` checks the data");
    Ok(ExitCode::SUCCESS)
}
