//! What the library's tests start from, with a server in front of it.

use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::Store;
use windlass_server::server::{Options, Server};

/// When the clocks of tests begin.
pub(crate) const START: i64 = 1_800_000_000_000;

/// Which engine is behind the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Sqlite,
}

impl On {
    /// The address of a new store, and the files that go with it.
    pub(crate) fn address(self) -> (Option<TempDir>, String) {
        match self {
            On::Memory => (None, "memory:".to_owned()),
            On::Sqlite => {
                let files = tempfile::tempdir().expect("a directory for the test");
                let address = format!("sqlite:{}", files.path().join("jobs.db").display());
                (Some(files), address)
            }
        }
    }

    /// The engine of the store that a bench with this address has.
    pub(crate) fn of(address: &str) -> On {
        if address == "memory:" { On::Memory } else { On::Sqlite }
    }
}

/// A server that answers for a store, until it is dropped.
pub(crate) struct Serving {
    pub(crate) url: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Serving {
    /// Serves a store on a free port of this machine.
    pub(crate) fn new(store: Store) -> Serving {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Serving::on(store, listen)
    }

    /// The same on this address.
    pub(crate) fn on(store: Store, listen: SocketAddr) -> Serving {
        let server = at_once(Server::bind(store, Options { listen, ..Options::default() })).unwrap();
        let url = server.url();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        Serving { url, stop, running }
    }

    /// Stops, and returns when nobody listens any more.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.running.await.expect("the server ends well");
    }
}

/// What a future comes to that waits for nothing, as taking a port of this machine.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for something"),
    }
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
