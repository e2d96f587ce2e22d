//! Errors of a store as a whole: using it, opening it, moving it and restoring it.

use std::time::Duration;

use super::Forbidden;

/// The store failed. Nothing changed, except that after [`Unavailable`](StoreError::Unavailable) and
/// [`Unreachable`](StoreError::Unreachable) it may be unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full. Submissions are refused; running jobs can still finish.
    #[error("the disk is full: free some space; submissions are then accepted again without a restart")]
    Full,
    /// Too many requests are waiting.
    #[error("{waiting} requests are already waiting: try again in {retry_after:?}")]
    Overloaded {
        /// Number of waiting requests.
        waiting: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// An API key or a tenant has reached its limit of waiting reads; other callers are served.
    #[error("{waiting} reads of this {of} are already waiting: try again in {retry_after:?}")]
    TooManyReads {
        /// `key` or `tenant`.
        of: &'static str,
        /// Number of waiting requests.
        waiting: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// A read took longer than its caller waits; the database is available.
    #[error("the read took too long: {0}; try again later, or narrow the query")]
    TooSlow(String),
    /// A durable write failed; this process must not acknowledge anything any more.
    #[error("the store has stopped: {0}")]
    Stopped(String),
    /// The store was closed by its own program.
    #[error("the store was closed; open it again to use it")]
    Closed,
    /// Stored data is damaged and is not served.
    #[error("stored data is damaged: {0}; restore a backup, or run `windlass verify`")]
    Damaged(String),
    /// The database server is unreachable or read-only; the store keeps trying to reconnect.
    #[error("the database is unavailable: {0}; try again later")]
    Unavailable(String),
    /// Any other database error.
    #[error("database error: {0}")]
    Database(String),
    /// The store was moved, or is being moved; the text says what to do.
    #[error("{0}")]
    Moved(String),
    /// The server did not respond; the request may have been executed.
    #[error("the server does not respond: {0}")]
    Unreachable(String),
    /// The server does not know the caller, or does not permit this read.
    #[error(transparent)]
    Forbidden(Forbidden),
    /// Not available through a server; only a process with the database can do this.
    #[error("`{0}` is not available through a server; run it where the database is")]
    LocalOnly(&'static str),
    /// A server knows its callers by their API keys, and this client has another caller's.
    #[error(
        "a client of a server acts as the owner of its API key: open another client with the other caller's key"
    )]
    OtherCaller,
    /// The server speaks another worker protocol than this program.
    #[error(
        "the server speaks worker protocol {server}, this program {own}: use versions that speak the same one"
    )]
    OtherProtocol {
        /// The server's.
        server: u32,
        /// This program's.
        own: u32,
    },
}

impl StoreError {
    /// Whether every later call fails too: the store has stopped or was closed, or speaks another protocol.
    pub fn is_permanent(&self) -> bool {
        matches!(self, StoreError::Stopped(_) | StoreError::Closed | StoreError::OtherProtocol { .. })
    }
}

