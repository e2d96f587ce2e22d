//! What a store is given from outside: clock, randomness, options; and what its commits announce. Passed to engines, so
//! that none of them reads a clock or draws a number by itself.

use std::sync::Arc;
use std::time::Duration;

use super::api::auth::KeyRing;
use super::api::pruning::Pruning;
use super::documents::settings::Retention;
use super::documents::stats_cache::Minutes;
use super::metrics::Metrics;
use super::notify::feed::Feed;
use super::notify::wakeup::Notifier;
use crate::clock::{Clock, StoreClock, SystemClock};
use crate::entropy::Entropy;
use crate::job::{JobState, Policy};
use crate::key::KeySecret;
use crate::limits;
use crate::ticket::{TicketKey, TicketPublicKey};
use crate::webhook_url::TargetPolicy;

/// How a store is to behave; every value has a default.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Largest payload, result or checkpoint in bytes; at most [`limits::PAYLOAD_BYTES_MAX`].
    pub payload_bytes_max: usize,
    /// For how long an idempotency key is remembered (M13).
    pub idempotency_window: Duration,
    /// Retry and time limits of jobs for which nobody set any (M34).
    pub policy: Policy,
    /// For how long final jobs are kept, but for dead letters (M96). A store has one retention: the first process that prunes
    /// it says so with these two, and from then on [`Store::set_retention`](super::Store::set_retention) changes it.
    pub retention: Duration,
    /// For how long dead letters are kept (M96).
    pub retention_dead_letter: Duration,
    /// Which addresses callbacks may go to (M95).
    pub targets: TargetPolicy,
    /// Signed tickets: issued at submission, verified before every run (M94). Off unless set; every node of a fleet must
    /// have the same key, or trust the others'.
    pub tickets: Option<TicketOptions>,
    /// By whose tickets a worker knows jobs that a server hands it (M94): others are not run, and reported as failed. If
    /// empty, the server's word is enough.
    pub tickets_trusted: Vec<TicketPublicKey>,
    /// Jobs that one commit changes as consequences of another change; maintenance continues with the rest (M9).
    pub cascade_jobs_per_commit: usize,
    /// Jobs of lower priorities that a claim compares where jobs age; see [`limits::AGING_HEADS_PER_CLAIM`].
    pub aging_heads_per_claim: usize,
    /// When a SQLite file is checked for damage.
    pub file_check: FileCheck,
    /// The key to a server; used instead of one in its address or in `WINDLASS_KEY`, and by no other store.
    pub key: Option<KeySecret>,
}

/// How tickets are signed and which are good.
#[derive(Debug, Clone, PartialEq)]
pub struct TicketOptions {
    /// Signs, and verifies.
    pub key: TicketKey,
    /// Other keys whose tickets are good, such as the one before.
    pub trusted: Vec<TicketPublicKey>,
    /// How long a ticket is good at most; as long as its job lives unless set.
    pub lifetime: Option<Duration>,
}

impl TicketOptions {
    /// Tickets signed with this key, good as long as their jobs live.
    pub fn new(key: TicketKey) -> TicketOptions {
        TicketOptions { key, trusted: Vec::new(), lifetime: None }
    }
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            payload_bytes_max: limits::PAYLOAD_BYTES_DEFAULT,
            idempotency_window: Duration::from_secs(24 * 3600),
            policy: Policy::default(),
            retention: Duration::from_secs(7 * 24 * 3600),
            retention_dead_letter: Duration::from_secs(30 * 24 * 3600),
            targets: TargetPolicy::default(),
            tickets: None,
            tickets_trusted: Vec::new(),
            cascade_jobs_per_commit: limits::CASCADE_JOBS_PER_COMMIT,
            aging_heads_per_claim: limits::AGING_HEADS_PER_CLAIM,
            file_check: FileCheck::default(),
            key: None,
        }
    }
}

/// When a SQLite file is checked for damage after it was opened. It takes some 5 µs a job, and 3 s for each GB of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileCheck {
    /// Opening the store returns when the whole file has passed.
    #[default]
    BeforeServing,
    /// The store is used meanwhile. If damage is found it stops: nothing is acknowledged any more.
    InBackground,
}

impl StoreOptions {
    /// For how long jobs are kept in a store whose retention nobody has set.
    pub(crate) fn retention(&self) -> Retention {
        let time = Some(self.retention);
        let dead_letter = Some(self.retention_dead_letter);
        Retention { completed: time, failed: time, dead_letter, cancelled: time }
    }

    /// For how long a job is kept after it ended in this state.
    pub fn retention_of(&self, state: JobState) -> Duration {
        if state == JobState::DeadLetter { self.retention_dead_letter } else { self.retention }
    }
}

/// How long a store waits in real time; the defaults are those of [`limits`]. Tests make outages short and polling rare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a request may take, see [`limits::REQUEST_MAX`].
    pub request_max: Duration,
    /// How long a caller waits for a database that is away, see [`limits::DB_OUTAGE_TIMEOUT`]; at most `request_max`.
    pub outage_max: Duration,
    /// How long a database server may take to answer, see [`limits::CALL_MAX`].
    pub call_max: Duration,
    /// How often those who wait look by themselves, see [`limits::POLL_INTERVAL`].
    pub backstop_every: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            request_max: limits::REQUEST_MAX,
            outage_max: limits::DB_OUTAGE_TIMEOUT,
            call_max: limits::CALL_MAX,
            backstop_every: limits::POLL_INTERVAL,
        }
    }
}

/// Everything a store is given, and where its commits are announced.
pub struct Environment {
    /// Store time.
    pub clock: Arc<StoreClock>,
    /// Where ids and jitter come from.
    pub entropy: Entropy,
    /// How to behave.
    pub options: StoreOptions,
    /// How long to wait.
    pub timing: Timing,
    /// Told which queues have work.
    pub wakeups: Notifier,
    /// Told what happened.
    pub feed: Feed,
    /// What this process remembers of the API keys.
    pub keys: KeyRing,
    /// What this process measures of the store.
    pub meters: Metrics,
    /// What this process remembers of the minutes that are over.
    pub(crate) minutes: Minutes,
    /// What this process remembers of when final jobs are to be removed.
    pub(crate) pruning: Pruning,
    /// This store's own name among several processes on one database.
    pub node: String,
    /// Whether the store is opened to move what is in it, and so also while it is shut to all others.
    pub(crate) is_moving: bool,
}

impl Environment {
    /// The machine's clock and randomness.
    pub fn system(options: StoreOptions) -> Environment {
        Environment::new(Arc::new(SystemClock::new()), Entropy::from_system(), options)
    }

    /// This clock and this randomness.
    pub fn new(clock: Arc<dyn Clock>, entropy: Entropy, options: StoreOptions) -> Environment {
        let node = format!("{:016x}", entropy.bits() >> 64);
        Environment {
            clock: Arc::new(StoreClock::new(clock)),
            entropy,
            options,
            timing: Timing::default(),
            wakeups: Notifier::default(),
            feed: Feed::default(),
            keys: KeyRing::default(),
            meters: Metrics::default(),
            minutes: Minutes::default(),
            pruning: Pruning::default(),
            node,
            is_moving: false,
        }
    }
}
