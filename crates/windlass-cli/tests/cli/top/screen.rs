//! `windlass top` in a real terminal: what a person sees, presses and is left with.

use serde_json::{Value, json};
use windlass_testkit::{ServerProcess, Terminal, binary, store_folder, store_in, windlass};

async fn serve(folder: &tempfile::TempDir, listen: &str) -> ServerProcess {
    ServerProcess::start(windlass(&["serve", "--listen", listen, "--store", &store_in(folder.path())])).await
}

/// A server with a queue whose jobs wait, and one job that failed.
async fn busy(folder: &tempfile::TempDir) -> ServerProcess {
    let server = serve(folder, "127.0.0.1:0").await;
    for number in 0..3 {
        server.post("/jobs", &json!({"type": "email.send", "queue": "mail", "payload": number})).await;
    }
    server.post("/jobs", &json!({"type": "order.export", "queue": "exports"})).await;
    let worker = server
        .post("/workers", &json!({"name": "w", "types": ["order.export"], "queues": ["exports"]}))
        .await;
    let claimed = server.post("/claims", &json!({"worker_id": worker["worker_id"]})).await;
    let job = &claimed["jobs"][0];
    let error = json!({"category": "permanent", "message": "\u{1b}[2Jno such customer"});
    let outcome = json!({"id": job["id"], "fence": job["fence"], "outcome": "failed", "error": error});
    server.post("/outcomes", &json!({"worker_id": worker["worker_id"], "outcomes": [outcome]})).await;
    server
}

async fn queue(server: &ServerProcess, name: &str) -> Value {
    server.request("GET", &format!("/queues/{name}")).send().await.json()
}

/// Runs `windlass top` in a shell, so that one sees what it leaves behind.
async fn watch(server: &ServerProcess, width: u16, height: u16) -> Terminal {
    let terminal = Terminal::open(width, height).await;
    terminal.run(&format!("{} top --url http://{}", binary().display(), server.address)).await;
    terminal
}