/// A store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This build does not support the address.
    #[error(
        "cannot open `{0}`: give `sqlite:PATH`, `postgres://HOST/DATABASE` or `memory:`; a client also takes `http://HOST:PORT`"
    )]
    UnknownAddress(String),
    /// The address is that of a server, which has the store.
    #[error(
        "this is the address of a server, not of a store: connect to it with a client (feature `remote`)"
    )]
    ServerAddress,
    /// The address of the database server is invalid.
    #[error("invalid database address: {0}")]
    BadAddress(String),
    /// The database server is a standby.
    #[error("the database server is a standby: use the address of the primary")]
    Standby,
    /// The address of a Windlass server is invalid.
    #[error("cannot open the server at `{address}`: {problem}")]
    BadServerAddress {
        /// The address, without the API key.
        address: String,
        /// What is wrong.
        problem: String,
    },
    /// The store was written by a newer version.
    #[error("the store has schema {found}, this version supports up to {known}: use a newer windlass")]
    NewerSchema {
        /// Schema of the store.
        found: u32,
        /// The newest schema that this build supports.
        known: u32,
    },
    /// The file is on a network file system, where locks cannot be trusted.
    #[error("`{0}` is on a network file system ({1}): use a local disk, or PostgreSQL")]
    NetworkFileSystem(String, String),
    /// Acknowledged commits are missing from the file.
    #[error(
        "commits {first_missing} to {last_acknowledged} were acknowledged and are missing: restore a backup"
    )]
    CommitsMissing {
        /// The first missing commit.
        first_missing: u64,
        /// The last acknowledged commit.
        last_acknowledged: u64,
    },
    /// The database file is missing or empty, but files that belong to it exist.
    #[error(
        "the database `{path}` is missing or empty, but `{found}` is still there ({commits} commits were acknowledged): put the \
         database or a backup back; to start with an empty store, delete the files whose names begin with `{path}-`"
    )]
    DatabaseMissing {
        /// The database file.
        path: String,
        /// A file that belongs to the database.
        found: String,
        /// The number of acknowledged commits; 0 if unknown.
        commits: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store could not be moved. Both stores are unchanged, or closed until the move is run again or undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// An address is not a database.
    #[error("`{0}` is not a database: use `sqlite:PATH` or `postgres://HOST/DATABASE`")]
    NoDatabase(String),
    /// The source does not exist.
    #[error("there is no store at `{0}`")]
    Missing(String),
    /// The source or the target cannot be opened.
    #[error("cannot open `{place}`: {error}")]
    Open {
        /// The address.
        place: String,
        /// The error.
        error: OpenError,
    },
    /// The source or the target is open in another program.
    #[error(
        "`{0}` is in use: stop every server and program that has it open, then run the same command again"
    )]
    InUse(String),
    /// Source and target are the same store.
    #[error("both addresses lead to the same store")]
    SamePlace,
    /// The target already contains data.
    #[error("`{0}` is not empty: use a new file, database or schema")]
    NotEmpty(String),
    /// The source is the target of an unfinished move.
    #[error("`{0}` is incomplete: a move to it did not finish or was abandoned")]
    NotWhole(String),
    /// The source was moved, or is being moved.
    #[error("`{from}` was moved to {to}, or is being moved there: finish that move, or undo it")]
    AlreadyMoved {
        /// The source.
        from: String,
        /// The target.
        to: String,
    },
    /// The target is part of another move.
    #[error("`{0}` belongs to another move")]
    OtherMove(String),
    /// The inbox contains SQL submissions that could not become jobs.
    #[error(
        "{0} submissions in `inbox` were set aside and would be lost: list them with `windlass verify`, then fix or \
         delete them first"
    )]
    InboxSetAside(u64),
    /// Source and target differ after the copy.
    #[error("the target differs from the source: sent {sent}, found {arrived}; undo the move")]
    Differs {
        /// Digest of the source.
        sent: String,
        /// Digest of the target.
        arrived: String,
    },
    /// The copy is complete but violates invariants.
    #[error(
        "the copy is complete but violates invariants: {}; undo the move and run `windlass verify` for details",
        promises.join("; ")
    )]
    Broken {
        /// Descriptions of the violated invariants.
        promises: Vec<String>,
    },
    /// There is no move to undo.
    #[error("`{0}` was not moved: there is nothing to undo")]
    NotMoved(String),
    /// Undoing the move would lose data.
    #[error(
        "the move has finished: changes in the target since then would be lost; move it back with `windlass move` \
         instead, or use `--force`"
    )]
    NeedsForce,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A backup could not be restored; files of the attempt were removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup does not exist.
    #[error("there is no file at `{0}`")]
    NoBackup(String),
    /// The target exists.
    #[error(
        "`{0}` already exists and is not overwritten: make sure that no server uses it, then move it away, or \
         restore to another name"
    )]
    Exists(String),
    /// The backup cannot be opened.
    #[error("the backup cannot be opened: {0}")]
    Open(#[from] OpenError),
    /// The file is empty, or a database of another program.
    #[error("`{0}` is not a backup of a Windlass store: it is empty, or belongs to another program")]
    NotAStore(String),
    /// The backup violates invariants.
    #[error("the backup violates invariants: {}", promises.join("; "))]
    Broken {
        /// Descriptions of the violated invariants.
        promises: Vec<String>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_closed_does_not_send_anyone_to_the_disk() {
        let closed = StoreError::Closed;
        assert_eq!(closed.to_string(), "the store was closed; open it again to use it");
        let stopped = StoreError::Stopped("I/O error; check the disk, then restart".to_owned());
        assert_eq!(stopped.to_string(), "the store has stopped: I/O error; check the disk, then restart");
        assert!(closed.is_permanent() && stopped.is_permanent() && !StoreError::Full.is_permanent());
    }
}
