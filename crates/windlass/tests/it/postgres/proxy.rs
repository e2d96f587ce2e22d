//! A proxy that understands just enough of the protocol to cut a connection at a chosen message of a write transaction, such
//! as the one that asks for its commit.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Where a server listens within its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// What to do to a connection that asks for a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Cut it; the commit never reaches the server.
    BeforeCommit = 1,
    /// Cut it; the server commits, but its answer is lost.
    AfterCommit = 2,
    /// The server commits, and the connection stays open without an answer.
    Mute = 3,
    /// The commit reaches the server only after [`Proxy::delay`].
    Late = 4,
    /// Cut it; the append reaches the server only after [`Proxy::let_go`]. For appends alone.
    Held = 5,
}

/// A part of the statement that appends jobs.
const APPEND: &[u8] = b".append($1";

/// A part of the statement that announces commits.
const ANNOUNCEMENT: &[u8] = b"pg_notify(";

/// The message that asks for the commit, wherever it comes.
pub(crate) const COMMIT: usize = usize::MAX;

/// Where to cut a connection: at a message of a write transaction, counted from the one that begins it, or at [`COMMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    pub(crate) message: usize,
    /// Whether the server still gets that message; its answer is lost in any case.
    pub(crate) is_passed_on: bool,
}

/// A proxy before a server.
pub(crate) struct Proxy {
    folder: TempDir,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What to do at the next commit; 0 for nothing.
    armed: AtomicUsize,
    /// The boundary to cut at next.
    boundary: Mutex<Option<Boundary>>,
    /// How many commits something was done to.
    cuts: AtomicUsize,
    /// Whether new connections are refused.
    is_shut: AtomicBool,
    /// Whether new connections are refused after the next cut.
    shuts: AtomicBool,
    /// In milliseconds.
    delay: AtomicUsize,
    /// Whether appends that are held reach the server.
    lets_go: AtomicBool,
    /// How many connections were let through.
    connections: AtomicUsize,
    /// How many statements were passed on.
    statements: AtomicUsize,
    /// How many of them belong to transactions that take the store's lock.
    in_turns: AtomicUsize,
    /// How many transactions that take the store's lock were begun.
    turns: AtomicUsize,
    /// How many bytes of answers were passed on in transactions that take the store's lock.
    answered: AtomicUsize,
    /// How many snapshots were begun.
    looks: AtomicUsize,
    /// How many announcements of commits were passed on.
    announcements: AtomicUsize,
    /// Whether round trips are counted.
    is_counting: AtomicBool,
    /// The round trips of the last write transaction that ended.
    round_trips: AtomicUsize,
    /// Both ends of the connections that were let through.
    streams: Mutex<Vec<UnixStream>>,
}

impl Shared {
    /// Whether the connection is to be cut at this message of a write transaction.
    fn take_boundary(&self, message: usize, is_commit: bool) -> Option<Boundary> {
        let mut boundary = self.boundary.lock().unwrap();
        boundary.take_if(|boundary| boundary.message == message || is_commit && boundary.message == COMMIT)
    }

