//! A proxy that understands just enough of the protocol to cut a connection at the worst moment: when a commit is asked for.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;

/// Where a server listens within its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// When to cut a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The server never hears of the commit.
    BeforeCommit = 1,
    /// The server commits, but nobody hears of it.
    AfterCommit = 2,
}

/// A proxy before a server.
pub(super) struct Proxy {
    folder: TempDir,
    /// What to do at the next commit; 0 for nothing.
    armed: Arc<AtomicUsize>,
    /// How many connections were cut.
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy before the server whose socket is in this folder.
    pub(super) fn before(server: &Path) -> Proxy {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let (armed, cuts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (server, shared) = (server.join(SOCKET), (armed.clone(), cuts.clone()));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, shared) = (server.clone(), shared.clone());
                thread::spawn(move || pass_on(client, &server, &shared));
            }
        });
        Proxy { folder, armed, cuts }
    }

    /// The address through the proxy, without a schema.
    pub(super) fn address(&self) -> String {
        format!("postgres:///postgres?user=windlass&host={}", self.folder.path().display())
    }

    /// Cuts the connection that asks for a commit next.
    pub(super) fn arm(&self, cut: Cut) {
        self.armed.store(cut as usize, Ordering::SeqCst);
    }

    /// How many connections were cut.
    pub(super) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

fn pass_on(client: UnixStream, server: &PathBuf, shared: &(Arc<AtomicUsize>, Arc<AtomicUsize>)) {
    let Ok(server) = UnixStream::connect(server) else { return };
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let _ended = std::io::copy(&mut answers, &mut to_client);
        let _closed = to_client.shutdown(std::net::Shutdown::Both);
    });
    // A broken pipe on either side ends both.
    let _ended = pass_requests(client, server, shared);
}

fn pass_requests(
    mut client: UnixStream,
    mut server: UnixStream,
    (armed, cuts): &(Arc<AtomicUsize>, Arc<AtomicUsize>),
) -> std::io::Result<()> {
    // The first message has no kind.
    let mut message = read_body(&mut client, Vec::new())?;
    loop {
        let is_commit = message.ends_with(b"COMMIT\0") && message.first() == Some(&b'Q');
        let cut = if is_commit { armed.swap(0, Ordering::SeqCst) } else { 0 };
        if cut != 0 {
            cuts.fetch_add(1, Ordering::SeqCst);
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
