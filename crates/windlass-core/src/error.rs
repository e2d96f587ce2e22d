//! Errors, one enum per kind of operation, so that a caller matches exactly what can happen. Expected races are not
//! errors but results (`Finish::Stale`, `ActionResult::Unchanged`).

mod invalid;

use std::time::Duration;

pub use invalid::{FieldProblem, Invalid};

use crate::job::{JobAction, JobId, JobState, NeededBy, ScheduleName, Version, WorkerId};
use crate::key::KeyId;

/// The store failed. Nothing changed, except that after [`Away`](StoreError::Away) and
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
    #[error("storage failed and the store has stopped: {0}; check the disk, then restart")]
    Stopped(String),
    /// Stored data is damaged and is not served.
    #[error("stored data is damaged: {0}; restore a backup, or run `windlass verify`")]
    Damaged(String),
    /// The database server is unreachable or read-only; the store keeps trying to reconnect.
    #[error("the database is unavailable: {0}; try again later")]
    Away(String),
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
    /// The database file is missing, but files that belong to it exist.
    #[error(
        "the database `{path}` is missing, but `{found}` is still there ({commits} commits were acknowledged): put the \
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

/// A submission was refused; nothing was stored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A value is not allowed. `index` is the job's position in its batch.
    #[error("job {index}: {invalid}")]
    Invalid {
        /// Position in the batch, from 0.
        index: usize,
        /// Field and problem.
        invalid: Invalid,
    },
    /// The payload is larger than the limit.
    #[error("job {index}: payload is {size} bytes, the limit is {limit}")]
    PayloadTooLarge {
        /// Position in the batch, from 0.
        index: usize,
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
    /// Another job that is not final holds the unique key.
    #[error("job {index}: unique key `{key}` is held by job {holder}")]
    UniqueKeyTaken {
        /// Position in the batch, from 0.
        index: usize,
        /// The unique key.
        key: String,
        /// The job that holds the key.
        holder: JobId,
    },
    /// Strict mode: the idempotency key was used with another payload.
    #[error("job {index}: idempotency key belongs to job {existing} with another payload")]
    PayloadDiffers {
        /// Position in the batch, from 0.
        index: usize,
        /// The job that has the key.
        existing: JobId,
    },
    /// The queue or tenant has reached its limit of unfinished jobs.
    #[error("{scope} holds {depth} unfinished jobs, the limit is {limit}: try again in {retry_after:?}")]
    TooDeep {
        /// The queue or tenant.
        scope: String,
        /// Unfinished jobs now.
        depth: u64,
        /// The limit.
        limit: u64,
        /// When to try again.
        retry_after: Duration,
    },
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An action was refused; nothing changed and nothing was audited.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ActError {
    /// The job does not exist, or belongs to another tenant.
    #[error("no job {0}")]
    NotFound(JobId),
    /// The job's state does not allow the action.
    #[error(transparent)]
    Refused(#[from] InvalidTransition),
    /// Strict mode: the job is already suspended.
    #[error("job {0} is already suspended")]
    AlreadySuspended(JobId),
    /// Strict mode: the job is not suspended.
    #[error("job {0} is not suspended")]
    NotSuspended(JobId),
    /// Strict mode: it is already paused.
    #[error("{0} is already paused")]
    AlreadyPaused(String),
    /// Strict mode: it is not paused.
    #[error("{0} is not paused")]
    NotPaused(String),
    /// The job cannot be deleted yet, because another job needs it.
    #[error("job {id} cannot be deleted: {by}")]
    Needed {
        /// The job.
        id: JobId,
        /// The job's final state.
        state: JobState,
        /// The job that needs it.
        by: NeededBy,
    },
    /// The job was already redriven, and the caller asked for at most one successor.
    #[error("job {id} was already redriven as job {successor}: check that job first")]
    AlreadyRedriven {
        /// The job.
        id: JobId,
        /// The job that replaced it.
        successor: JobId,
    },
    /// The job's version is not the expected one: it changed since the caller read it.
    #[error("job {id} has changed (its version is now {version}): read it again")]
    Changed {
        /// The job.
        id: JobId,
        /// The current version.
        version: Version,
    },
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The worker does not exist, or was removed.
    #[error("no worker {0}")]
    NoSuchWorker(WorkerId),
    /// The API key does not exist, or was revoked.
    #[error("no key {0}")]
    NoSuchKey(KeyId),
    /// The last admin key cannot be revoked: without it nobody could manage keys.
    #[error("key {0} is the last admin key: create another one first")]
    LastAdminKey(KeyId),
    /// The unique key of the job to redrive is held by another job.
    #[error("unique key `{key}` is held by job {holder}")]
    UniqueKeyTaken {
        /// The unique key.
        key: String,
        /// The job that holds the key.
        holder: JobId,
    },
    /// Redriving would exceed the limit of unfinished jobs of the queue or tenant.
    #[error("{scope} holds {depth} unfinished jobs, the limit is {limit}: try again in {retry_after:?}")]
    TooDeep {
        /// The queue or tenant.
        scope: String,
        /// Unfinished jobs now.
        depth: u64,
        /// The limit.
        limit: u64,
        /// When to try again.
        retry_after: Duration,
    },
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A schedule operation was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule does not exist, or belongs to another tenant.
    #[error("no schedule {0}")]
    NotFound(ScheduleName),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The schedule's job was refused.
    #[error(transparent)]
    Refused(Box<SubmitError>),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SubmitError> for ScheduleError {
    fn from(error: SubmitError) -> ScheduleError {
        match error {
            SubmitError::Invalid { invalid, .. } => {
                let field = format!("job.{}", invalid.field);
                ScheduleError::Invalid(Invalid::new(field, invalid.problem))
            }
            SubmitError::Forbidden(denied) => ScheduleError::Forbidden(denied),
            SubmitError::Store(error) => ScheduleError::Store(error),
            refused => ScheduleError::Refused(Box::new(refused)),
        }
    }
}

/// The state machine has no such transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} a job that is {state}", .action.verb())]
pub struct InvalidTransition {
    /// The job's state.
    pub state: JobState,
    /// The action.
    pub action: JobAction,
}

/// The caller's role or tenant does not allow this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{actor} with role {role} may not {action}")]
pub struct Forbidden {
    /// The caller.
    pub actor: String,
    /// The caller's role.
    pub role: &'static str,
    /// The action.
    pub action: &'static str,
}

/// A worker's request was refused as a whole.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The worker is not registered, or was removed: register again.
    #[error("no worker {0}: register again")]
    NoSuchWorker(WorkerId),
    /// The job does not exist, or belongs to another tenant.
    #[error("no job {0}")]
    NoSuchJob(JobId),
    /// The lease was lost; nothing was written.
    #[error("the lease on job {0} was lost")]
    Stale(JobId),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An API key or a tenant has reached its limit of registered workers, or of the bytes in their queue and type
    /// names.
    #[error(
        "this {of} may have {workers_max} workers with {bytes_max} bytes of queue and type names: stop some, or use fewer names"
    )]
    TooManyWorkers {
        /// `key` or `tenant`.
        of: &'static str,
        /// The limit on workers.
        workers_max: usize,
        /// The limit on bytes of names.
        bytes_max: usize,
        /// When to try again; workers without heartbeats are removed by then.
        retry_after: Duration,
    },
    /// The children were refused.
    #[error(transparent)]
    Children(Box<SubmitError>),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
