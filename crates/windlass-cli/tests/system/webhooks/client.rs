//! The client: it connects to what was checked and to nothing else, and no receiver makes it wait or read forever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderMap;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use windlass::webhook_url::{TargetError, TargetPolicy};
use windlass_server::webhooks::client::{Body, Call, CallError, WebhookClient, WebhookResponse};
use windlass_server::webhooks::resolve::{Resolve, ResolveFuture};
use windlass_testkit::receiver::{Receiver, answer, read};
use windlass_testkit::{PATIENCE, certificate};

/// A resolver with answers of the test's, one after the other.
struct Scripted {
    answers: Vec<Vec<SocketAddr>>,
    asked: AtomicUsize,
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, _name: &'a str, _port: u16) -> ResolveFuture<'a> {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[nth % self.answers.len()].clone();
        Box::pin(async move { Ok(answer) })
    }
}

fn scripted(answers: &[&[SocketAddr]]) -> Arc<Scripted> {
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    Arc::new(Scripted { answers, asked: AtomicUsize::new(0) })
}

fn call(url: &str) -> Call<'_> {
    Call {
        url,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        time_max: PATIENCE,
        answer_bytes_max: Some(64 << 10),
    }
}

/// Calls where everything is allowed.
async fn call_anywhere(receiver: &Receiver) -> Result<WebhookResponse, CallError> {
    WebhookClient::new(TargetPolicy::anywhere()).call(call(&receiver.url())).await
}

/// Calls with little patience.
async fn call_impatiently(receiver: &Receiver) -> Result<WebhookResponse, CallError> {
    let time_max = Duration::from_millis(200);
    let client = WebhookClient::new(TargetPolicy::anywhere());
    client.call(Call { time_max, ..call(&receiver.url()) }).await
}

#[tokio::test]
async fn a_call_is_a_plain_post_with_everything_a_receiver_needs() {
    let mut receiver = Receiver::answering(answer("201 Created", "[1]")).await;
    let answer = call_anywhere(&receiver).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body), (201, Body::Whole(Bytes::from_static(b"[1]"))));
    let request = receiver.request().await;
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.header("host"), receiver.address.to_string());
    assert!(request.header("user-agent").starts_with("windlass/"));
    assert_eq!(request.body, b"{}");
}

/// Model: callbacks. Without being allowed, nothing on this machine is called.
#[tokio::test]
async fn loopback_is_refused_unless_it_is_allowed() {
    let receiver = Receiver::answering(answer("200 OK", "")).await;
    let http = TargetPolicy { allows_http: true, ports: None, ..TargetPolicy::default() };
    let refused = WebhookClient::new(http.clone()).call(call(&receiver.url())).await;
    assert!(matches!(refused, Err(CallError::Refused(TargetError::NotPublic { .. }))), "{refused:?}");
    // A name that leads there is found out when it is resolved.
    let url = format!("http://localhost:{}/", receiver.address.port());
    let refused = WebhookClient::new(http.clone()).call(call(&url)).await;
    // Which address it has is not said.
    assert!(matches!(refused, Err(CallError::Refused(TargetError::LeadsInside))), "{refused:?}");
    assert!(receiver.is_quiet());
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    let allowed = TargetPolicy { networks, ..http };
    assert!(WebhookClient::new(allowed).call(call(&receiver.url())).await.is_ok());
}

/// Model: callbacks. A name that has one address inside is not called at all, also not at its addresses outside.
#[tokio::test]
async fn every_address_of_a_name_is_checked() {
    let receiver = Receiver::answering(answer("200 OK", "")).await;
    let networks = vec!["127.0.0.1/32".parse().unwrap()];
    let policy = TargetPolicy { allows_http: true, ports: None, networks };
    let inside: [SocketAddr; 4] = [
        "169.254.169.254:80".parse().unwrap(),
        "[::ffff:10.0.0.1]:80".parse().unwrap(),
        "[64:ff9b::a00:1]:80".parse().unwrap(),
        "[fd00::1]:80".parse().unwrap(),
    ];
    for address in inside {
        let resolver = scripted(&[&[receiver.address, address]]);
        let client = WebhookClient::with(policy.clone(), resolver, RootCertStore::empty());
        let refused = client.call(call("http://receiver.test/")).await;
        assert!(matches!(refused, Err(CallError::Refused(_))), "{address}: {refused:?}");
    }
    assert!(receiver.is_quiet());
}

/// Model: callbacks. A name that changes between the check and the connection has no effect, since the connection does not resolve
/// again.
#[tokio::test]
async fn a_name_that_flips_after_the_check_is_called_where_it_was_checked() {
    let mut checked = Receiver::answering(answer("200 OK", "")).await;
    let canary = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let networks = vec!["127.0.0.1/32".parse().unwrap()];
    let policy = TargetPolicy { allows_http: true, ports: None, networks };
    let resolver = scripted(&[&[checked.address], &[canary.local_addr().unwrap()]]);
    let client = WebhookClient::with(policy, resolver.clone(), RootCertStore::empty());
    assert!(client.call(call("http://receiver.test/")).await.is_ok());
    checked.request().await;
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1, "a name is resolved once per call");
    let refused = client.call(call("http://receiver.test/")).await;
    assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
    // It does not block, so an error means that no connection is waiting to be accepted.
    assert!(canary.into_std().unwrap().accept().is_err(), "the canary was called");
}

