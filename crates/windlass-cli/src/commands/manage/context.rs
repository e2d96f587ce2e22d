//! `windlass context`: the servers that profiles name, and which of them commands use.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::connection::connect::ConnectArgs;
use crate::connection::profile;
use crate::exit_code::Exit;
use crate::output;
use crate::output::table::{Column, Table};

/// Arguments of `context`.
#[derive(Args)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    command: Option<ContextCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum ContextCommand {
    /// List profiles; the one that commands use is marked
    List(ConnectArgs),
    /// Add or replace a profile; with the server and key that --url and --key or the environment name
    Set {
        /// The profile
        name: String,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Use a profile when none is named
    Use {
        /// The profile
        name: String,
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

pub(crate) fn context(args: &ContextArgs) -> anyhow::Result<ExitCode> {
    let (connect, done) = match &args.command {
        None => (&args.connect, None),
        Some(ContextCommand::List(connect)) => (connect, None),
        Some(ContextCommand::Set { name, connect }) => {
            let found = connect.connection()?;
            let key = found.key.map(|key| key.reveal().to_owned());
            profile::set(name, profile::Profile { url: found.url, key })?;
            (connect, Some(format!("profile {} is set", output::escaped(name))))
        }
        Some(ContextCommand::Use { name, connect }) => {
            profile::choose(name)?;
            (connect, Some(format!("commands use {} now", output::escaped(name))))
        }
    };
    if let Some(done) = done {
        output::note(&done);
    }
    list(connect)
}

fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let used = connect.connection()?.url;
    let profiles = profile::all()?;
    if connect.json {
        let all = profiles.all.iter();
        let found: Vec<_> = all
            .map(|(name, found)| json!({"name": name, "url": found.url, "has_key": found.key.is_some()}))
            .collect();
        output::json(&json!({"used": used, "profiles": found}))?;
        return Ok(Exit::Done.into());
    }
    let mut table = Table::new(vec![
        Column::new("USED", 2),
        Column::new("PROFILE", 0).cut(8),
        Column::new("ADDRESS", 1).cut(12),
        Column::new("KEY", 3),
    ]);
    let same = |url: &str| url.trim_end_matches('/') == used;
    // Flags and the environment can name the server of another profile than the one that is used without them.
    let is_usual = profiles.all.get(profiles.used()).is_some_and(|found| same(&found.url));
    for (name, found) in &profiles.all {
        let is_used = if is_usual { name == profiles.used() } else { same(&found.url) };
        let mark = if is_used { "*" } else { "" };
        let key = if found.key.is_some() { "yes" } else { "no" };
        table.row(vec![mark.into(), name.as_str().into(), found.url.as_str().into(), key.into()]);
    }
    if !profiles.all.values().any(|found| same(&found.url)) {
        output::note(&format!("commands use {used}"));
    }
    table.print_or("no profiles; `windlass context set NAME --url ADDRESS` adds one")
}
