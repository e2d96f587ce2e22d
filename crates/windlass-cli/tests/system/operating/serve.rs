//! The built program, as a user starts and stops it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use windlass_testkit::client::Request;
use windlass_testkit::{ServerProcess, certificate, store_folder, store_in, windlass};

/// Starts a server with these flags.
async fn serve(flags: &[&str]) -> ServerProcess {
    ServerProcess::start(windlass(&[&["serve", "--listen", "127.0.0.1:0"], flags].concat())).await
}

/// Stops a server, which takes 10 seconds at most.
async fn stop(server: ServerProcess) {
    let ended = tokio::time::timeout(Duration::from_secs(10), server.stop()).await;
    ended.expect("it ends within 10 seconds");
}

#[tokio::test]
async fn the_program_serves_until_it_is_asked_to_stop_and_loses_nothing() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let server = serve(&["--store", &store]).await;
    let address = server.address;
    let submit = Request::new(address, "POST", "/api/v1/jobs").json(&json!({"type": "a"})).send().await;
    assert_eq!(submit.status, 201);
    let worker =
        Request::new(address, "POST", "/api/v1/workers").json(&json!({"types": ["b"]})).send().await.json();
    // A request is waiting when it stops.
    let body = json!({"worker_id": worker["worker_id"], "wait": "60s"});
    let mut waiting = Request::new(address, "POST", "/api/v1/claims").json(&body).start().await;
    stop(server).await;
    let mut rest = Vec::new();
    let _ = waiting.read_to_end(&mut rest).await;
    // After SIGKILL, everything acknowledged is still there.
    let server = serve(&["--store", &store]).await;
    let address = server.address;
    let second = Request::new(address, "POST", "/api/v1/jobs").json(&json!({"type": "a"})).send().await;
    assert_eq!(second.status, 201);
    server.kill().await;
    let server = serve(&["--store", &store]).await;
    let address = server.address;
    let jobs = Request::new(address, "GET", "/api/v1/jobs").send().await.json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_key_made_on_the_command_line_opens_the_server() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let create = ["keys", "create", "--store", &store, "--name", "boss", "--role", "admin"];
    let made = windlass(&create).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let secret = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(secret.starts_with("wl_"), "{secret}");
    let server = serve(&["--store", &store]).await;
    let address = server.address;
    let ask = Request::new(address, "GET", "/api/v1/keys");
    assert_eq!(ask.send().await.status, 401);
    let keys = ask.header("Authorization", &format!("Bearer {secret}")).send().await.json();
    assert_eq!(keys["keys"][0]["name"], "boss");
    // A key made beside a running server counts there within a second.
    let create = [
        "keys", "create", "--store", &store, "--name", "ann", "--role", "viewer", "--tenant", "acme",
        "--json",
    ];
    let made = windlass(&create).output().await.unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((&made["role"], &made["tenant"]), (&json!("viewer"), &json!("acme")));
    let bearer = format!("Bearer {}", made["secret"].as_str().unwrap());
    let ask = Request::new(address, "GET", "/api/v1/jobs").header("Authorization", &bearer);
    let opened = async { while ask.send().await.status != 200 {} };
    tokio::time::timeout(Duration::from_secs(5), opened).await.expect("it counts soon");
    for wrong in [["--role", "king", "--name", "x"], ["--role", "viewer", "--name", " "]] {
        let refused =
            windlass(&[&["keys", "create", "--store", &store], &wrong[..]].concat()).output().await.unwrap();
        assert!(!refused.status.success());
    }
}

#[tokio::test]
async fn an_open_address_is_refused_without_keys() {
    let folder = store_folder();
    let store = store_in(folder.path());
    // Requests forwarded by a proxy can come from any client, although the proxy connects from this machine.
    for open in [&["--listen", "0.0.0.0:0"][..], &["--listen", "127.0.0.1:0", "--behind-proxy"]] {
        let serve = [&["serve", "--store", &store], open].concat();
        let refused = windlass(&serve).output().await.unwrap();
        assert!(!refused.status.success());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("without API keys") && said.contains("windlass keys create"), "{said}");
    }
}

#[tokio::test]
async fn the_program_speaks_tls() {
    let folder = store_folder();
    let (certificate, key) = (certificate("certificate.pem"), certificate("key.pem"));
    let tls = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let server = serve(&[&["--store", &store_in(folder.path())], &tls[..]].concat()).await;
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let address = server.address;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"), "{answer}");
    // Nothing else is spoken there.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    stop(server).await;
}
