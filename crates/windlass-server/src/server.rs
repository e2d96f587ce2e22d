//! The listener: accepts and limits connections, serves HTTP/1.1 with or without TLS, and drains at shutdown.

mod connection;
mod error_body;
mod framing;
mod opening;
mod peer;
mod tls;
mod write_timeout;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use windlass::Store;
use windlass::clock::JumpClock;

pub(crate) use self::peer::Peer;
use crate::http::request::connection_slots::ConnectionSlots;
use crate::http::{self, App, StorePlace};
use crate::limits;

/// Listener options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The certificate chain and its key, PEM files, for TLS.
    pub tls: Option<TlsFiles>,
    /// Whether a proxy in front terminates TLS, so that this server need not.
    pub behind_proxy: bool,
    /// Maximum number of open connections.
    pub connections_max: usize,
    /// Engine and file of the store, for metrics.
    pub store: StorePlace,
    /// The clock of a server for development, which has routes to move it; `None` for every other server.
    pub dev_clock: Option<Arc<JumpClock>>,
    /// Sites whose pages may read jobs with tokens, such as `https://shop.example`.
    pub browser_origins: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        let listen = SocketAddr::from(([127, 0, 0, 1], 7788));
        Options {
            listen,
            tls: None,
            behind_proxy: false,
            connections_max: limits::CONNECTIONS_MAX,
            store: StorePlace::default(),
            dev_clock: None,
            browser_origins: Vec::new(),
        }
    }
}

/// The files of a certificate.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A bound address, before the store is open.
pub struct Listening {
    options: Options,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    address: SocketAddr,
}

impl Listening {
    /// Binds the address.
    ///
    /// # Errors
    /// If the address is in use, or a certificate cannot be read.
    pub fn bind(options: Options) -> anyhow::Result<Listening> {
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener =
            listen(options.listen).with_context(|| format!("cannot listen on {}", options.listen))?;
        let address = listener.local_addr()?;
        Ok(Listening { options, listener, tls, address })
    }

    /// Responds to all requests but `/healthz` with 503 and what the server is waiting for, until `opened` completes.
    pub async fn answer_until<T>(&self, waits_for: &'static str, opened: impl Future<Output = T>) -> T {
        opening::answer_until(&self.listener, self.tls.as_ref(), waits_for, opened).await
    }

    /// The server for this store.
    ///
    /// # Errors
    /// If the address can be reached by others and there are no keys or no encryption.
    pub async fn serve(self, store: Store) -> anyhow::Result<Server> {
        let Listening { options, listener, tls, address } = self;
        // Requests forwarded by a proxy can come from any client, although the proxy connects from this machine.
        let is_local = options.listen.ip().is_loopback() && !options.behind_proxy;
        if !is_local {
            require_auth_and_tls(&store, &options).await?;
        }
        if options.dev_clock.is_some() {
            require_development(&store, is_local).await?;
        }
        let is_secure = tls.is_some() || options.behind_proxy;
        let (app, connections_max) =
            (App::new(store, options.store, is_local, options.dev_clock), options.connections_max);
        app.set_browser_origins(options.browser_origins);
        let has_addresses = !address.ip().is_loopback() && !options.behind_proxy;
        Ok(Server { app, listener, tls, is_secure, has_addresses, address, connections_max })
    }
}

/// A server that is bound and not running yet.
pub struct Server {
    app: App,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    /// Whether browsers connect over TLS, to this server or to a proxy in front.
    is_secure: bool,
    /// Whether the peer address identifies the client.
    has_addresses: bool,
    address: SocketAddr,
    connections_max: usize,
}

impl Server {
    /// Binds the address. Requests are served by [`run`](Server::run).
    ///
    /// # Errors
    /// If the address is in use, or can be reached by others and there are no keys or no encryption.
    pub async fn bind(store: Store, options: Options) -> anyhow::Result<Server> {
        Listening::bind(options)?.serve(store).await
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Whether there are API keys; without them only local requests are accepted.
    pub async fn has_keys(&self) -> anyhow::Result<bool> {
        Ok(self.app.store().has_keys().await?)
    }

    /// Serves until `shutdown` completes; then long polls and streams end, and running requests are finished.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Server { app, listener, tls, is_secure, has_addresses, address: _, connections_max } = self;
        let router = http::router(app.clone(), is_secure);
        let slots = Arc::new(Semaphore::new(connections_max));
        // Behind a proxy, or on a loopback address, all connections have the same address.
        let strangers_max = (connections_max / limits::STRANGERS_SHARE).max(limits::STRANGERS_MIN);
        let strangers = has_addresses.then(|| ConnectionSlots::new(usize::MAX, strangers_max));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = async {
                let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
                (slot, listener.accept().await)
            };
            let (slot, accepted) = tokio::select! {
                () = &mut shutdown => break,
                accepted = accepted => accepted,
            };
            // Removes finished connections without waiting.
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, from)) => {
                    let Some(peer) = Peer::new(from.ip(), strangers.as_ref()) else {
                        tracing::debug!("too many connections without a valid key from one address");
                        continue;
                    };
                    let is_crowded = slots.available_permits() < connections_max / 2;
                    let head_time =
                        if is_crowded { limits::HEAD_TIME_CROWDED } else { limits::HEAD_TIME_MAX };
                    let (tls, router) = (tls.clone(), router.clone());
                    connections.spawn(connection::serve(
                        stream,
                        tls,
                        (router, peer),
                        app.clone(),
                        head_time,
                        slot,
                    ));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(limits::ACCEPT_RETRY_AFTER).await;
                }
            }
        }
        drop(listener);
        app.drain();
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::DRAIN_MAX, drained).await.is_err() {
            tracing::warn!("some requests did not finish in time and are aborted");
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The server may be restarted while connections of its predecessor are still closing.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(limits::LISTEN_QUEUE_MAX)
}

/// Refuses to let others move the clock of a store, or to move that of a store in use.
async fn require_development(store: &Store, is_local: bool) -> anyhow::Result<()> {
    anyhow::ensure!(is_local, "a server for development listens on loopback addresses only");
    anyhow::ensure!(!store.has_keys().await?, "a store with API keys is not for development");
    Ok(())
}

/// An address that others can reach requires API keys and encryption.
async fn require_auth_and_tls(store: &Store, options: &Options) -> anyhow::Result<()> {
    let listen = options.listen;
    let has_keys = store.has_keys().await?;
    anyhow::ensure!(
        has_keys,
        "refusing to listen on {listen} without API keys: anyone could connect with full access; create \
         one with `windlass keys create` or --bootstrap-key-file, or listen on 127.0.0.1 without \
         --behind-proxy"
    );
    anyhow::ensure!(
        options.tls.is_some() || options.behind_proxy,
        "refusing to listen on {listen} without encryption: keys could be intercepted; set --tls-cert and \
         --tls-key, or --behind-proxy if a proxy in front terminates TLS"
    );
    Ok(())
}
