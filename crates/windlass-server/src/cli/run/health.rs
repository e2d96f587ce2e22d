//! `windlass health`: checks whether a server is ready, for container images without another HTTP client.

use std::process::ExitCode;

use serde_json::json;

use crate::cli::connection::connect::ConnectArgs;
use crate::cli::exit_code::Exit;
use crate::cli::output;

pub(in crate::cli) async fn health(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    client.check_ready().await?;
    if connect.json {
        output::json(&json!({"ready": true}))?;
    } else {
        output::line("ready")?;
    }
    Ok(Exit::Done.into())
}
