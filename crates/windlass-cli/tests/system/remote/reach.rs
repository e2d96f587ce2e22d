//! How a server is reached and who asks: over TLS, only as the owner of a key; and what comes with a claim.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::Store;
use windlass::client::Client;
use windlass::context::Cx;
use windlass::entropy::Entropy;
use windlass::error::{ActionError, StoreError, SubmitError};
use windlass::job::{JobMetadata, JobState};
use windlass::store::caller::{Caller, Role};
use windlass::store::{StoreOptions, TicketOptions};
use windlass::ticket::TicketKey;
use windlass::worker::Worker;
use windlass_testkit::{InProcessServer, Site, certificate, windlass};

use super::job_types::{Greet, greet};
use crate::fixture::On;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn reached() -> (Client, InProcessServer) {
    let (_, address) = On::Memory.address();
    let kept = Client::from_store(Store::open(&address, StoreOptions::default()).unwrap());
    let server = InProcessServer::new(kept.store().unwrap().clone());
    (Client::connect(&server.url, StoreOptions::default()).unwrap(), server)
}

/// Model: attempt-records. A handler sees the metadata of its job, also through a server.
#[tokio::test]
async fn a_claim_brings_the_labels_of_its_job() {
    let (queue, _server) = reached();
    let (seen, mut metadata) = mpsc::channel(1);
    let handler = move |job: Greet, cx: Cx| {
        let seen = seen.clone();
        async move {
            seen.send(cx.metadata().clone()).await?;
            anyhow::Ok(job.name)
        }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&queue).handle(handler);
    let working = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await.unwrap() });
    let job = queue.submit(greet("a")).tag("k", "v").tag("l", "w").correlation_id("c");
    job.callback_url("https://example.com/done").await.unwrap();
    let expected = JobMetadata {
        tags: [("k", "v"), ("l", "w")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        correlation_id: Some("c".to_owned()),
        callback_url: Some("https://example.com/done".to_owned()),
    };
    assert_eq!(metadata.recv().await, Some(expected));
    drop(stop);
    working.await.unwrap();
}

/// Model: roles. A request that one caller may not make is not made with another caller's key.
#[tokio::test]
async fn a_client_does_not_act_for_a_caller_whose_key_it_does_not_have() {
    let (queue, _server) = reached();
    let job = queue.submit(greet("a")).await.unwrap();
    let viewer = queue.as_caller(Caller::new("eve", Role::Viewer, None));
    let refused = viewer.submit(greet("b")).await.map(|job| job.id());
    assert!(matches!(refused, Err(SubmitError::Store(StoreError::OtherCaller))), "{refused:?}");
    let refused = viewer.job(job.id()).cancel().await;
    assert!(matches!(refused, Err(ActionError::Store(StoreError::OtherCaller))), "{refused:?}");
    let me = queue.as_caller(Caller::local());
    me.job(job.id()).cancel().await.unwrap();
}

/// Model: tickets. A worker that trusts one key runs what that one has signed, and nothing else.
#[tokio::test]
async fn a_worker_verifies_tickets_for_itself() {
    let entropy = Entropy::seeded(1);
    let key = || TicketKey::new([entropy.bits(), entropy.bits()]);
    let (ours, theirs) = (key(), key());
    for (trusted, is_good) in [(ours.public(), true), (theirs.public(), false)] {
        let signing =
            StoreOptions { tickets: Some(TicketOptions::new(ours.clone())), ..StoreOptions::default() };
        let kept = Client::from_store(Store::open("memory:", signing).unwrap());
        let server = InProcessServer::new(kept.store().unwrap().clone());
        let options = StoreOptions { tickets_trusted: vec![trusted], ..StoreOptions::default() };
        let client = Client::connect(&server.url, options).unwrap();
        let (ran, mut runs) = mpsc::channel(1);
        let handler = move |job: Greet| {
            let ran = ran.clone();
            async move {
                ran.send(()).await?;
                anyhow::Ok(job.name)
            }
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let worker = Worker::new(&client).handle(handler);
        let working =
            tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await.unwrap() });
        let id = client.submit(greet("a")).await.unwrap().id();
        let ended = kept.api().wait(&Caller::local(), id, LONG).await.unwrap().unwrap().job;
        let code = ended.details.error.as_ref().and_then(|error| error.code.as_deref());
        if is_good {
            assert_eq!((ended.state, code), (JobState::Completed, None));
        } else {
            assert_eq!((ended.state, code), (JobState::Failed, Some("ticket_invalid")));
            assert!(runs.try_recv().is_err(), "it reached no handler");
        }
        drop(stop);
        working.await.unwrap();
    }
}

/// The program's own worker is the library's: `Client::open("https://…")` in a process that trusts one authority more.
#[tokio::test]
async fn a_worker_reaches_a_server_over_tls_if_it_trusts_its_certificate() {
    let (certificate, key) = (certificate("certificate.pem"), certificate("key.pem"));
    let tls = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let site = Site::with(&tls).await;
    // By the name that the certificate has.
    let url = format!("https://localhost:{}", site.served.address.port());

    let mut working = windlass(&["work", "hello", "--url", &url, "--", "/bin/cat"]);
    let _worker = working.env("SSL_CERT_FILE", &certificate).env("PATH", "/usr/bin:/bin").spawn().unwrap();
    let mut submitting = windlass(&["submit", "hello", "{\"name\": \"world\"}", "--wait", "--url", &url]);
    let done = submitting.env("SSL_CERT_FILE", &certificate).output().await.unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(serde_json::from_slice::<Value>(&done.stdout).unwrap(), json!({"name": "world"}));

    // Another authority is not trusted here, and nothing is sent without encryption instead.
    let mut refused = windlass(&["work", "hello", "--url", &url, "--", "/bin/cat"]);
    let refused =
        refused.env("SSL_CERT_FILE", windlass_testkit::certificate("authority.pem")).output().await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("certificate"), "{said}");
}
