//! `windlass mcp`: the conversation of an agent that starts the program.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use windlass_testkit::{PATIENCE, ServerProcess, run, store_in, windlass};

/// A running program, and both ends of the conversation.
struct Agent {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    fn start(url: &str, key: &str) -> Agent {
        let mut command = windlass(&["mcp", "--url", url]);
        command.env("WINDLASS_KEY", key).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Agent { child, input, output: BufReader::new(output).lines() }
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.write(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).to_string())
            .await;
        let answer = self.read().await;
        assert_eq!(answer["id"], method);
        answer
    }

    /// What a tool answers.
    async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments})).await["result"].clone()
    }

    /// Ends the input, after which the program ends by itself.
    async fn end(self) {
        let Agent { mut child, input, .. } = self;
        drop(input);
        let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

#[tokio::test]
async fn an_agent_acts_as_the_key_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let create = async |name: &str, role: &str| {
        let arguments = ["keys", "create", "--store", &store, "--name", name, "--role", role];
        run("", &arguments).await.well().trim().to_owned()
    };
    let (operator, viewer) = (create("op", "operator").await, create("eye", "viewer").await);
    let server =
        ServerProcess::start(windlass(&["serve", "--store", &store, "--listen", "127.0.0.1:0"])).await;

    let mut agent = Agent::start(&server.url, &operator);
    let begun = agent.ask("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}})).await;
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    // A notification has no answer: the next line is that of the next request.
    agent.write(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#).await;
    let submitted = agent.tool("submit_job", json!({"type": "a", "dry_run": false})).await;
    let id = submitted["structuredContent"]["job"]["id"].clone();
    assert!(id.is_string(), "{submitted}");
    // What is not JSON is said, and does not end the conversation.
    agent.write("{").await;
    assert_eq!(agent.read().await["error"]["code"], -32700);
    let shown = agent.tool("show_job", json!({"id": id})).await;
    assert_eq!(shown["structuredContent"]["job"]["owner"], "op");
    agent.end().await;

    let mut agent = Agent::start(&server.url, &viewer);
    let refused = agent.tool("cancel_jobs", json!({"id": id, "dry_run": false})).await;
    assert_eq!(refused["isError"], true, "{refused}");
    agent.end().await;

    // An agent waits for each of its requests, also if the server is gone.
    let url = server.url.clone();
    server.stop().await;
    let mut agent = Agent::start(&url, &operator);
    assert_eq!(agent.ask("ping", json!({})).await["error"]["code"], -32000);
    agent.end().await;
}
