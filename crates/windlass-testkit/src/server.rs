//! A server in this process.

use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::Store;
use windlass_server::server::{Options, Server};

/// A server that answers for a store, until it is dropped.
pub struct InProcessServer {
    pub url: String,
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl InProcessServer {
    /// Serves a store on a free port of this machine.
    pub fn new(store: Store) -> InProcessServer {
        InProcessServer::on(store, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The same on this address.
    pub fn on(store: Store, listen: SocketAddr) -> InProcessServer {
        InProcessServer::with_options(store, Options { listen, ..Options::default() })
    }

    /// The same with options of the test's.
    pub fn with_options(store: Store, options: Options) -> InProcessServer {
        InProcessServer::start(store, options, false)
    }

    /// The same with the store's maintenance, as `windlass serve` runs it.
    pub fn with_maintenance(store: Store, listen: SocketAddr) -> InProcessServer {
        InProcessServer::start(store, Options { listen, ..Options::default() }, true)
    }

    fn start(store: Store, options: Options, is_maintained: bool) -> InProcessServer {
        let server = at_once(Server::bind(store.clone(), options)).unwrap();
        let (url, address) = (server.url(), server.address());
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.run(async { drop(stopped.await) });
        let running = tokio::spawn(async move {
            if is_maintained {
                windlass::maintenance::run(&store, serving).await;
            } else {
                serving.await;
            }
        });
        InProcessServer { url, address, stop, running }
    }

    /// Stops, and returns when it does not listen any more.
    pub async fn stop(self) {
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
