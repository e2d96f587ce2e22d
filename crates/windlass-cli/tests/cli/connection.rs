//! How a command finds its server: flags, environment, profiles.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use windlass_testkit::{ServerProcess, Site, certificate, run_with, store_in, windlass};

#[tokio::test]
async fn a_profile_names_a_server_and_its_key() {
    let site = Site::start().await;
    let folder = site.folder.path().join("windlass");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("profiles.toml");
    std::fs::write(&file, format!("[default]\nurl = 'http://127.0.0.1:1'\n[here]\nurl = '{}'\n", site.url))
        .unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let home = site.folder.path().to_str().unwrap();
    let settings = [("XDG_CONFIG_HOME", home)];
    let ask = async |arguments: &[&str], url: &str| run_with(url, arguments, &settings, "").await.code;
    assert_eq!(ask(&["list"], "").await, 6, "the default profile is used");
    assert_eq!(ask(&["list", "--profile", "here"], "").await, 0);
    assert_eq!(ask(&["list", "--profile", "here"], "http://127.0.0.1:1").await, 0, "a flag wins");
    assert_eq!(ask(&["list", "--url", &site.url], "").await, 0);
    assert_eq!(ask(&["list", "--profile", "gone"], "").await, 2);
    let named = [("XDG_CONFIG_HOME", home), ("WINDLASS_PROFILE", "here")];
    assert_eq!(run_with("", &["list"], &named, "").await.code, 0);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = run_with("", &["list"], &settings, "").await;
    assert!(said.code == 2 && said.err.contains("chmod 600"), "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn something_else_than_a_server_is_recognized() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
    });
    let said = run_with(&url, &["list"], &[], "").await;
    assert!(said.code == 6 && said.err.contains("check WINDLASS_URL"), "{said:?}");
    answering.await.unwrap();
}

#[tokio::test]
async fn a_refusal_for_now_has_a_code_of_its_own() {
    let site = Site::start().await;
    let limit = serde_json::json!({"max_depth": 1});
    assert_eq!(site.served.request("PUT", "/queues/small").json(&limit).send().await.status, 200);
    site.submit(&["a", "--queue", "small"]).await;
    let said = site.run(&["submit", "a", "--queue", "small"]).await;
    assert!(said.code == 7 && said.err.contains("retry in"), "{said:?}");
    site.served.stop().await;
}

/// The stream is cut, and the job ends while no server is there to report it.
#[tokio::test]
async fn a_waiting_command_continues_when_the_server_is_back() {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
    let site = Site::start().await;
    let mut waiting = Vec::new();
    let followed = site.submit(&["slow"]).await;
    for words in [&["submit", "slow", "--wait"][..], &["logs", "-f", &followed]] {
        let child = windlass(words).env("WINDLASS_URL", &site.url).spawn().unwrap();
        waiting.push(child);
    }
    // Each prints only after it has opened its stream: one the state, the other a line of the log.
    let mut said = BufReader::new(waiting[0].stderr.take().unwrap()).lines();
    while !said.next_line().await.unwrap().unwrap().starts_with("scheduled") {}
    let (worker, running) = site.claim("slow").await;
    assert_eq!(running["id"], followed);
    site.log(&worker, &running, "begun").await;
    let mut printed = BufReader::new(waiting[1].stdout.take().unwrap());
    let mut begun = String::new();
    printed.read_line(&mut begun).await.unwrap();
    assert!(begun.contains("begun"), "{begun}");

    let address = site.served.address.to_string();
    let store = store_in(site.folder.path());
    site.served.stop().await;
    let served = ServerProcess::start(windlass(&["serve", "--listen", &address, "--store", &store])).await;
    let site = Site { served, ..site };
    site.log(&worker, &running, "still here").await;
    site.end(&worker, &running, json!({"outcome": "completed"})).await;
    let (worker, claimed) = site.claim("slow").await;
    site.end(&worker, &claimed, json!({"outcome": "completed", "result": "done"})).await;

    let mut out = [String::new(), String::new()];
    let ended = async {
        waiting[0].stdout.take().unwrap().read_to_string(&mut out[0]).await.unwrap();
        printed.read_to_string(&mut out[1]).await.unwrap();
        [waiting[0].wait().await.unwrap(), waiting[1].wait().await.unwrap()]
    };
    let ended = tokio::time::timeout(windlass_testkit::PATIENCE, ended).await.expect("both learn of the end");
    assert_eq!(ended.map(|ended| ended.code()), [Some(0), Some(0)], "{out:?}");
    assert_eq!(out[0], "\"done\"\n");
    assert!(out[1].contains("still here"), "{out:?}");
    site.served.stop().await;
}