#[tokio::test]
async fn an_address_that_refuses_is_followed_by_the_next() {
    let receiver = Receiver::answering(answer("200 OK", "")).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let resolver = scripted(&[&[closed.local_addr().unwrap(), receiver.address]]);
    drop(closed);
    let client = WebhookClient::with(TargetPolicy::anywhere(), resolver, RootCertStore::empty());
    assert!(client.call(call("http://receiver.test/")).await.is_ok());
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let canary = Receiver::answering(answer("200 OK", "secret")).await;
    let location = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", canary.url());
    let receiver = Receiver::answering(location).await;
    let answer = call_anywhere(&receiver).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body), (302, Body::Unread));
    assert!(canary.is_quiet());
}

#[tokio::test]
async fn a_receiver_that_says_nothing_is_left() {
    let receiver = Receiver::start(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
        Ok(())
    })
    .await;
    assert_eq!(call_impatiently(&receiver).await, Err(CallError::TooSlow(Duration::from_millis(200))));
}

#[tokio::test]
async fn a_receiver_that_dribbles_its_head_is_left() {
    let receiver = Receiver::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        loop {
            stream.write_all(b"x: y\r\n").await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    call_impatiently(&receiver).await.unwrap_err();
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let receiver = Receiver::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?;
        loop {
            stream.write_all(&[b'y'; 4096]).await?;
        }
    })
    .await;
    assert!(matches!(call_anywhere(&receiver).await, Err(CallError::Broken(_))));
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let receiver = Receiver::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        loop {
            stream.write_all(b"4\r\nabcd\r\n").await?;
        }
    })
    .await;
    assert_eq!(call_anywhere(&receiver).await.unwrap().body, Body::TooLong);
}

#[tokio::test]
async fn an_unrequested_body_is_not_read() {
    let receiver = Receiver::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 500 Oh\r\ncontent-length: 1000000000000\r\n\r\n").await?;
        std::future::pending().await
    })
    .await;
    let answer = call_anywhere(&receiver).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body), (500, Body::Unread));
}

#[tokio::test]
async fn garbage_and_broken_connections_are_no_answer() {
    for garbage in
        ["\0\0\0\0", "SSH-2.0-OpenSSH\r\n", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", ""]
    {
        let receiver = Receiver::answering(garbage).await;
        let answer = call_anywhere(&receiver).await;
        assert!(matches!(answer, Err(CallError::Broken(_))), "{garbage:?}: {answer:?}");
    }
    let short = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await;
    assert!(matches!(call_anywhere(&short).await, Err(CallError::Broken(_))));
    let reset = Receiver::start(|_, stream| async move {
        // Closing at once makes the peer see a reset.
        stream.set_zero_linger()?;
        drop(stream);
        Ok(())
    })
    .await;
    assert!(matches!(call_anywhere(&reset).await, Err(CallError::Broken(_))));
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    let answer = WebhookClient::new(TargetPolicy::anywhere()).call(call(&url)).await;
    assert!(matches!(answer, Err(CallError::Unreachable(_))), "{answer:?}");
}

/// A receiver over TLS, by a certificate, for `receiver.test`.
async fn encrypted_receiver() -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_file(certificate("receiver.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("receiver.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust the certificate disconnects here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let request = read(&mut stream).await.unwrap();
            let host = request.header("host").to_owned();
            stream.write_all(answer("200 OK", &format!("{host:?}")).as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    address
}

#[tokio::test]
async fn a_certificate_is_believed_if_its_authority_and_its_name_are_right() {
    let address = encrypted_receiver().await;
    let mut authorities = RootCertStore::empty();
    authorities.add(CertificateDer::from_pem_file(certificate("authority.pem")).unwrap()).unwrap();
    let client =
        |authorities| WebhookClient::with(TargetPolicy::anywhere(), scripted(&[&[address]]), authorities);
    let url = format!("https://receiver.test:{}/", address.port());
    let answer = client(authorities.clone()).call(call(&url)).await.unwrap();
    let host = format!("\"receiver.test:{}\"", address.port());
    assert_eq!(answer.body, Body::Whole(Bytes::from(host)));
    let stranger = client(RootCertStore::empty()).call(call(&url)).await;
    assert!(matches!(stranger, Err(CallError::Untrusted(_))), "{stranger:?}");
    let other = client(authorities).call(call("https://other.test/")).await;
    assert!(matches!(other, Err(CallError::Untrusted(_))), "{other:?}");
}
