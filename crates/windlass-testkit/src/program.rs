//! The built program, started without the caller's environment, and its output.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::PATIENCE;
use crate::binary::binary;
use crate::client::{Request, TestResponse};

/// The program, not started yet.
pub fn windlass(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The address of a store in a folder.
pub fn store_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("jobs.db").display())
}

/// A server that runs as a process of its own.
pub struct ServerProcess {
    child: Child,
    pub url: String,
    pub address: SocketAddr,
    said: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl ServerProcess {
    /// Starts a server and waits until it listens.
    pub async fn start(mut command: Command) -> ServerProcess {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let (found, url) = tokio::sync::oneshot::channel();
        let reading = tokio::spawn({
            let said = said.clone();
            async move {
                let mut found = Some(found);
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Some((_, rest)) = line.split_once("listening on ")
                        && rest.starts_with("http")
                        && let Some(found) = found.take()
                    {
                        let _ = found.send(rest.split(';').next().unwrap().to_owned());
                    }
                    let mut said = said.lock().unwrap();
                    said.push_str(&line);
                    said.push('\n');
                }
            }
        });
        let url: Result<String, _> = tokio::time::timeout(PATIENCE, url).await.expect("it starts in time");
        let url = url.unwrap_or_else(|_| panic!("it ended: {}", said.lock().unwrap()));
        let address = url.split_once("://").unwrap().1.parse().unwrap();
        ServerProcess { child, url, address, said, reading }
    }

    /// A request below `/api/v1`.
    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, &format!("/api/v1{path}"))
    }

    /// Posts, and expects success.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let answer: TestResponse = self.request("POST", path).json(body).send().await;
        assert!(answer.status < 300, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Stops it, and returns its output.
    pub async fn stop(mut self) -> String {
        terminate(&mut self.child).await;
        self.reading.await.unwrap();
        self.said.lock().unwrap().clone()
    }
}

/// Signals a process to stop, and expects success.
pub async fn terminate(child: &mut Child) {
    let id = child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends when asked to").unwrap();
    assert_eq!(ended.code(), Some(0));
}
