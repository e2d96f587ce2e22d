//! Where a benchmark happens when nobody says where: a folder that goes with the process, and a server on a store in it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A folder below the current one, so that the disk is measured on which one stands: a temporary folder is often in memory,
/// where an fsync costs nothing. It is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    pub(crate) fn new() -> anyhow::Result<Folder> {
        let path = std::env::current_dir()?.join(format!("windlass-bench-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot measure in {}", path.display()))?;
        Ok(Folder(path))
    }

    /// Where it is.
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
        // A folder that cannot be removed is not worth a failure at the very end.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of this very program, in a process of its own, that ends with this one.
pub(crate) struct ChildServer {
    child: Child,
    /// Where it listens.
    pub(crate) url: String,
}

impl ChildServer {
    /// Starts one and waits until it listens.
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
        let mut lines = BufReader::new(child.stderr.take().expect("it was asked for")).lines();
        let mut said = String::new();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, rest)) = line.split_once("listening on ") {
                let url = rest.split([';', ' ']).next().unwrap_or_default().to_owned();
                // Somebody must go on reading, or the server would be stopped by its own words.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(ChildServer { child, url });
            }
            said.push_str(&line);
            said.push('\n');
        }
        anyhow::bail!("the server did not start: {said}")
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}
