//! `windlass keys`: creates keys in the store directly, for a server without keys; lists and revokes them over HTTP.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::entropy::Entropy;
use windlass::job::Tenant;
use windlass::key::KeySecret;
use windlass::store::NewKey;
use windlass::store::caller::{Caller, Role};
use windlass_api::key::Key;
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use crate::commands::jobs::actions::confirmed;
use crate::commands::store_args::{Missing, StoreArgs};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::table::{Cell, Column, Table};

/// Create, list and revoke API keys.
#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print its secret. The secret cannot be printed again.
    Create(CreateArgs),
    /// Print a new secret without storing it, for `serve --bootstrap-key-file`
    Generate,
    /// List keys, without their secrets; queries the server
    List(ConnectArgs),
    /// Revoke an API key; calls the server
    Revoke {
        /// The key's id, as printed by the list
        id: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// Arguments of `keys create`.
#[derive(Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the key's holder: the actor in the audit trail, and the owner of the jobs it submits.
    #[arg(long)]
    name: String,
    /// The key's role: admin, operator, submitter, worker, app (submitter and worker in one) or viewer.
    #[arg(long)]
    role: Text<Role>,
    /// The tenant whose jobs the key can access; an admin key covers all tenants.
    #[arg(long)]
    tenant: Option<Text<Tenant>>,
    /// Expire after this time, such as 30d
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    /// Print JSON instead of the secret alone.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn keys(command: &KeysCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeysCommand::Create(args) => create(args).await,
        KeysCommand::Generate => {
            output::line(KeySecret::random(&Entropy::from_system()).reveal())?;
            Ok(Exit::Done.into())
        }
        KeysCommand::List(connect) => list(connect).await,
        KeysCommand::Revoke { id, yes, connect } => {
            let client = connect.client()?;
            if !yes
                && !confirmed(&format!(
                    "revoke key {}? Clients that use it lose access.",
                    output::escaped(id)
                ))?
            {
                output::note("nothing was changed");
                return Ok(Exit::No.into());
            }
            client.send(Call::delete(&["keys", id])).await?;
            if connect.json {
                output::json(&json!({"id": id, "revoked": true}))?;
            } else {
                output::note(&format!("{} is revoked", output::escaped(id)));
            }
            Ok(Exit::Done.into())
        }
    }
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let Some(keys) = client.show_all::<Key>("keys").await? else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(vec![
        Column::new("ID", 0),
        Column::new("NAME", 0).cut(10),
        Column::new("ROLE", 1),
        Column::new("TENANT", 3).cut(8),
        Column::new("USED", 2),
        Column::new("EXPIRES", 4),
        Column::new("CREATED", 5),
        Column::new("BY", 6).cut(6),
    ]);
    let now = client.now();
    let when = |at: Option<Moment>| at.map_or_else(|| "never".into(), |at| Cell::when(at, now));
    for key in keys {
        table.row(vec![
            key.id.to_string().into(),
            key.name.into(),
            key.role.to_string().into(),
            key.tenant.map_or_else(|| "all".to_owned(), |tenant| tenant.to_string()).into(),
            when(key.last_used_at),
            when(key.expires_at),
            Cell::when(key.created_at, now),
            key.created_by.into(),
        ]);
    }
    table.print_or(
        "no API keys: every process on the server's machine has full access; `windlass keys create` \
         creates one",
    )
}

async fn create(args: &CreateArgs) -> anyhow::Result<ExitCode> {
    // The first key is created before the store exists.
    let store = args.store.open(Missing::Create)?;
    let new = NewKey {
        tenant: args.tenant.clone().map(|tenant| tenant.0),
        expires: args.expires.map(|span| span.0),
        ..NewKey::new(args.name.clone(), args.role.0)
    };
    let created = store.create_key(&Caller::local(), new).await?;
    store.close();
    let (key, secret) = (&created.key, created.secret.reveal());
    if args.json {
        let tenant = key.tenant.as_ref().map(Tenant::as_str);
        let shown = json!({"id": key.id.as_str(), "name": key.name, "role": key.role.as_str(), "tenant": tenant,
            "expires_at": key.expires_at.map(|at| at.to_string()), "secret": secret});
        output::json(&shown)?;
    } else {
        output::line(secret)?;
    }
    output::note("store the secret safely: it cannot be printed again");
    Ok(ExitCode::SUCCESS)
}
