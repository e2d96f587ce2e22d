//! The environment of a benchmark without an address: a temporary folder, and a server on a store in it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A folder below the current one, so that the current disk is measured: a system's temporary folder is often in memory,
/// where an fsync is free. It is deleted at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Folder> {
        let path = std::env::current_dir()?.join(format!("windlass-bench-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot benchmark in {}", path.display()))?;
        Ok(Folder(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The address of a store in it.
    pub(crate) fn store(&self, name: &str) -> String {
        format!("sqlite:{}", self.0.join(name).display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be deleted does not fail the benchmark.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of this program in a child process that ends with this one.
pub(crate) struct ChildServer {
    child: Child,
    /// The address it listens on.
    pub(crate) url: String,
}

impl ChildServer {
    /// Starts a server and waits until it listens.
    pub(crate) async fn start(store: &str) -> anyhow::Result<ChildServer> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
            .env_remove("WINDLASS_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a server")?;
        let mut lines = BufReader::new(child.stderr.take().expect("it was requested")).lines();
        let mut said = String::new();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, rest)) = line.split_once("listening on ") {
                let url = rest.split([';', ' ']).next().unwrap_or_default().to_owned();
                // Keep reading, or the server would block on a full pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(ChildServer { child, url });
            }
            said.push_str(&line);
            said.push('\n');
        }
        anyhow::bail!("the server did not start: {said}")
    }

    /// Stops the server.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}
