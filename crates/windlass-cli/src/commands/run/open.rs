//! `windlass open`: shows the dashboard in a browser; and `windlass version`.

use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde_json::json;

use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::{self, escaped};

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
const PAGES: [&str; 15] = [
    "jobs",
    "queues",
    "types",
    "workers",
    "schedules",
    "alerts",
    "dead",
    "errors",
    "audit",
    "tenants",
    "settings",
    "docs",
    "docs/api",
    "docs/guides",
    "jobs/new",
];

pub(crate) async fn open(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let address = args.connect.connection()?.url;
    let path = match args.what.as_deref() {
        None => String::new(),
        Some(page) if PAGES.contains(&page) => page.to_owned(),
        Some(word) if !looks_like_id(word) => {
            let pages = PAGES.join(", ");
            return Err(Failure::usage(format!(
                "`{}` is neither a job id nor a page: {pages}",
                escaped(word)
            )));
        }
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

/// Whether this can be a part of an id, as tables print it.
fn looks_like_id(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_hexdigit() || ['-', '.', '…'].contains(&c))
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
