//! What systemd wants to be told: that the server is ready, that it is stopping, and, if asked for, that it is still alive.
//! Without systemd nothing happens here.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use windlass::Store;
use windlass::error::StoreError;
use windlass::store::caller::Caller;

/// The line to systemd, if it started this process.
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// As the environment says: `NOTIFY_SOCKET` and `WATCHDOG_USEC`.
    pub(crate) fn from_environment() -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "cannot tell systemd how it goes");
                None
            }
        });
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|micros| micros.parse().ok());
        let watchdog = micros.filter(|micros| *micros > 0).map(Duration::from_micros);
        Supervisor { socket, watchdog }
    }

    /// Says that requests are answered.
    pub(crate) fn ready(&self) {
        self.notify("READY=1");
    }

    /// Says that the end has begun.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Shows again and again that the process is alive, as long as its store is: one that has stopped for good, as after a
    /// failed fsync, is to be started anew. A database that is away is not helped by that, and is waited for.
    pub(crate) async fn watch(&self, store: &Store) {
        let (Some(_), Some(within)) = (&self.socket, self.watchdog) else {
            return std::future::pending().await;
        };
        let mut beats = tokio::time::interval(within / 2);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            let asked = tokio::time::timeout(within / 4, store.config(&Caller::system())).await;
            if !matches!(asked, Ok(Err(StoreError::Stopped(_)))) {
                self.notify("WATCHDOG=1");
            }
        }
    }

    fn notify(&self, state: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(state.as_bytes())) {
            tracing::warn!(%error, state, "cannot tell systemd how it goes");
        }
    }
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => abstract_address(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    socket.connect_addr(&address)?;
    // A line to systemd must never hold up the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A name that is in no folder, which only Linux has.
#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
