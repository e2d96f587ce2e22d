//! The proxy in front of a server that echoes, or that closes at once. Only lower bounds of times are asserted.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;

use windlass::clock::Stopwatch;

use super::*;

const RTT: Duration = Duration::from_millis(10);

/// A server that sends back what it receives, to every connection.
fn echo() -> Endpoint {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    Endpoint::Tcp("127.0.0.1".to_owned(), port)
}

fn connect(proxy: &DelayProxy) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap()
}

#[test]
fn a_round_trip_takes_at_least_what_was_asked_for() {
    let proxy = DelayProxy::start(echo(), RTT).unwrap();
    let mut client = connect(&proxy);
    for round in 0..20_u8 {
        let watch = Stopwatch::start();
        client.write_all(&[round]).unwrap();
        let mut answer = [0];
        client.read_exact(&mut answer).unwrap();
        assert!(watch.elapsed() >= RTT, "{:?}", watch.elapsed());
        assert_eq!(answer, [round]);
    }
}

/// More than the proxy holds, on several connections at once, and it ends when the client ends.
#[test]
fn bytes_keep_their_order_and_the_end_comes_after_them() {
    let proxy = DelayProxy::start(echo(), RTT).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..8_u8 {
            let client = connect(&proxy);
            let sent: Vec<u8> =
                (0..6_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed).collect();
            scope.spawn(move || {
                let mut received = Vec::new();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        (&client).write_all(&sent).unwrap();
                        client.shutdown(Shutdown::Write).unwrap();
                    });
                    (&client).read_to_end(&mut received).unwrap();
                });
                assert!(received == sent, "{} of {} bytes arrived in order", received.len(), sent.len());
            });
        }
    });
}

#[test]
fn a_last_word_before_the_server_closes_its_socket_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let proxy = DelayProxy::start(Endpoint::Unix(path), RTT).unwrap();
    let client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"too many clients").unwrap();
    drop(server);
    let mut said = String::new();
    (&client).read_to_string(&mut said).unwrap();
    assert_eq!(said, "too many clients");
}

#[test]
fn a_server_that_is_not_there_closes_the_connection() {
    let proxy = DelayProxy::start(Endpoint::Unix("/no/such/socket".into()), RTT).unwrap();
    let client = connect(&proxy);
    assert_eq!((&client).read(&mut [0]).unwrap(), 0);
}
