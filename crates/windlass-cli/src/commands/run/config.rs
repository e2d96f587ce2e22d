//! `windlass config check`: prints the settings that `serve` would use, and where each comes from.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::commands::run::serve::ServeArgs;
use crate::config::Setting;
use crate::output;

/// Check the settings of `serve`.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every effective setting and its source; fails if one of them is invalid. Takes the flags of `serve`.
    Check(Box<CheckArgs>),
}

/// Arguments of `config check`.
#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(args: &CheckArgs, settings: &[Setting]) -> anyhow::Result<ExitCode> {
    // The checks that need neither a store nor a listening socket.
    args.serve.options()?;
    args.serve.store_options()?;
    args.serve.bootstrap_secret()?;
    if args.json {
        let as_json = |setting: &Setting| json!({"name": setting.name, "value": setting.value, "source": setting.source});
        output::json(&json!({"settings": settings.iter().map(as_json).collect::<Vec<_>>()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let value = |setting: &Setting| setting.value.clone().unwrap_or_else(|| "-".to_owned());
    let name_width = settings.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
    let value_width = settings.iter().map(|setting| value(setting).len()).max().unwrap_or(0);
    for setting in settings {
        let (name, value, source) = (&setting.name, value(setting), &setting.source);
        output::line(&format!("{name:name_width$}  {value:value_width$}  {source}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
