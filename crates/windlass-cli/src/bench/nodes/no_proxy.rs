//! No proxy: only Linux has timers that wait for sockets at the same time and are precise enough.

use std::io;
use std::time::Duration;

use windlass::bench::endpoint::Endpoint;

/// A proxy that cannot be started.
pub(crate) struct DelayProxy {
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
}

impl DelayProxy {
    pub(crate) fn start(_to: Endpoint, _rtt: Duration) -> io::Result<DelayProxy> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
