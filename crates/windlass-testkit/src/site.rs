//! A server process on a store of its own, and commands that call it.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::PATIENCE;
use crate::program::{ServerProcess, store_in, windlass};

/// The output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// The output of a command that must have ended well.
    pub fn well(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The same as JSON, a document per line.
    pub fn documents(self) -> Vec<Value> {
        let out = self.well();
        out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{out}"))).collect()
    }
}

/// Runs a command against a server, with nothing on its standard input.
pub async fn run(url: &str, arguments: &[&str]) -> CommandOutput {
    run_with(url, arguments, &[], "").await
}

/// The same with variables, and something on its standard input.
pub async fn run_with(
    url: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
    input: &str,
) -> CommandOutput {
    let mut command = windlass(arguments);
    command.env("WINDLASS_URL", url).envs(variables.iter().copied()).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing may be gone by now.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{arguments:?} does not end")).unwrap();
    CommandOutput {
        code: ended.status.code().unwrap(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// A server on a store of its own.
pub struct Site {
    pub folder: TempDir,
    pub store: String,
    pub served: ServerProcess,
    pub url: String,
}

impl Site {
    /// A server on a new SQLite file.
    pub async fn start() -> Site {
        Site::with(&[]).await
    }

    /// The same with more flags.
    pub async fn with(flags: &[&str]) -> Site {
        let folder = crate::store_folder();
        let store = store_in(folder.path());
        Site::on(folder, store, flags).await
    }

    /// The same on this store; the folder goes with the server.
    pub async fn on(folder: TempDir, store: String, flags: &[&str]) -> Site {
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "--store", &store], flags].concat();
        let served = ServerProcess::start(windlass(&arguments)).await;
        let url = served.url.clone();
        Site { folder, store, served, url }
    }

    pub async fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&self.url, arguments).await
    }

    /// Submits a job, and gives its id.
    pub async fn submit(&self, arguments: &[&str]) -> String {
        let all = [&["submit"], arguments].concat();
        self.run(&all).await.well().trim().to_owned()
    }

    /// A job of this type, claimed by a worker: worker, and the claimed job.
    pub async fn claim(&self, job_type: &str) -> (Value, Value) {
        let body = json!({"name": "hand", "types": [job_type], "queues": []});
        let worker = self.served.post("/workers", &body).await["worker_id"].clone();
        let claims = json!({"worker_id": worker, "wait": "20s"});
        (worker.clone(), self.served.post("/claims", &claims).await["jobs"][0].clone())
    }

    /// Writes a line into the log of a claimed job.
    pub async fn log(&self, worker: &Value, claimed: &Value, line: &str) {
        let beat = json!({"id": claimed["id"], "fence": claimed["fence"], "logs": [line]});
        self.served.post("/heartbeats", &json!({"worker_id": worker, "jobs": [beat]})).await;
    }

    /// Ends a claimed job.
    pub async fn end(&self, worker: &Value, claimed: &Value, how: Value) {
        let mut outcome = how;
        outcome["id"] = claimed["id"].clone();
        outcome["fence"] = claimed["fence"].clone();
        let answer =
            self.served.post("/outcomes", &json!({"worker_id": worker, "outcomes": [outcome]})).await;
        assert_eq!(answer["outcomes"][0]["status"], "applied", "{answer}");
    }
}
