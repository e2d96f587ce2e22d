//! A proxy in front of the database that adds a round trip time: every byte arrives half of it later, in either direction.
//! One thread accepts connections, another delays what all of them carry.
//!
//! The delay is a matter of tenths of milliseconds, which is less than the runtime's timers can tell: the thread waits for
//! a timer of the system and for the sockets at once. Chunks become due in the order in which they were read, so that one
//! queue is enough, and a delay does not limit the throughput.

mod delayer;
mod socket;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use windlass::bench::endpoint::Endpoint;

use self::delayer::Delayer;
use self::socket::Socket;

/// Accepted connections that wait for the delaying thread: it takes them at once.
const ACCEPTED_MAX: usize = 64;

/// A proxy on a local port; it ends when it is dropped.
pub(crate) struct DelayProxy {
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    signals: Signals,
    threads: Vec<JoinHandle<()>>,
}

/// How the threads learn that something happened.
#[derive(Clone)]
struct Signals {
    is_over: Arc<AtomicBool>,
    /// Wakes the delaying thread.
    wake: Arc<OwnedFd>,
}

impl Signals {
    fn wake(&self) {
        // A counter that is full is readable, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl DelayProxy {
    /// Starts a proxy to a server that adds this to every round trip.
    pub(crate) fn start(to: Endpoint, rtt: Duration) -> io::Result<DelayProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let signals = Signals { is_over: Arc::new(AtomicBool::new(false)), wake };
        let (accepted, incoming) = sync_channel(ACCEPTED_MAX);
        let delayer = Delayer::new(rtt / 2, signals.clone(), incoming)?;
        let accepting = signals.clone();
        let threads = vec![
            spawn("bench-accept", move || accept(&listener, &to, &accepted, &accepting))?,
            spawn("bench-delay", move || delayer.run())?,
        ];
        Ok(DelayProxy { port, signals, threads })
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        self.signals.is_over.store(true, Ordering::Relaxed);
        self.signals.wake();
        // A connection lets the other thread look, too. If it fails, that thread is gone.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Its connections end with it, and their nodes report that.
        if let Err(error) = work() {
            tracing::warn!(%error, "the delaying proxy ended");
        }
    })
}

/// Accepts connections until the end, each with one to the server.
fn accept(
    listener: &TcpListener,
    to: &Endpoint,
    accepted: &SyncSender<[Socket; 2]>,
    signals: &Signals,
) -> io::Result<()> {
    loop {
        let (client, _) = listener.accept()?;
        if signals.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let pair = Socket::accepted(client).and_then(|client| Ok([client, Socket::connect(to)?]));
        // A client whose connection cannot be made sees its own closed.
        let Ok(pair) = pair else { continue };
        if accepted.send(pair).is_err() {
            return Ok(());
        }
        signals.wake();
    }
}

#[cfg(test)]
mod tests;
