//! `windlass webhooks`: the secret by which receivers of callbacks and pushes know who calls.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::job::Tenant;
use windlass::store::caller::Caller;
use windlass::store::webhook::WebhookSecret;

use super::{Missing, StoreArgs, output};

/// What to do about webhooks.
#[derive(Subcommand)]
pub(super) enum WebhooksCommand {
    /// Print the secrets that sign what is sent for a tenant, the newest first.
    Secret(SecretArgs),
}

/// Whose secret.
#[derive(Args)]
pub(super) struct SecretArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Whose; the default tenant's if not given.
    #[arg(long, value_parser = tenant)]
    tenant: Option<Tenant>,
    /// Make a new one first; the one before signs beside it for a day.
    #[arg(long)]
    rotate: bool,
    /// Print JSON instead of a line for each.
    #[arg(long)]
    json: bool,
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|problem| problem.to_string())
}

pub(super) async fn webhooks(command: &WebhooksCommand) -> anyhow::Result<ExitCode> {
    let WebhooksCommand::Secret(args) = command;
    let store = args.store.open(Missing::Create)?;
    let (me, tenant) = (Caller::local(), args.tenant.clone());
    let secrets = if args.rotate {
        store.rotate_webhook_secret(&me, tenant).await?
    } else {
        store.webhook_secrets(&me, tenant).await?
    };
    store.close();
    if args.json {
        let texts: Vec<&str> = secrets.iter().map(WebhookSecret::reveal).collect();
        output::json(&json!({"secrets": texts}))?;
    } else {
        for secret in &secrets {
            output::line(secret.reveal())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
