//! `windlass open`: shows the dashboard in a browser; and `windlass version`.

use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde_json::json;

use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;

/// Arguments of `open`.
#[derive(Args)]
pub(crate) struct OpenArgs {
    /// A job id or a part of it, or a page such as schedules; the overview if not given
    #[arg(value_name = "ID|PAGE")]
    what: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The pages that can be named.
const PAGES: [&str; 11] = [
    "jobs",
    "queues",
    "types",
    "workers",
    "schedules",
    "dead",
    "audit",
    "tenants",
    "settings",
    "docs",
    "docs/guides",
];

pub(crate) async fn open(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let address = args.connect.connection()?.url;
    let path = match args.what.as_deref() {
        None => String::new(),
        Some(page) if PAGES.contains(&page) => page.to_owned(),
        Some(id) => format!("jobs/{}", args.connect.client()?.job_id(id).await?),
    };
    let address = format!("{}/{path}", address.trim_end_matches('/'));
    if args.connect.json {
        output::json(&json!({"address": address}))?;
    } else {
        output::line(&address)?;
    }
    if !show(&address) {
        output::note("no browser could be started; open the address above");
    }
    Ok(Exit::Done.into())
}

/// Starts a browser: the one that `BROWSER` names, or that of the desktop.
fn show(address: &str) -> bool {
    let named = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let programs = named.into_iter().chain(["xdg-open".to_owned(), "open".to_owned()]);
    programs.into_iter().any(|program| {
        let mut command = Command::new(program);
        let quiet = command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    })
}

/// Prints the version of this program, and that of no server.
pub(crate) fn version(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let (version, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let processor = std::env::consts::ARCH;
    if connect.json {
        output::json(&json!({"version": version, "os": system, "arch": processor}))?;
    } else {
        output::line(&format!("windlass {version} ({system} {processor})"))?;
    }
    Ok(Exit::Done.into())
}