#[tokio::test]
async fn a_person_sees_queues_pauses_one_resizes_and_leaves_no_trace() {
    let folder = store_folder();
    let server = busy(&folder).await;
    let terminal = watch(&server, 100, 40).await;
    let seen = terminal
        .shows(&["windlass top", "exports", "mail", "processing on", r"\u{1b}[2Jno such customer"])
        .await;
    assert!(terminal.is_taken_over().await, "{seen}");
    // The second queue is paused, after a question.
    terminal.press(&["j", "p"]).await;
    terminal.shows(&["Pause queue mail?", "3 jobs wait"]).await;
    assert_eq!(queue(&server, "mail").await["paused"], Value::Null, "nothing happens before the answer");
    terminal.press(&["y"]).await;
    terminal.shows(&["queue mail is paused", "1 queue paused", "paused by local"]).await;
    assert_eq!(queue(&server, "mail").await["paused"]["reason"], "from windlass top");
    terminal.press(&["r", "y"]).await;
    terminal.shows(&["queue mail is resumed"]).await;
    assert_eq!(queue(&server, "mail").await["paused"], Value::Null);
    // A small terminal shows one list, a larger one all of them again.
    terminal.resize(60, 15).await;
    terminal.shows(&["1 Queues", "3 Failures"]).await;
    terminal.resize(160, 45).await;
    terminal.shows(&["Running 0", "Failures 1", "last hour"]).await;
    terminal.press(&["q"]).await;
    terminal.is_left_clean(0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_failed_job_is_looked_into_and_redriven() {
    let folder = store_folder();
    let server = busy(&folder).await;
    let terminal = watch(&server, 100, 30).await;
    terminal.shows(&["exports"]).await;
    // A server error is shown with its message.
    terminal.press(&["3", "c", "y"]).await;
    terminal.shows(&["refused: ", "cannot cancel"]).await;
    terminal.press(&["Enter"]).await;
    terminal.shows(&["order.export", "Attempts", "failed after", "Esc back"]).await;
    terminal.press(&["r"]).await;
    terminal.shows(&["Redrive order.export"]).await;
    terminal.press(&["y"]).await;
    terminal.shows(&["is redriven as"]).await;
    let jobs = server.request("GET", "/jobs?type=order.export&state=scheduled").send().await.json();
    assert!(jobs["jobs"][0]["retry_of"].is_string(), "{jobs}");
    terminal.press(&["C-c"]).await;
    terminal.is_left_clean(0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_lost_server_is_shown_and_found_again() {
    let folder = store_folder();
    let server = busy(&folder).await;
    let address = server.address.to_string();
    let terminal = watch(&server, 120, 30).await;
    terminal.shows(&["exports"]).await;
    server.stop().await;
    terminal.shows(&["connection lost", "retrying", "exports"]).await;
    let server = serve(&folder, &address).await;
    server.post("/jobs", &json!({"type": "a", "queue": "afterwards"})).await;
    terminal.shows(&["afterwards"]).await;
    assert!(!terminal.text().await.contains("connection lost"));
    terminal.terminate().await;
    terminal.is_left_clean(0).await;
    server.stop().await;
}

#[tokio::test]
async fn without_a_terminal_or_a_server_it_says_what_to_do() {
    let said = windlass(&["top"]).output().await.unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("windlass stats"), "{said:?}");
    let terminal = Terminal::open(100, 20).await;
    terminal.run(&format!("{} top --url http://127.0.0.1:1", binary().display())).await;
    terminal.shows(&["no server at 127.0.0.1:1", "windlass serve"]).await;
    terminal.is_left_clean(6).await;
}

#[tokio::test]
async fn workers_types_schedules_and_errors_have_their_lists() {
    let folder = store_folder();
    let server = busy(&folder).await;
    let schedule = json!({"every": "1h", "job": {"type": "email.send", "queue": "mail"}});
    let put = server.request("PUT", "/schedules/hourly").json(&schedule).send().await;
    assert_eq!(put.status, 200);
    let terminal = watch(&server, 120, 40).await;
    terminal.shows(&["exports", "5 Workers"]).await;
    terminal.press(&["5"]).await;
    terminal.shows(&["takes", "order.export of exports"]).await;
    terminal.press(&["6"]).await;
    terminal.shows(&["Types 2", "last minute", "email.send"]).await;
    terminal.press(&["s", "t"]).await;
    terminal.shows(&["by type", "last hour"]).await;
    terminal.press(&["7"]).await;
    terminal.shows(&["Schedules 1", "hourly", "every 1h"]).await;
    terminal.press(&["r"]).await;
    terminal.shows(&["Run schedule hourly now?"]).await;
    terminal.press(&["y"]).await;
    terminal.shows(&["hourly submitted"]).await;
    // A click on the tab of failures, then on its row, opens it with its payload.
    let shown = terminal.text().await;
    let (row, line) = shown.lines().enumerate().find(|(_, line)| line.contains("3 Failures")).unwrap();
    let column = line.find("3 Failures").unwrap() + 1;
    terminal.press(&["-l", &format!("\u{1b}[<0;{column};{}M", row + 1)]).await;
    let shown = terminal.shows(&["Enter why"]).await;
    let row =
        shown.lines().position(|line| line.contains("order.export") && line.contains("failed")).unwrap();
    terminal.press(&["-l", &format!("\u{1b}[<0;10;{}M", row + 1)]).await;
    terminal.shows(&["Payload", "null", "Esc back"]).await;
    terminal.press(&["Escape"]).await;
    terminal.shows(&["Enter why"]).await;
    terminal.press(&["8", "r"]).await;
    terminal.shows(&["Retry 1 job of type order.export?", "no such customer"]).await;
    terminal.press(&["y"]).await;
    terminal.shows(&["1 job is retried", "no failed jobs that were not retried"]).await;
    terminal.press(&["C-c"]).await;
    terminal.is_left_clean(0).await;
    server.stop().await;
}