/// A job as a server shows it; fields that may be null are left out.
fn job(state: &str) -> Value {
    let at = "2026-01-01T00:00:00.000Z";
    let retry = json!({"strategy": "constant", "initial_delay": "1s", "max_delay": "1s", "multiplier": 1.0, "jitter": 0.0,
        "jitter_mode": "random", "max_attempts": 3, "max_retries": 2, "retry_on": []});
    json!({"id": "01990000-0000-4000-8000-00000000abcd", "tenant": "default", "type": "slow", "queue": "default",
        "state": state, "version": "000000000000000000000000", "priority": 50, "effective_priority": 50, "attempt": 1, "max_attempts": 3,
        "failures": 0, "crashes": 0, "retry_count": 0, "max_retries": 2, "created_at": at, "updated_at": at, "run_at": at,
        "expires_at": at, "retry": retry, "timeouts": {"execution": "1m", "lease": "1m", "lifetime": "1d"}, "after": [],
        "after_any": [], "owner": "me", "tags": {}, "cost_cents": 0, "redacted": false})
}

/// A server that opens its store, or sheds load, answers 503: a command that waits for a job continues waiting.
#[tokio::test]
async fn a_waiting_command_outlasts_a_temporary_refusal() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        let mut reads = 0;
        let mut streams = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]);
            let (status, body) = match request.split(' ').take(2).collect::<Vec<_>>()[..] {
                ["POST", _] => ("201 Created", job("scheduled")),
                [_, path] if path.contains("/events") => {
                    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: here\n\n";
                    stream.write_all(head).await.unwrap();
                    streams.push(stream);
                    continue;
                }
                _ if reads == 0 => {
                    reads += 1;
                    let error = json!({"code": "starting", "message": "the store is being opened"});
                    ("503 Service Unavailable", json!({ "error": error }))
                }
                _ => {
                    let mut job = job("completed");
                    (job["completed_at"], job["result"]) = (job["created_at"].clone(), json!(7));
                    ("200 OK", job)
                }
            };
            let body = body.to_string();
            let head =
                format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    let said = run_with(&url, &["submit", "slow", "--wait"], &[], "").await;
    assert!(said.code == 0 && said.out == "7\n", "{said:?}");
    answering.abort();
}

/// A newer server may use words and fields that this version does not know.
#[tokio::test]
async fn a_list_of_a_newer_server_is_shown_as_far_as_it_is_known() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut known = job("running");
    known["field_of_a_later_version"] = json!({"b": 1, "a": 2});
    let page = json!({"jobs": [known, job("hibernating")], "next_cursor": null}).to_string();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _length = stream.read(&mut [0; 4096]).await.unwrap();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", page.len());
            stream.write_all(format!("{head}{page}").as_bytes()).await.unwrap();
        }
    });
    let said = run_with(&url, &["list"], &[], "").await;
    assert!(said.code == 0 && said.out.contains("running") && !said.out.contains("hibernating"), "{said:?}");
    assert!(
        said.err.contains("1 of the jobs cannot be shown") && said.err.contains("may be newer"),
        "{said:?}"
    );
    let printed = run_with(&url, &["list", "--json"], &[], "").await.documents();
    assert_eq!(printed[0]["field_of_a_later_version"], json!({"b": 1, "a": 2}));
    assert_eq!(printed[1]["state"], "hibernating");
    let said = run_with(&url, &["stats"], &[], "").await;
    assert!(said.code == 1 && said.err.contains("may be newer"), "{said:?}");
    answering.abort();
}

#[tokio::test]
async fn a_server_behind_tls_is_measured_too() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (certificate("certificate.pem"), certificate("key.pem"));
    let store = store_in(folder.path());
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let tls = ["--tls-cert", certificate, "--tls-key", key];
    let serve = [&["serve", "--listen", "127.0.0.1:0", "--store", &store], &tls[..]].concat();
    let made = run_with("", &["bench", "--store", &store, "--quick"], &[], "").await;
    assert_eq!(made.code, 0, "{made:?}");
    let served = ServerProcess::start(windlass(&serve)).await;
    let url = format!("https://localhost:{}", served.address.port());
    let trusted = [("SSL_CERT_FILE", certificate)];
    let said = run_with("", &["bench", "--server", &url], &trusted, "").await;
    assert!(said.code == 1 && said.err.contains("has jobs"), "{said:?}");
    let said = run_with("", &["list", "--url", &url], &trusted, "").await;
    assert_eq!(said.code, 0, "{said:?}");
    served.stop().await;
}

#[tokio::test]
async fn events_are_followed_as_they_happen() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let site = Site::start().await;
    let mut command = windlass(&["events", "-f", "--since", "1h", "--json"]);
    let mut child = command.env("WINDLASS_URL", &site.url).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Until the stream is open nothing is guaranteed; a pause is stored, so that it arrives either way.
    let made = site.run(&["pause", "queue", "one", "--create"]).await;
    made.well();
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let record: serde_json::Value = serde_json::from_str(&line).unwrap();
            if record["event"].as_str().unwrap().contains("paused") {
                return;
            }
        }
        panic!("the stream ended");
    };
    tokio::time::timeout(windlass_testkit::PATIENCE, found).await.expect("the pause is shown");
    child.kill().await.unwrap();
    site.served.stop().await;
}
