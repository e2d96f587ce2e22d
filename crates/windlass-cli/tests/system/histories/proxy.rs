//! A proxy before a server that loses what passes in one direction or in both.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partition {
    None = 0,
    Requests = 1,
    Answers = 2,
    Both = 3,
}

#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    lost: Arc<AtomicU8>,
    target: Arc<Mutex<SocketAddr>>,
}

impl Proxy {
    pub(super) async fn before(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            lost: Arc::default(),
            target: Arc::new(Mutex::new(target)),
        };
        let own = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(own.clone().pass(client));
            }
        });
        proxy
    }

    /// The server was started again at another address.
    pub(super) fn point_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }

    pub(super) fn lose(&self, partition: Partition) {
        self.lost.store(partition as u8, Ordering::SeqCst);
    }

    async fn pass(self, client: TcpStream) {
        let target = *self.target.lock().unwrap();
        let Ok(server) = TcpStream::connect(target).await else { return };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::join!(
            self.copy(from_client, to_server, Partition::Requests),
            self.copy(from_server, to_client, Partition::Answers)
        );
    }

    /// Until one of them is gone; what is lost cannot be made up for, so the connection stays silent then.
    async fn copy(
        &self,
        mut from: impl AsyncReadExt + Unpin,
        mut to: impl AsyncWriteExt + Unpin,
        lost: Partition,
    ) {
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
