//! `windlass webhooks`: the secret by which receivers of callbacks and pushes know who calls.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::job::Tenant;
use windlass::store::caller::Caller;

use crate::cli::{Missing, StoreArgs, output};
use crate::webhooks::signature::{Endpoint, Purpose};

/// What to do about webhooks.
#[derive(Subcommand)]
pub(in crate::cli) enum WebhooksCommand {
    /// Print the secrets that sign what is sent to an address, the newest first.
    Secret(SecretArgs),
}

/// Which secret.
#[derive(Args)]
pub(in crate::cli) struct SecretArgs {
    /// The receiver's address; its query does not matter.
    url: String,
    /// For jobs that are pushed there, instead of reports of ends.
    #[arg(long)]
    push: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Whose; the default tenant's if not given.
    #[arg(long, value_parser = tenant)]
    tenant: Option<Tenant>,
    /// Make new ones for all of the tenant's receivers first; those before sign beside them for a day.
    #[arg(long)]
    rotate: bool,
    /// Print JSON instead of a line for each.
    #[arg(long)]
    json: bool,
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|problem| problem.to_string())
}

pub(in crate::cli) async fn webhooks(command: &WebhooksCommand) -> anyhow::Result<ExitCode> {
    let WebhooksCommand::Secret(args) = command;
    let purpose = if args.push { Purpose::Push } else { Purpose::Callback };
    let endpoint =
        Endpoint::new(purpose, &args.url).map_err(|error| anyhow::anyhow!("the address {error}"))?;
    let store = args.store.open(Missing::Create)?;
    let (me, tenant) = (Caller::local(), args.tenant.clone());
    let secrets = if args.rotate {
        store.rotate_webhook_secret(&me, tenant).await?
    } else {
        store.webhook_secrets(&me, tenant).await?
    };
    store.close();
    let secrets: Vec<String> = secrets.iter().filter_map(|secret| endpoint.secret(secret.reveal())).collect();
    if args.json {
        output::json(&json!({"secrets": secrets}))?;
    } else {
        for secret in &secrets {
            output::line(secret)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
