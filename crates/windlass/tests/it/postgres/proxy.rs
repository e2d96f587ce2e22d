//! A proxy that understands just enough of the protocol to cut a connection at the worst moment: when a commit is asked for.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Where a server listens within its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// What to do to a connection that asks for a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Cut it; the server never hears of the commit.
    BeforeCommit = 1,
    /// Cut it; the server commits, but nobody hears of it.
    AfterCommit = 2,
    /// The server commits, and the connection stays open without an answer.
    Mute = 3,
    /// The server hears of the commit only after [`Proxy::delay`].
    Late = 4,
}

/// A proxy before a server.
pub(super) struct Proxy {
    folder: TempDir,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What to do at the next commit; 0 for nothing.
    armed: AtomicUsize,
    /// How many commits something was done to.
    cuts: AtomicUsize,
    /// Whether nobody is let through.
    is_shut: AtomicBool,
    /// Whether nobody is let through after the next cut.
    shuts: AtomicBool,
    /// In milliseconds.
    delay: AtomicUsize,
    /// How many statements were passed on.
    statements: AtomicUsize,
}

impl Proxy {
    /// A proxy before the server whose socket is in this folder.
    pub(super) fn before(server: &Path) -> Proxy {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let shared: Arc<Shared> = Arc::default();
        let (server, of_all) = (server.join(SOCKET), shared.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, shared) = (server.clone(), of_all.clone());
                if !shared.is_shut.load(Ordering::SeqCst) {
                    thread::spawn(move || pass_on(client, &server, &shared));
                }
            }
        });
        Proxy { folder, shared }
    }

    /// The address through the proxy, without a schema.
    pub(super) fn address(&self) -> String {
        format!("postgres:///postgres?user=windlass&host={}", self.folder.path().display())
    }

    /// Does this to the connection that asks for a commit next.
    pub(super) fn arm(&self, cut: Cut) {
        self.shared.armed.store(cut as usize, Ordering::SeqCst);
    }

    /// How many statements were passed on so far.
    pub(super) fn statements(&self) -> usize {
        self.shared.statements.load(Ordering::SeqCst)
    }

    /// The same, and lets nobody through from then on.
    pub(super) fn arm_and_shut(&self, cut: Cut) {
        self.shared.shuts.store(true, Ordering::SeqCst);
        self.arm(cut);
    }

    /// Does nothing to the next commit.
    pub(super) fn disarm(&self) {
        self.shared.shuts.store(false, Ordering::SeqCst);
        self.shared.armed.store(0, Ordering::SeqCst);
    }

    /// Lets nobody new through, or everybody again.
    pub(super) fn shut(&self, is_shut: bool) {
        self.shared.is_shut.store(is_shut, Ordering::SeqCst);
    }

    /// How late a commit comes that is late.
    pub(super) fn delay(&self, by: Duration) {
        self.shared.delay.store(usize::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// How many commits something was done to.
    pub(super) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

fn pass_on(client: UnixStream, server: &PathBuf, shared: &Shared) {
    let Ok(server) = UnixStream::connect(server) else { return };
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let is_mute = Arc::new(AtomicBool::new(false));
    let mute = is_mute.clone();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = answers.read(&mut buffer) {
            // A server whose answers nobody takes would give up what it was asked to commit.
            if !mute.load(Ordering::SeqCst) && to_client.write_all(&buffer[..length]).is_err() {
                mute.store(true, Ordering::SeqCst);
            }
        }
        let _closed = to_client.shutdown(std::net::Shutdown::Both);
    });
    // A broken pipe on either side ends both.
    let _ended = pass_requests(client, server, shared, &is_mute);
}

fn pass_requests(
    mut client: UnixStream,
    mut server: UnixStream,
    shared: &Shared,
    is_mute: &AtomicBool,
) -> std::io::Result<()> {
    // The first message has no kind.
    let mut message = read_body(&mut client, Vec::new())?;
    loop {
        let is_commit = message.ends_with(b"COMMIT\0") && message.first() == Some(&b'Q');
        let cut = if is_commit { shared.armed.swap(0, Ordering::SeqCst) } else { 0 };
        if cut != 0 {
            shared.is_shut.fetch_or(shared.shuts.swap(false, Ordering::SeqCst), Ordering::SeqCst);
            shared.cuts.fetch_add(1, Ordering::SeqCst);
        }
        if cut == Cut::BeforeCommit as usize || cut == Cut::AfterCommit as usize {
            client.shutdown(std::net::Shutdown::Both)?;
            if cut == Cut::AfterCommit as usize {
                server.write_all(&message)?;
                // The server's answer goes nowhere; it ends once it has been given.
                server.shutdown(std::net::Shutdown::Write)?;
            } else {
                server.shutdown(std::net::Shutdown::Both)?;
            }
            return Ok(());
        }
        // A statement ends with a request to synchronise, or is a plain query.
        if matches!(message.first(), Some(b'S' | b'Q')) {
            shared.statements.fetch_add(1, Ordering::SeqCst);
        }
        if cut == Cut::Mute as usize {
            is_mute.store(true, Ordering::SeqCst);
        }
        if cut == Cut::Late as usize {
            thread::sleep(Duration::from_millis(shared.delay.load(Ordering::SeqCst) as u64));
        }
        server.write_all(&message)?;
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        message = read_body(&mut client, kind.to_vec())?;
    }
}

/// The rest of a message: its length, which counts itself, and what follows.
fn read_body(from: &mut UnixStream, mut message: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    message.extend(length);
    let start = message.len();
    let rest = usize::try_from(u32::from_be_bytes(length)).unwrap_or(0).saturating_sub(4);
    message.resize(start + rest, 0);
    from.read_exact(&mut message[start..])?;
    Ok(message)
}
