//! `windlass webhooks`: the secrets that sign callbacks, pushes and alerts.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::job::Tenant;
use windlass::store::caller::Caller;
use windlass_api::text::Text;
use windlass_server::webhooks::signature::{Endpoint, Purpose};

use crate::commands::store_args::{Missing, StoreArgs};
use crate::output;

/// Manage webhook signing secrets.
#[derive(Subcommand)]
pub(crate) enum WebhooksCommand {
    /// Print the signing secrets for a receiver, newest first.
    Secret(SecretArgs),
}

/// Arguments of `webhooks secret`.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
pub(crate) struct SecretArgs {
    /// The receiver's address; its query is ignored.
    url: String,
    /// The secret for pushed jobs, instead of the one for callbacks.
    #[arg(long)]
    push: bool,
    /// The secret for messages of alerts, instead of the one for callbacks.
    #[arg(long, conflicts_with = "push")]
    alert: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// The tenant; `default` if not given.
    #[arg(long)]
    tenant: Option<Text<Tenant>>,
    /// Rotate first: create new secrets for all receivers of the tenant. The old ones stay valid for a day.
    #[arg(long)]
    rotate: bool,
    /// Print JSON instead of one secret per line.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn webhooks(command: &WebhooksCommand) -> anyhow::Result<ExitCode> {
    let WebhooksCommand::Secret(args) = command;
    let purpose = match (args.push, args.alert) {
        (true, _) => Purpose::Push,
        (_, true) => Purpose::Alert,
        _ => Purpose::Callback,
    };
    let endpoint =
        Endpoint::new(purpose, &args.url).map_err(|error| anyhow::anyhow!("the address {error}"))?;
    let store = args.store.open(Missing::Create)?;
    let (me, tenant) = (Caller::local(), args.tenant.clone().map(|tenant| tenant.0));
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
