//! A proxy before a server or a database that loses what passes in one direction or in both.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// What is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partition {
    None = 0,
    Requests = 1,
    Answers = 2,
    Both = 3,
}

/// Where a proxy leads.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Server(SocketAddr),
    /// The socket of a database.
    Socket(PathBuf),
}

#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    lost: Arc<AtomicU8>,
    target: Arc<Mutex<Target>>,
    /// Counts the ends of partitions. All connections are cut then: what was lost cannot be made up for.
    ends: watch::Sender<u64>,
}

impl Proxy {
    pub(super) async fn before(target: Target) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            lost: Arc::default(),
            target: Arc::new(Mutex::new(target)),
            ends: watch::channel(0).0,
        };
        let own = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(own.clone().accept(client));
            }
        });
        proxy
    }

    /// The server was started again at another address, or another one has taken over.
    pub(super) fn point_to(&self, target: Target) {
        *self.target.lock().unwrap() = target;
    }

    pub(super) fn lose(&self, partition: Partition) {
        self.lost.store(partition as u8, Ordering::SeqCst);
        if partition == Partition::None {
            self.ends.send_modify(|ends| *ends += 1);
        }
    }

    async fn accept(self, client: TcpStream) {
        let target = self.target.lock().unwrap().clone();
        match target {
            Target::Server(address) => {
                let Ok(server) = TcpStream::connect(address).await else { return };
                self.pass(client, server).await;
            }
            Target::Socket(path) => {
                let Ok(server) = UnixStream::connect(path).await else { return };
                self.pass(client, server).await;
            }
        }
    }

    async fn pass(&self, client: TcpStream, server: impl AsyncRead + AsyncWrite) {
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), split(server));
        let both = async {
            tokio::join!(
                self.copy(from_client, to_server, Partition::Requests),
                self.copy(from_server, to_client, Partition::Answers)
            )
        };
        tokio::select! {
            _ = both => {}
            () = self.cut() => {}
        }
    }

    /// Returns when a partition ends.
    async fn cut(&self) {
        let mut ends = self.ends.subscribe();
        ends.changed().await.expect("the proxy is there as long as its connections");
    }

    /// Until one of them is gone; a connection that has lost something stays silent.
    async fn copy(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, lost: Partition) {
        let mut bytes = vec![0; 16 << 10];
        let mut is_silent = false;
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            is_silent |= self.lost.load(Ordering::SeqCst) & lost as u8 != 0;
            if !is_silent && to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
        if !is_silent {
            let _ = to.shutdown().await;
        }
    }
}
