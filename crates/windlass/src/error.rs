//! What can go wrong, one enum per kind of operation, so that a caller matches exactly what can happen.
//! Expected races are not here: they are outcomes (`Finish::Stale`, `ActionResult::Unchanged`).

mod invalid;

use std::time::Duration;

pub use invalid::{FieldProblem, Invalid};

use crate::job::{Action, JobId, JobState, NeededBy, ScheduleName, Version, WorkerId};
use crate::key::KeyId;

/// The store could not do its work; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full; submissions are refused, running work may still end.
    #[error("the disk is full: free some space, submissions are taken again by themselves")]
    Full,
    /// Too many callers are waiting.
    #[error("{waiting} requests are waiting already: try again in {retry_after:?}")]
    Overloaded {
        /// How many wait.
        waiting: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// A key or a tenant has as many reads waiting as it may have; others are served.
    #[error("{waiting} reads of this {of} are waiting already: try again in {retry_after:?}")]
    TooManyReads {
        /// Of what: `key` or `tenant`.
        of: &'static str,
        /// How many wait.
        waiting: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// A read took longer than its caller waits; the database is well.
    #[error("it took too long: {0}; try again later, or ask for less")]
    TooSlow(String),
    /// A durable write failed; this process must not acknowledge anything any more.
    #[error("storage failed and the store has stopped: {0}; restart after the disk was checked")]
    Stopped(String),
    /// What is stored is damaged; it is not served.
    #[error("stored data is damaged: {0}; restore a backup, or ask `windlass verify`")]
    Damaged(String),
    /// The database server cannot be reached, or not written to; trying goes on by itself.
    #[error("the database is away: {0}; try again later")]
    Away(String),
    /// Any other trouble with the database.
    #[error("the database answered: {0}")]
    Database(String),
    /// What was stored here is elsewhere by now, or on its way; the text says what to do.
    #[error("{0}")]
    Moved(String),
    /// The server that keeps the store does not answer; what it was asked for may have happened all the same.
    #[error("the server does not answer: {0}")]
    Unreachable(String),
    /// The server that keeps the store does not know the caller, or knows it may not look.
    #[error(transparent)]
    Forbidden(Forbidden),
    /// Asked of a store that a server keeps, and only the server itself can do it.
    #[error("`{0}` is for the process that keeps the store: here it is reached through a server")]
    LocalOnly(&'static str),
}

/// A store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is none that this build understands.
    #[error(
        "cannot open `{0}`: give `sqlite:PATH`, `postgres://HOST/DATABASE`, `http://HOST:PORT` or `memory:`"
    )]
    UnknownAddress(String),
    /// The address of a database server cannot be understood.
    #[error("cannot understand the address of the database: {0}")]
    BadAddress(String),
    /// The database server only follows another one.
    #[error("the database server is a standby: give the address of the primary")]
    Standby,
    /// The address of a server, but not one that can be used.
    #[error("cannot open the server at `{address}`: {problem}")]
    BadServerAddress {
        /// The address, without its key.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The store belongs to a newer version.
    #[error("the store has schema {found}, this version knows {known}: use a newer windlass")]
    NewerSchema {
        /// Schema found in the file.
        found: u32,
        /// Newest schema this build knows.
        known: u32,
    },
    /// The file is on a network file system, where locks cannot be trusted.
    #[error("`{0}` is on a network file system ({1}): use a local disk, or PostgreSQL")]
    NetworkFileSystem(String, String),
    /// Commits that were acknowledged are not in the file any more.
    #[error(
        "commits {first_missing} to {last_acknowledged} were acknowledged and are gone: restore a backup"
    )]
    CommitsMissing {
        /// The first commit that is missing.
        first_missing: u64,
        /// The last one that was acknowledged.
        last_acknowledged: u64,
    },
    /// The database file is missing, but files that belong to it are there.
    #[error(
        "the database `{path}` is missing, but `{found}` is still there ({commits} commits were acknowledged): put the \
         database or a backup back; to start with an empty store, delete the files whose names begin with `{path}-`"
    )]
    DatabaseMissing {
        /// The database.
        path: String,
        /// A file that belongs to it.
        found: String,
        /// The number of acknowledged commits, 0 if it is not known.
        commits: u64,
    },
    /// The store itself refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store could not be moved; both ends are as they were, or shut until the move is run again or undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// One of the ends is no database.
    #[error("`{0}` is no database: give `sqlite:PATH` or `postgres://HOST/DATABASE`")]
    NoDatabase(String),
    /// There is nothing to be moved.
    #[error("there is no store at `{0}`")]
    Missing(String),
    /// One of the ends cannot be opened.
    #[error("cannot open `{place}`: {error}")]
    Open {
        /// Which end.
        place: String,
        /// Why not.
        error: OpenError,
    },
    /// Somebody has one of the ends open.
    #[error(
        "`{0}` is in use: stop every server and program that has it open, then run the same command again"
    )]
    InUse(String),
    /// Both ends are the same.
    #[error("both addresses lead to the same store")]
    SamePlace,
    /// The target holds something already.
    #[error("`{0}` is not empty: give a new file, database or schema")]
    NotEmpty(String),
    /// The source itself is only half there.
    #[error("`{0}` is not whole: it was being moved there, or was given up")]
    NotWhole(String),
    /// The source went elsewhere, or is on its way.
    #[error("`{from}` was moved to {to}, or is on its way there: run that move to its end, or undo it")]
    AlreadyMoved {
        /// The source.
        from: String,
        /// Where it went.
        to: String,
    },
    /// The target is part of another move.
    #[error("`{0}` belongs to another move")]
    OtherMove(String),
    /// Submissions in SQL of which no job can be made are still there.
    #[error(
        "{0} submissions in `inbox` were set aside, and would be left behind: `windlass verify` tells which; mend or \
         delete them first"
    )]
    LettersAside(u64),
    /// The two ends do not hold the same.
    #[error("what arrived is not what was sent: sent were {sent}, there are {arrived}; undo the move")]
    Differs {
        /// What the source holds.
        sent: String,
        /// What the target holds.
        arrived: String,
    },
    /// What arrived breaks promises.
    #[error(
        "what arrived is what was sent, and breaks promises: {}; undo the move and ask `windlass verify` for more",
        promises.join("; ")
    )]
    Broken {
        /// The promises.
        promises: Vec<String>,
    },
    /// There is nothing to be taken back.
    #[error("`{0}` was not moved: there is nothing to undo")]
    NotMoved(String),
    /// Taking it back would lose something.
    #[error(
        "the move has ended: whatever happened in the target since would be lost; move it back with `windlass move` \
         instead, or insist with `--force`"
    )]
    NeedsForce,
    /// One of the stores refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A backup could not be made a store of; nothing is left of the attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// There is no backup.
    #[error("there is no file at `{0}`")]
    NoBackup(String),
    /// Something is in the way.
    #[error(
        "`{0}` is there already, and nothing is overwritten: make sure that no server uses it, then move it away, or \
         restore to another name"
    )]
    Exists(String),
    /// The backup is no store.
    #[error("the backup cannot be opened: {0}")]
    Open(#[from] OpenError),
    /// The file is empty, or a database of another program.
    #[error("`{0}` is not a backup of a Windlass store: it is empty, or belongs to another program")]
    NotAStore(String),
    /// The backup breaks promises.
    #[error("the backup breaks promises: {}", promises.join("; "))]
    Broken {
        /// The promises.
        promises: Vec<String>,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A submission was refused; nothing was stored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A value is not allowed. `index` is the job's place in its batch.
    #[error("job {index}: {invalid}")]
    Invalid {
        /// Place in the batch, from 0.
        index: usize,
        /// Field and problem.
        invalid: Invalid,
    },
    /// The payload is larger than the limit.
    #[error("job {index}: payload is {size} bytes, the limit is {limit}")]
    PayloadTooLarge {
        /// Place in the batch, from 0.
        index: usize,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Another job that is not final holds the unique key (M14).
    #[error("job {index}: unique key `{key}` is held by job {holder}")]
    UniqueKeyTaken {
        /// Place in the batch, from 0.
        index: usize,
        /// The key.
        key: String,
        /// Who holds it.
        holder: JobId,
    },
    /// The idempotency key was used with another payload, and the caller asked for strictness (M13).
    #[error("job {index}: idempotency key belongs to job {existing} with another payload")]
    PayloadDiffers {
        /// Place in the batch, from 0.
        index: usize,
        /// The job that has the key.
        existing: JobId,
    },
    /// The queue or tenant holds as many unfinished jobs as it may (M113).
    #[error("{scope} holds {depth} unfinished jobs, the limit is {limit}: try again in {retry_after:?}")]
    TooDeep {
        /// Which queue or tenant.
        scope: String,
        /// How many it holds.
        depth: u64,
        /// How many it may hold.
        limit: u64,
        /// When to try again.
        retry_after: Duration,
    },
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store could not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An action on a job was refused; nothing changed, nothing was audited.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ActError {
    /// There is no such job, or it belongs to another tenant.
    #[error("no job {0}")]
    NotFound(JobId),
    /// The state machine does not allow it (M1).
    #[error(transparent)]
    Refused(#[from] InvalidTransition),
    /// The job is suspended already, and the caller asked for strictness (M51).
    #[error("job {0} is already suspended")]
    AlreadySuspended(JobId),
    /// The job is not suspended, and the caller asked for strictness (M51).
    #[error("job {0} is not suspended")]
    NotSuspended(JobId),
    /// It is paused already, and the caller asked for strictness.
    #[error("{0} is already paused")]
    AlreadyPaused(String),
    /// It is not paused, and the caller asked for strictness.
    #[error("{0} is not paused")]
    NotPaused(String),
    /// The job cannot be deleted yet: another job still needs it.
    #[error("job {id} cannot be deleted: {by}")]
    Needed {
        /// The job that was to be deleted.
        id: JobId,
        /// The state it ended in.
        state: JobState,
        /// The job that needs it.
        by: NeededBy,
    },
    /// Another job was submitted in its place already, and the caller wants one alone.
    #[error("job {id} was redriven already, as job {successor}: look there first")]
    AlreadyRedriven {
        /// The job.
        id: JobId,
        /// The one in its place.
        successor: JobId,
    },
    /// The job is not in a version that the caller expects: it was changed since the caller looked at it.
    #[error("job {id} was changed since (its version is now {version}): look at it again")]
    Changed {
        /// The job.
        id: JobId,
        /// Its version now.
        version: Version,
    },
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such worker, or it was forgotten.
    #[error("no worker {0}")]
    NoSuchWorker(WorkerId),
    /// There is no such API key, or it was revoked.
    #[error("no key {0}")]
    NoSuchKey(KeyId),
    /// It is the last key of an admin: without it nobody could make or revoke keys.
    #[error("key {0} is the last one of an admin: make another one first")]
    LastAdminKey(KeyId),
    /// The unique key of a job to be redriven is held by another.
    #[error("unique key `{key}` is held by job {holder}")]
    UniqueKeyTaken {
        /// The key.
        key: String,
        /// Who holds it.
        holder: JobId,
    },
    /// Redriving would make the queue or tenant hold more unfinished jobs than it may (M113).
    #[error("{scope} holds {depth} unfinished jobs, the limit is {limit}: try again in {retry_after:?}")]
    TooDeep {
        /// Which queue or tenant.
        scope: String,
        /// How many it holds.
        depth: u64,
        /// How many it may hold.
        limit: u64,
        /// When to try again.
        retry_after: Duration,
    },
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store could not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was asked of a schedule was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// There is no such schedule, or it belongs to another tenant.
    #[error("no schedule {0}")]
    NotFound(ScheduleName),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Its job was refused.
    #[error(transparent)]
    Refused(Box<SubmitError>),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store could not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state machine does not know this step (M1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} a job that is {state}")]
pub struct InvalidTransition {
    /// The state the job is in.
    pub state: JobState,
    /// What was asked.
    pub action: Action,
}

/// The caller's role or tenant does not allow this (M91).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{actor} with role {role} may not {action}")]
pub struct Forbidden {
    /// Who asked.
    pub actor: String,
    /// In which role.
    pub role: &'static str,
    /// For what.
    pub action: &'static str,
}

/// A worker's call was refused as a whole.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The worker is not registered, or was forgotten: register again.
    #[error("no worker {0}: register again")]
    NoSuchWorker(WorkerId),
    /// There is no such job, or it belongs to another tenant.
    #[error("no job {0}")]
    NoSuchJob(JobId),
    /// The lease is not held any more; nothing was written (M5).
    #[error("the lease on job {0} is not held any more")]
    Stale(JobId),
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A key or a tenant has as many workers registered as it may have, or they name as much as they may.
    #[error(
        "this {of} may have {workers_max} workers that name {bytes_max} bytes together: let some leave first, or name less"
    )]
    TooManyWorkers {
        /// Of what: `key` or `tenant`.
        of: &'static str,
        /// How many it may have.
        workers_max: usize,
        /// Bytes that they may name.
        bytes_max: usize,
        /// When to try again: workers that fell silent make room.
        retry_after: Duration,
    },
    /// The children were refused.
    #[error(transparent)]
    Children(Box<SubmitError>),
    /// The caller may not do this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store could not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}