    /// Whether this is to be done next, and is not yet.
    fn take_armed(&self, cut: Cut) -> bool {
        self.armed.compare_exchange(cut as usize, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Counts what a message begins.
    fn count(&self, message: &[u8]) {
        let is_announcement = message.first() == Some(&b'Q')
            && message.windows(ANNOUNCEMENT.len()).any(|window| window == ANNOUNCEMENT);
        for (is_so, counter) in [
            (is_plain(message, b"READ COMMITTED READ WRITE\0"), &self.turns),
            (is_plain(message, b"READ ONLY\0"), &self.looks),
            (is_announcement, &self.announcements),
        ] {
            counter.fetch_add(usize::from(is_so), Ordering::SeqCst);
        }
    }

    /// Something is done to a connection.
    fn strike(&self) {
        self.is_shut.fetch_or(self.shuts.swap(false, Ordering::SeqCst), Ordering::SeqCst);
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }
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

    /// How many statements of transactions that take the store's lock were passed on so far.
    pub(super) fn statements_in_turns(&self) -> usize {
        self.shared.in_turns.load(Ordering::SeqCst)
    }

    /// How many transactions that take the store's lock were begun so far.
    pub(super) fn turns(&self) -> usize {
        self.shared.turns.load(Ordering::SeqCst)
    }

    /// How many bytes of answers were passed on so far in transactions that take the store's lock.
    pub(super) fn answered_in_turns(&self) -> usize {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// How many snapshots were begun so far.
    pub(super) fn looks(&self) -> usize {
        self.shared.looks.load(Ordering::SeqCst)
    }

    /// How many announcements of commits were passed on so far.
    pub(super) fn announcements(&self) -> usize {
        self.shared.announcements.load(Ordering::SeqCst)
    }

    /// Cuts the next write transaction at this message.
    pub(crate) fn arm_at(&self, boundary: Boundary) {
        *self.shared.boundary.lock().unwrap() = Some(boundary);
    }

    /// The same, and refuses new connections from then on.
    pub(super) fn arm_at_and_shut(&self, boundary: Boundary) {
        self.shared.shuts.store(true, Ordering::SeqCst);
        self.arm_at(boundary);
    }

    /// The server is gone: every connection is cut, and new ones are refused.
    pub(super) fn sever(&self) {
        self.shut(true);
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            // It may have been closed long ago.
            let _closed = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// The same as [`Proxy::arm`], and refuses new connections from then on.
    pub(super) fn arm_and_shut(&self, cut: Cut) {
        self.shared.shuts.store(true, Ordering::SeqCst);
        self.arm(cut);
    }

    /// Does nothing to the next commit.
    pub(crate) fn disarm(&self) {
        self.shared.shuts.store(false, Ordering::SeqCst);
        self.shared.armed.store(0, Ordering::SeqCst);
        *self.shared.boundary.lock().unwrap() = None;
    }

    /// Refuses new connections, or accepts them again.
    pub(super) fn shut(&self, is_shut: bool) {
        self.shared.is_shut.store(is_shut, Ordering::SeqCst);
    }

    /// How late a commit comes that is late.
    pub(super) fn delay(&self, by: Duration) {
        self.shared.delay.store(usize::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Passes on what is held.
    pub(super) fn let_go(&self) {
        self.shared.lets_go.store(true, Ordering::SeqCst);
    }

    /// Begins or ends to count round trips; gives those of the last write transaction. While they are counted, answers
    /// are held back until the client has nothing more to send.
    pub(super) fn count_round_trips(&self, is_counting: bool) -> usize {
        self.shared.is_counting.store(is_counting, Ordering::SeqCst);
        self.shared.round_trips.swap(0, Ordering::SeqCst)
    }

    /// How many connections were let through so far.
    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many commits something was done to.
    pub(super) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

fn pass_on(client: UnixStream, server: &PathBuf, shared: &Arc<Shared>) {
    let Ok(server) = UnixStream::connect(server) else { return };
    shared.connections.fetch_add(1, Ordering::SeqCst);
    let ends = [client.try_clone().unwrap(), server.try_clone().unwrap()];
    shared.streams.lock().unwrap().extend(ends.iter().map(|end| end.try_clone().unwrap()));
    // Another task may have severed all connections just before.
    if !shared.is_shut.load(Ordering::SeqCst) {
        let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let (is_mute, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(Turns::default()));
        let (mute, taken, of_all) = (is_mute.clone(), turns.clone(), shared.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = answers.read(&mut buffer) {
                let in_turn = if taken.is_write.load(Ordering::SeqCst) { length } else { 0 };
                of_all.answered.fetch_add(in_turn, Ordering::SeqCst);
                taken.answer(&of_all);
                // A server whose answers are not read would give up what it was asked to commit.
                if !mute.load(Ordering::SeqCst) && to_client.write_all(&buffer[..length]).is_err() {
                    mute.store(true, Ordering::SeqCst);
                }
            }
            let _closed = to_client.shutdown(std::net::Shutdown::Both);
        });
        // A broken pipe on either side ends both.
        let _ended = pass_requests(client, server, shared, &is_mute, &turns);
    }
    let [client, server] = ends;
    let _closed = client.shutdown(std::net::Shutdown::Both);
    // The server still sends its last answer, which is not read.
    let _closed = server.shutdown(std::net::Shutdown::Write);
}

fn pass_requests(
    mut client: UnixStream,
    mut server: UnixStream,
    shared: &Shared,
    is_mute: &AtomicBool,
    turns: &Turns,
) -> std::io::Result<()> {
    // The first message has no kind.
    let mut message = read_body(&mut client, Vec::new())?;
    let (mut place, mut appending) = (Place::default(), Appending::default());
    loop {
        turns.ask(&message);
        let is_commit = is_plain(&message, b"COMMIT\0") || appending.is_end(&message);
        if appending.is_bound && shared.take_armed(Cut::Held) {
            return hold(client, server, message, shared);
        }
        let mut cut = if is_commit { shared.armed.swap(0, Ordering::SeqCst) } else { 0 };
        let number = place.of(&message);
        let boundary = number.and_then(|number| shared.take_boundary(number, is_commit));
        if let Some(boundary) = boundary {
            cut = if boundary.is_passed_on { Cut::AfterCommit } else { Cut::BeforeCommit } as usize;
        }
        if cut != 0 {
            shared.strike();
        }
        if cut == Cut::BeforeCommit as usize || cut == Cut::AfterCommit as usize {
            return cut_off(&client, &mut server, (cut == Cut::AfterCommit as usize).then_some(&message));
        }
        // A statement ends with a request to synchronise, or is a plain query.
        if matches!(message.first(), Some(b'S' | b'Q')) {
            shared.statements.fetch_add(1, Ordering::SeqCst);
            shared.in_turns.fetch_add(usize::from(number.is_some()), Ordering::SeqCst);
        }
        shared.count(&message);
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

/// Ends a connection, after one more message to the server if there is one.
fn cut_off(client: &UnixStream, server: &mut UnixStream, last: Option<&Vec<u8>>) -> std::io::Result<()> {
    client.shutdown(std::net::Shutdown::Both)?;
    let Some(last) = last else { return server.shutdown(std::net::Shutdown::Both) };
    server.write_all(last)?;
    // The server's answer goes nowhere; it ends once it has been given.
    server.shutdown(std::net::Shutdown::Write)
}

/// Cuts off a client and keeps its last statement, from this message on, until it is let go.
fn hold(
    mut client: UnixStream,
    mut server: UnixStream,
    mut message: Vec<u8>,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut held = Vec::new();
    while message.first() != Some(&b'S') {
        held.append(&mut message);
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        message = read_body(&mut client, kind.to_vec())?;
    }
    held.append(&mut message);
    client.shutdown(std::net::Shutdown::Both)?;
    shared.strike();
    while !shared.lets_go.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
    server.write_all(&held)?;
    server.shutdown(std::net::Shutdown::Write)
}

/// How long a client says nothing when it waits for an answer.
const QUIET: Duration = Duration::from_millis(20);

/// The round trips of the write transaction on a connection.
#[derive(Default)]
struct Turns {
    /// Messages that the client has sent.
    asked: AtomicUsize,
    /// As many of them as were answered.
    answered: AtomicUsize,
    count: AtomicUsize,
    is_write: AtomicBool,
}

impl Turns {
    fn ask(&self, message: &[u8]) {
        if is_plain(message, b"READ WRITE\0") {
            self.count.store(0, Ordering::SeqCst);
            self.is_write.store(true, Ordering::SeqCst);
        } else if is_plain(message, b"READ ONLY\0") {
            self.is_write.store(false, Ordering::SeqCst);
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until the client waits, and counts that.
    fn answer(&self, shared: &Shared) {
        if !shared.is_counting.load(Ordering::SeqCst) || !self.is_write.load(Ordering::SeqCst) {
            return;
        }
        let mut asked = self.asked.load(Ordering::SeqCst);
        if self.answered.load(Ordering::SeqCst) == asked {
            return;
        }
        loop {
            thread::sleep(QUIET);
            let now = self.asked.load(Ordering::SeqCst);
            if std::mem::replace(&mut asked, now) == now {
                break;
            }
        }
        self.answered.store(asked, Ordering::SeqCst);
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        shared.round_trips.store(count, Ordering::SeqCst);
    }
}

/// How many messages of a write transaction have gone by on a connection.
#[derive(Default)]
struct Place {
    next: Option<usize>,
}

impl Place {
    /// The number of this message in its transaction, if it belongs to one.
    fn of(&mut self, message: &[u8]) -> Option<usize> {
        if is_plain(message, b"READ WRITE\0") {
            self.next = Some(0);
        }
        let number = self.next?;
        let is_end = is_plain(message, b"COMMIT\0") || is_plain(message, b"ROLLBACK\0");
        self.next = (!is_end).then_some(number + 1);
        Some(number)
    }
}

/// Whether a connection is about to append jobs, with a statement that it keeps or not.
#[derive(Default)]
struct Appending {
    /// The name of the statement that appends jobs.
    statement: Option<Vec<u8>>,
    is_bound: bool,
}

impl Appending {
    /// Whether this message ends an append: what is executed by itself is committed by the request to synchronise.
    fn is_end(&mut self, message: &[u8]) -> bool {
        let mut texts = message.get(5..).unwrap_or_default().split(|byte| *byte == 0);
        match message.first() {
            Some(b'P') => {
                let name = texts.next().unwrap_or_default().to_vec();
                let sql = texts.next().unwrap_or_default();
                if sql.windows(APPEND.len()).any(|window| window == APPEND) {
                    self.statement = Some(name);
                } else if self.statement.as_ref() == Some(&name) {
                    self.statement = None;
                }
            }
            // The portal comes before the statement.
            Some(b'B') => self.is_bound = self.statement.as_deref() == texts.nth(1),
            Some(b'S') => return std::mem::take(&mut self.is_bound),
            _ => {}
        }
        false
    }
}

/// Whether it is a plain query that ends with these words.
fn is_plain(message: &[u8], words: &[u8]) -> bool {
    message.first() == Some(&b'Q') && message.ends_with(words)
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
