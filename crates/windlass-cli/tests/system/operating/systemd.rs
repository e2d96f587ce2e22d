//! systemd notifications.

use tokio::net::UnixDatagram;
use windlass_testkit::{PATIENCE, ServerProcess, store_in, windlass};

async fn received(socket: &UnixDatagram) -> String {
    let mut text = [0; 256];
    let length =
        tokio::time::timeout(PATIENCE, socket.recv(&mut text)).await.expect("a message arrives").unwrap();
    String::from_utf8(text[..length].to_vec()).unwrap()
}

#[tokio::test]
async fn systemd_learns_that_the_server_is_ready_alive_and_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let store = store_in(folder.path());
    let mut command = windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    command.env("NOTIFY_SOCKET", folder.path().join("notify")).env("WATCHDOG_USEC", "200000");
    let served = ServerProcess::start(command).await;
    assert_eq!(received(&socket).await, "READY=1");
    for _ in 0..3 {
        assert_eq!(received(&socket).await, "WATCHDOG=1");
    }
    served.stop().await;
    while received(&socket).await != "STOPPING=1" {}
}

#[tokio::test]
async fn a_dead_socket_of_systemd_stops_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let mut command = windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    command.env("NOTIFY_SOCKET", folder.path().join("missing"));
    let said = ServerProcess::start(command).await.stop().await;
    assert!(said.contains("systemd"), "{said}");
}
