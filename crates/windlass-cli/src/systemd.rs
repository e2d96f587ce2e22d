//! systemd notifications: ready, stopping, and the watchdog if configured. Does nothing without systemd.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use windlass::Store;
use windlass::store::caller::Caller;

/// The notification socket, if systemd started this process.
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// From `NOTIFY_SOCKET` and `WATCHDOG_USEC`.
    pub(crate) fn from_environment() -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "cannot notify systemd");
                None
            }
        });
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|micros| micros.parse().ok());
        let watchdog = micros.filter(|micros| *micros > 0).map(Duration::from_micros);
        Supervisor { socket, watchdog }
    }

    /// Notifies that requests are served.
    pub(crate) fn ready(&self) {
        self.notify("READY=1");
    }

    /// Notifies that the server is stopping.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Sends watchdog notifications as long as the store works: a store that has stopped permanently, for example after a
    /// failed fsync, requires a restart. An unreachable database does not; it is waited for.
    pub(crate) async fn watch(&self, store: &Store) {
        let (Some(_), Some(within)) = (&self.socket, self.watchdog) else {
            return std::future::pending().await;
        };
        let mut beats = tokio::time::interval(within / 2);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            let asked = tokio::time::timeout(within / 4, store.config(&Caller::system())).await;
            let has_stopped = matches!(asked, Ok(Err(error)) if error.is_permanent());
            if !has_stopped {
                self.notify("WATCHDOG=1");
            }
        }
    }

    fn notify(&self, state: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(state.as_bytes())) {
            tracing::warn!(%error, state, "cannot notify systemd");
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
    // The socket must never block the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// An abstract socket address, which only Linux has.
#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
