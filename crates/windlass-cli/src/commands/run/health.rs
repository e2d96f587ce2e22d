//! `windlass health`: checks whether a server is ready, for container images without another HTTP client.

use std::process::ExitCode;

use serde_json::json;

use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;

pub(crate) async fn health(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    client.check_ready().await?;
    if connect.json {
        output::json(&json!({"ready": true}))?;
    } else {
        output::line("ready")?;
    }
    Ok(Exit::Done.into())
}
