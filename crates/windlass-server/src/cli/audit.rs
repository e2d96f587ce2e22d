//! `windlass audit verify`: proves that the audit trail is as it was sealed.

use std::process::ExitCode;

use super::verify::report;
use super::{Missing, ReportArgs};

pub(super) async fn verify(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let verdict = store.verify_audit().await?;
    store.close();
    Ok(report(&[verdict], args.json))
}
