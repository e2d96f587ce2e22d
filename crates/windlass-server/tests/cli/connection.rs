//! How a command finds its server: flags, environment, profiles.

use std::os::unix::fs::PermissionsExt;

use crate::fixture::{Site, run_with};
use crate::program::windlass;

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
async fn something_else_than_a_server_is_told_apart() {
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
    assert!(said.code == 7 && said.err.contains("try again in"), "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn events_are_followed_as_they_happen() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let site = Site::start().await;
    let mut command = windlass(&["events", "-f", "--since", "1h", "--json"]);
    let mut child = command.env("WINDLASS_URL", &site.url).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Until the stream is open nothing is promised; a pause is kept, so that it comes either way.
    let made = site.run(&["pause", "queue", "one"]).await;
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
    tokio::time::timeout(crate::program::PATIENCE, found).await.expect("the pause is told of");
    child.kill().await.unwrap();
    site.served.stop().await;
}
