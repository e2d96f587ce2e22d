//! Tickets as an operator sets them up: keys that are replaced, and how long tickets are good (Model: tickets).

use std::path::Path;

use serde_json::{Value, json};
use windlass_testkit::{ServerProcess, store_folder, store_in, terminate, windlass};

/// Makes a key in a folder; gives the path of its file, and its public part.
async fn key(folder: &Path, name: &str) -> (String, String) {
    let made = windlass(&["tickets", "key"]).output().await.unwrap();
    let path = folder.join(name);
    std::fs::write(&path, &made.stdout).unwrap();
    let said = String::from_utf8(made.stderr).unwrap();
    let public = said.trim().rsplit(' ').next().unwrap().to_owned();
    (path.to_str().unwrap().to_owned(), public)
}

async fn serve(store: &str, settings: &[&str]) -> ServerProcess {
    let mut arguments = vec!["serve", "--store", store, "--listen", "127.0.0.1:0"];
    arguments.extend(settings);
    ServerProcess::start(windlass(&arguments)).await
}

/// Claims everything there is.
async fn claim(server: &ServerProcess) -> Vec<Value> {
    let worker = json!({"queues": [], "types": [], "concurrency": 10});
    let worker = server.post("/workers", &worker).await["worker_id"].clone();
    let claimed = server.post("/claims", &json!({"worker_id": worker, "limit": 10})).await;
    claimed["jobs"].as_array().unwrap().clone()
}

/// What the server shows of a job.
async fn read_job(server: &ServerProcess, id: &Value) -> Value {
    server.request("GET", &format!("/jobs/{}", id.as_str().unwrap())).send().await.json()
}

#[tokio::test]
async fn a_replaced_ticket_key_is_trusted_until_its_tickets_are_used() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let ((old, old_public), (new, _)) = (key(folder.path(), "old").await, key(folder.path(), "new").await);
    let server = serve(&store, &["--ticket-key", &old]).await;
    let first = server.post("/jobs", &json!({"type": "a"})).await["id"].clone();
    server.stop().await;

    let trusting = ["--ticket-key", &new, "--ticket-trusted", &old_public];
    let server = serve(&store, &trusting).await;
    let second = server.post("/jobs", &json!({"type": "a"})).await["id"].clone();
    let claimed = claim(&server).await;
    let ids: Vec<&Value> = claimed.iter().map(|job| &job["id"]).collect();
    assert_eq!(ids, [&first, &second], "both keys are good");
    server.stop().await;

    let server = serve(&store, &["--ticket-key", &old]).await;
    let third = server.post("/jobs", &json!({"type": "a"})).await["id"].clone();
    server.stop().await;
    let server = serve(&store, &["--ticket-key", &new]).await;
    assert!(claim(&server).await.is_empty(), "the old key is not trusted any more");
    let refused = read_job(&server, &third).await;
    assert_eq!((&refused["state"], &refused["error"]["code"]), (&json!("failed"), &json!("ticket_invalid")));
    server.stop().await;
}

#[tokio::test]
async fn a_ticket_is_good_for_as_long_as_it_is_set() {
    let folder = store_folder();
    let (key, _) = key(folder.path(), "key").await;
    let server = serve(&store_in(folder.path()), &["--ticket-key", &key, "--ticket-lifetime", "90s"]).await;
    server.post("/jobs", &json!({"type": "a"})).await;
    let claimed = claim(&server).await;
    let moment = |name: &str| {
        let text = claimed[0]["ticket"][name].as_str().unwrap();
        text.parse::<windlass::clock::Timestamp>().unwrap()
    };
    assert_eq!(moment("expires").since(moment("issued")), std::time::Duration::from_secs(90));
    server.stop().await;
}

#[tokio::test]
async fn a_worker_on_the_store_itself_verifies_tickets_with_the_same_key() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let ((ours, public), (other, _)) = (key(folder.path(), "ours").await, key(folder.path(), "other").await);
    let server = serve(&store, &["--ticket-key", &ours]).await;
    for (key, state) in [(&ours, "completed"), (&other, "failed")] {
        let mut command = windlass(&["work", "--store", &store, "--ticket-key", key, "a", "--", "/bin/true"]);
        let mut worker = command.spawn().unwrap();
        let id = server.post("/jobs", &json!({"type": "a"})).await["id"].as_str().unwrap().to_owned();
        let ended = server.request("GET", &format!("/jobs/{id}?wait=60s")).send().await.json();
        assert_eq!(ended["state"], state, "{ended}");
        terminate(&mut worker).await;
    }
    server.stop().await;
    // What would verify nothing does not start.
    let url = ["work", "--url", "http://127.0.0.1:1", "--ticket-key", &ours, "a", "--", "/bin/true"];
    let unsigned = ["work", "--store", &store, "--ticket-trusted", &public, "a", "--", "/bin/true"];
    for arguments in [&url[..], &unsigned] {
        let refused = windlass(arguments).output().await.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("ticket_key"), "{said}");
    }
}
