//! A server that something else starts: a first key from a file, a database that comes up later, and a health check.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use windlass_testkit::client::Request;
use windlass_testkit::cluster::{Cluster, schema_at};
use windlass_testkit::{PATIENCE, ServerProcess, store_in, terminate, windlass};

/// A new secret, and the file it is in.
async fn secret_in(folder: &Path) -> (String, String) {
    let made = windlass(&["keys", "generate"]).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let secret = String::from_utf8(made.stdout).unwrap();
    let file = folder.join("key");
    std::fs::write(&file, &secret).unwrap();
    (secret.trim().to_owned(), file.to_str().unwrap().to_owned())
}

async fn status(served: &ServerProcess, secret: &str) -> u16 {
    let bearer = format!("Bearer {secret}");
    Request::new(served.address, "GET", "/api/v1/keys").header("Authorization", &bearer).send().await.status
}

#[tokio::test]
async fn a_secret_in_a_file_becomes_the_first_key_and_no_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let (first, file) = secret_in(folder.path()).await;
    // An address that others can reach needs a key, and the file is enough.
    let serve = || {
        let mut command = windlass(&["serve", "--listen", "0.0.0.0:0", "--behind-proxy", "--store", &store]);
        command.env("WINDLASS_BOOTSTRAP_KEY_FILE", &file);
        ServerProcess::start(command)
    };
    let served = serve().await;
    assert_eq!(status(&served, &first).await, 200);
    let listed = Request::new(served.address, "GET", "/api/v1/keys")
        .header("Authorization", &format!("Bearer {first}"))
        .send()
        .await
        .json();
    assert_eq!(
        (listed["keys"][0]["name"].as_str(), listed["keys"][0]["role"].as_str()),
        (Some("bootstrap"), Some("admin"))
    );
    let said = served.stop().await;
    assert!(said.contains("created the admin key `bootstrap`") && !said.contains(&first), "{said}");
    // The same file again changes nothing, and another secret in it does not grant access.
    let served = serve().await;
    assert_eq!(status(&served, &first).await, 200);
    assert!(!served.stop().await.contains("created the admin key"));
    let (second, _) = secret_in(folder.path()).await;
    let served = serve().await;
    assert_eq!((status(&served, &first).await, status(&served, &second).await), (200, 401));
    served.stop().await;
}

#[tokio::test]
async fn a_file_without_a_key_is_refused_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (store_in(folder.path()), folder.path().join("key"));
    for words in [&["serve"][..], &["config", "check"]] {
        for (content, expected) in [(None, "cannot read"), (Some("hunter2"), "windlass keys generate")] {
            let _ = std::fs::remove_file(&file);
            if let Some(content) = content {
                std::fs::write(&file, content).unwrap();
            }
            let flags = ["--store", &store, "--bootstrap-key-file", file.to_str().unwrap()];
            let refused = windlass(&[words, &flags].concat()).output().await.unwrap();
            let said = String::from_utf8(refused.stderr).unwrap();
            assert!(!refused.status.success() && said.contains(expected), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
    assert!(!folder.path().join("jobs.db").exists(), "nothing is made before the settings are right");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_waits_for_a_database_that_starts_later() {
    let cluster = Cluster::start(&[]);
    let store = schema_at(&cluster.address());
    cluster.crash();
    let refused = windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store]).output().await.unwrap();
    assert!(!refused.status.success(), "without the flag it ends at once");
    let waiting = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--wait-for-store", "10m"];
    let mut child = windlass(&waiting).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = async |text: &str| {
        let found = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(text) {
                    return;
                }
            }
            panic!("it ended before it said `{text}`");
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("it does not say `{text}`"));
    };
    until("retrying for").await;
    cluster.restart("fast");
    until("listening on").await;
    let rest = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    terminate(&mut child).await;
    rest.await.unwrap();
}

/// A free port; free as long as tests do not ask for it by number.
async fn free_port() -> SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_what_it_waits_for_and_can_be_stopped_meanwhile() {
    let cluster = Cluster::start(&[]);
    let store = schema_at(&cluster.address());
    cluster.crash();
    let address = free_port().await;
    let listen = address.to_string();
    let waiting = ["serve", "--listen", &listen, "--store", &store, "--wait-for-store", "10m"];
    let mut child = windlass(&waiting).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().expect("it continues").contains("retrying for") {}
    let alive = Request::new(address, "GET", "/healthz").send().await;
    assert_eq!(alive.status, 200);
    for path in ["/readyz", "/api/v1/jobs", "/"] {
        let refused = Request::new(address, "GET", path).send().await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{path}");
        let error = &refused.json()["error"];
        assert_eq!(error["code"], "starting");
        assert!(error["message"].as_str().unwrap().contains("waiting for the database"), "{error}");
    }
    let rest = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    terminate(&mut child).await;
    rest.await.unwrap();
}

/// Damage that no request meets stops the server once it is found; with `before` it does not start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_found_whenever_it_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let served =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    for _ in 0..50 {
        served.post("/jobs", &json!({"type": "send", "tags": {"plan": "pro"}, "hold": true})).await;
    }
    served.stop().await;
    // An index of which no question is asked here: its first page loses its entries.
    let path = folder.path().join("jobs.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let ask = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let page = ask("SELECT rootpage FROM sqlite_schema WHERE name = 'hot_id'");
    let size = ask("PRAGMA page_size");
    drop(connection);
    let mut bytes = std::fs::read(&path).unwrap();
    let start = usize::try_from((page - 1) * size).unwrap();
    let end = start + usize::try_from(size).unwrap();
    bytes[start + 100..end].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let before = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--file-check", "before"];
    let refused = tokio::time::timeout(PATIENCE, windlass(&before).output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("damaged"), "{said}");
    let mut child = windlass(&before[..5]).spawn().unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it stops").unwrap();
    assert!(!ended.success());
}

#[tokio::test]
async fn waiting_is_for_a_database_that_is_away_and_not_for_a_wrong_address() {
    let store = "postgres://127.0.0.1:1/x?connect_timeout=nonsense";
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", store, "--wait-for-store", "10m"];
    let ended = tokio::time::timeout(PATIENCE, windlass(&serve).output()).await.expect("it ends at once");
    assert!(!ended.unwrap().status.success());
}

#[tokio::test]
async fn health_is_zero_only_for_a_server_that_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let (_, file) = secret_in(folder.path()).await;
    let store = store_in(folder.path());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--bootstrap-key-file", &file];
    let served = ServerProcess::start(windlass(&serve)).await;
    let url = format!("http://{}", served.address);
    // Without a key, as a health check has none.
    let ready = windlass(&["health", "--url", &url]).output().await.unwrap();
    assert!(ready.status.success(), "{ready:?}");
    assert_eq!(ready.stdout, b"ready\n");
    let json = windlass(&["health", "--url", &url, "--json"]).output().await.unwrap();
    assert_eq!(json.stdout, b"{\"ready\":true}\n");
    served.stop().await;
    let gone = windlass(&["health", "--url", &url]).output().await.unwrap();
    assert_eq!(gone.status.code(), Some(6), "{gone:?}");
}
