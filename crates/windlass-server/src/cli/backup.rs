//! `windlass backup`: copies a store while it is in use.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use super::{Missing, StoreArgs};

pub(super) async fn backup(args: &StoreArgs, to: &Path) -> anyhow::Result<ExitCode> {
    let store = args.open(Missing::Refuse)?;
    store.backup(to).await.with_context(|| format!("cannot copy to {}", to.display()))?;
    store.close();
    eprintln!("copied to {}; it opens as sqlite:{}", to.display(), to.display());
    Ok(ExitCode::SUCCESS)
}
