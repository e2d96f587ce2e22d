//! The built program, started without the caller's environment, and its output.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::binary::binary;
use crate::client::{Answer, Request};

/// How long anything may take on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program, not started yet.
pub(crate) fn windlass(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The address of a store in a folder.
pub(crate) fn store_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("jobs.db").display())
}

/// A server that runs.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl Served {
    /// Starts a server and waits until it listens.
    pub(crate) async fn start(mut command: Command) -> Served {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let (found, address) = tokio::sync::oneshot::channel();
        let reading = tokio::spawn({
            let said = said.clone();
            async move {
                let mut found = Some(found);
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Some((_, rest)) = line.split_once("listening on http")
                        && let Some((_, rest)) = rest.split_once("://")
                        && let Some(found) = found.take()
                    {
                        let _ = found.send(rest.split(';').next().unwrap().parse().unwrap());
                    }
                    let mut said = said.lock().unwrap();
                    said.push_str(&line);
                    said.push('\n');
                }
            }
        });
        let address = tokio::time::timeout(PATIENCE, address).await.expect("it starts in time");
        let address = address.unwrap_or_else(|_| panic!("it ended: {}", said.lock().unwrap()));
        Served { child, address, said, reading }
    }

    /// A request below `/api/v1`.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, &format!("/api/v1{path}"))
    }

    /// Posts, and expects success.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer: Answer = self.request("POST", path).json(body).send().await;
        assert!(answer.status < 300, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills it with SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Stops it, and returns its output.
    pub(crate) async fn stop(mut self) -> String {
        terminate(&mut self.child).await;
        self.reading.await.unwrap();
        self.said.lock().unwrap().clone()
    }
}

/// Signals a process to stop, and expects success.
pub(crate) async fn terminate(child: &mut Child) {
    let id = child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends when told to").unwrap();
    assert_eq!(ended.code(), Some(0));
}
