//! The program itself: what its flags allow is called, and nothing else.

use std::net::SocketAddr;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::binary::binary;
use crate::push::verify;
use crate::receiver::{PATIENCE, Receiver, answer};

fn windlass(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("WINDLASS_STORE").kill_on_drop(true);
    command
}

/// Starts a server; says where it listens.
async fn serve(arguments: &[&str]) -> (Child, SocketAddr) {
    let all = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
    let mut child = windlass(&all).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some((_, rest)) = line.split_once("http://") {
                return rest.split(';').next().unwrap().parse().unwrap();
            }
        }
        panic!("it ended before it listened");
    };
    let address = tokio::time::timeout(PATIENCE, found).await.expect("it listens");
    // A process that writes to a closed pipe is killed.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, address)
}

async fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut whole = String::new();
    stream.read_to_string(&mut whole).await.unwrap();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

async fn secret(store: &str, receiver: &[&str]) -> String {
    let arguments = [&["webhooks", "secret", "--store", store], receiver].concat();
    let made = windlass(&arguments).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// Model: callbacks. From the API to the receiver, on this machine, because the flags allow it.
#[tokio::test]
async fn jobs_and_reports_are_sent_where_the_flags_allow() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let allow =
        ["--allow-private-callbacks", "127.0.0.0/8", "--allow-http-callbacks", "--callback-ports", "any"];
    let (mut child, server) = serve(&[&["--store", &store], &allow[..]].concat()).await;
    let mut worker = Receiver::answering(answer("200 OK", r#"{"sent":1}"#)).await;
    let mut reports = Receiver::answering(answer("200 OK", "")).await;
    let push = json!({"push": {"url": worker.url(), "concurrency": 3, "timeout": "5s"}});
    let (status, queue) = ask(server, "PUT", "/queues/mail", &push).await;
    assert_eq!((status, &queue["push"]), (200, &push["push"]));
    let job = json!({"type": "email.send", "queue": "mail", "payload": {"to": "a@b.c"}, "callback_url": reports.url()});
    let (status, made) = ask(server, "POST", "/jobs", &job).await;
    assert_eq!(status, 201, "{made}");
    let (pushed, report) = (worker.request().await, reports.request().await);
    let id = made["id"].as_str().unwrap();
    assert_eq!(pushed.header("windlass-job-id"), id);
    let body: Value = serde_json::from_slice(&report.body).unwrap();
    assert_eq!((&body["type"], &body["data"]["id"]), (&json!("job.completed"), &json!(id)));
    verify(&pushed, &secret(&store, &["--push", &worker.url()]).await);
    verify(&report, &secret(&store, &[&reports.url()]).await);
    let (_, ended) = ask(server, "GET", &format!("/jobs/{id}"), &json!({})).await;
    assert_eq!((&ended["state"], &ended["result"]), (&json!("completed"), &json!({"sent": 1})));
    let cleared = ask(server, "PUT", "/queues/mail", &json!({"push": null})).await;
    assert_eq!((cleared.0, &cleared.1["push"]), (200, &Value::Null));
    child.kill().await.unwrap();
}

/// Model: callbacks. Without flags, nothing on this machine is called.
#[tokio::test]
async fn nothing_private_is_called_without_flags() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let (mut child, server) = serve(&["--store", &store]).await;
    let canary = Receiver::answering(answer("200 OK", "")).await;
    let job = |url: &str| json!({"type": "email.send", "payload": {}, "callback_url": url});
    let (status, refused) = ask(server, "POST", "/jobs", &job(&canary.url())).await;
    assert_eq!((status, &refused["error"]["details"]["field"]), (422, &json!("callback_url")), "{refused}");
    let (status, refused) = ask(server, "PUT", "/queues/mail", &json!({"push": {"url": canary.url()}})).await;
    assert_eq!((status, &refused["error"]["details"]["field"]), (422, &json!("push.url")), "{refused}");
    let (status, made) = ask(server, "POST", "/jobs", &job("https://localhost/")).await;
    assert_eq!(status, 201, "where a name leads is seen at delivery: {made}");
    let id = made["id"].as_str().unwrap();
    ask(server, "POST", &format!("/jobs/{id}/cancel"), &json!({})).await;
    let (_, found) = ask(server, "GET", &format!("/jobs?tag=callback_of:{id}"), &json!({})).await;
    let report = found["jobs"][0]["id"].as_str().unwrap().to_owned();
    let (_, ended) = ask(server, "GET", &format!("/jobs/{report}?wait=30s"), &json!({})).await;
    assert_eq!(
        (&ended["state"], &ended["error"]["code"]),
        (&json!("failed"), &json!("target_refused")),
        "{ended}"
    );
    assert!(canary.is_quiet());
    child.kill().await.unwrap();
}
