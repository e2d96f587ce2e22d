//! `windlass keys`: makes keys, where there is nobody to ask yet.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::job::Tenant;
use windlass::store::caller::{Caller, Role};
use windlass::store::command::key::NewKey;

use super::{Missing, StoreArgs};

/// What to do about keys.
#[derive(Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key and print its secret, which is shown this once.
    Create(CreateArgs),
}

/// Which key to make.
#[derive(Args)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Who its holder is: the actor in the audit trail, and the owner of what it submits.
    #[arg(long)]
    name: String,
    /// What it may do: admin, operator, submitter, worker or viewer.
    #[arg(long, value_parser = role)]
    role: Role,
    /// Whose jobs it reaches; an admin's key is for all tenants.
    #[arg(long, value_parser = tenant)]
    tenant: Option<Tenant>,
    /// Print JSON instead of the secret alone.
    #[arg(long)]
    json: bool,
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|problem: windlass::error::Problem| problem.to_string())
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|problem| problem.to_string())
}

pub(super) async fn keys(command: &KeysCommand) -> anyhow::Result<ExitCode> {
    let KeysCommand::Create(args) = command;
    // The first key is made before anything else is there.
    let store = args.store.open(Missing::Create)?;
    let new = NewKey { tenant: args.tenant.clone(), ..NewKey::new(args.name.clone(), args.role) };
    let created = store.create_key(&Caller::local(), new).await?;
    store.close();
    let (key, secret) = (&created.key, created.secret.reveal());
    if args.json {
        let tenant = key.tenant.as_ref().map(Tenant::as_str);
        let shown = json!({"id": key.id.as_str(), "name": key.name, "role": key.role.as_str(), "tenant": tenant, "secret": secret});
        println!("{shown}");
    } else {
        println!("{secret}");
    }
    eprintln!("keep it safe: it is not shown again");
    Ok(ExitCode::SUCCESS)
}
