//! The server of a case: in memory, with a clock that stands still, perhaps behind a slow network, and it can be restarted.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::clock::JumpClock;
use windlass::entropy::Entropy;
use windlass::store::{Environment, StoreOptions};
use windlass::{Store, maintenance};
use windlass_api::claim::PROTOCOL;
use windlass_server::server::{Options, Server};

use super::lossy::{self, AnswerCount, LostAnswer};

/// How long every part of a message takes on a slow network.
const DELAY: Duration = Duration::from_millis(40);

/// Ports of servers that are restarted, and how many may be taken by others before it is an error.
const PORTS: Range<u16> = 10_000..30_000;
const PORT_TRIES: u32 = 100;

/// A running server.
pub(super) struct Stage {
    pub(super) store: Store,
    pub(super) clock: Arc<JumpClock>,
    address: SocketAddr,
    stop: CancellationToken,
    /// None after a restart that failed.
    serving: Option<JoinHandle<()>>,
    /// Keeps the port while the server restarts: another case would take it.
    _port: Option<TcpSocket>,
}

impl Stage {
    pub(super) async fn start() -> anyhow::Result<Stage> {
        let clock = Arc::new(JumpClock::new(false));
        let env = Environment::new(clock.clone(), Entropy::from_system(), StoreOptions::default());
        let store = Store::open_in("memory:", env)?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let port = reserved()?;
        let listen = port.as_ref().map_or(Ok(any), TcpSocket::local_addr)?;
        let (address, stop, serving) = serve(&store, &clock, listen).await?;
        Ok(Stage { store, clock, address, stop, serving: Some(serving), _port: port })
    }

    /// Stops the server, which breaks all connections, and starts another on the same store and address.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            serving.await?;
        }
        let (_, stop, serving) = serve(&self.store, &self.clock, self.address).await?;
        (self.stop, self.serving) = (stop, Some(serving));
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of a slow way to the server.
    pub(super) async fn slow_url(&self) -> anyhow::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (near, far, stop) = (listener.local_addr()?, self.address, self.stop.clone());
        tokio::spawn(async move {
            while let Some(Ok((client, _))) = stop.run_until_cancelled(listener.accept()).await {
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(far).await else { return };
                    let ((from, to), (back, here)) = (client.into_split(), server.into_split());
                    let unchanged = |_: &mut [u8]| {};
                    tokio::join!(pass(from, here, DELAY, unchanged), pass(back, to, DELAY, unchanged));
                });
            }
        });
        Ok(format!("http://{near}"))
    }

    /// The address of a way to the server on which its answers say that it speaks the next protocol.
    pub(super) async fn url_of_another_protocol(&self) -> anyhow::Result<String> {
        let own = format!("\"protocol\":{PROTOCOL}").into_bytes();
        let other = format!("\"protocol\":{}", PROTOCOL + 1).into_bytes();
        anyhow::ensure!(own.len() == other.len(), "the answer would have another length");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (near, far, stop) = (listener.local_addr()?, self.address, self.stop.clone());
        let change = Arc::new(move |part: &mut [u8]| {
            if let Some(at) = part.windows(own.len()).position(|window| window == own) {
                part[at..at + other.len()].copy_from_slice(&other);
            }
        });
        tokio::spawn(async move {
            while let Some(Ok((client, _))) = stop.run_until_cancelled(listener.accept()).await {
                let change = change.clone();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(far).await else { return };
                    let ((from, to), (back, here)) = (client.into_split(), server.into_split());
                    let unchanged = |_: &mut [u8]| {};
                    tokio::join!(
                        pass(from, here, Duration::ZERO, unchanged),
                        pass(back, to, Duration::ZERO, |part| change(part))
                    );
                });
            }
        });
        Ok(format!("http://{near}"))
    }

    /// The address of a way to the server on which an answer is lost, and how many of its kind were given.
    pub(super) async fn lossy_url(&self, lost: LostAnswer) -> anyhow::Result<(String, AnswerCount)> {
        let (near, given) = lossy::open(self.address, lost, self.stop.clone()).await?;
        Ok((format!("http://{near}"), given))
    }

    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        if let Some(serving) = self.serving {
            serving.await?;
        }
        self.store.close();
        Ok(())
    }
}

/// A socket that has a port and does not listen. Linux lets a server listen there nevertheless; on other systems nothing is
/// reserved. The port is none that a system assigns by itself: another listener on any port could get it while the
/// server restarts.
fn reserved() -> std::io::Result<Option<TcpSocket>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let mut tries = 0;
    loop {
        let chance = RandomState::new().hash_one(tries) % PORTS.len() as u64;
        let port = PORTS.start + u16::try_from(chance).expect("there are fewer ports");
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        match socket.bind(SocketAddr::from(([127, 0, 0, 1], port))) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && tries < PORT_TRIES => tries += 1,
            bound => return bound.map(|()| Some(socket)),
        }
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration, change: impl Fn(&mut [u8])) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        tokio::time::sleep(delay).await;
        change(&mut bytes[..count]);
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn serve(
    store: &Store,
    clock: &Arc<JumpClock>,
    listen: SocketAddr,
) -> anyhow::Result<(SocketAddr, CancellationToken, JoinHandle<()>)> {
    let options = Options { listen, dev_clock: Some(clock.clone()), ..Options::default() };
    let server = Server::bind(store.clone(), options).await?;
    let (address, stop, store) = (server.address(), CancellationToken::new(), store.clone());
    let stopped = stop.clone();
    let serving = tokio::spawn(async move {
        maintenance::run(&store, Box::pin(server.run(stopped.cancelled()))).await;
    });
    Ok((address, stop, serving))
}
