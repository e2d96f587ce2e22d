//! What a store is given from outside (clock, randomness, options), and where its commits are announced. Passed to
//! engines, so that none of them reads a clock or draws random numbers by itself.

use std::sync::Arc;
use std::time::Duration;

use super::command::schema_checks::KnownSchemas;
use super::documents::stats_cache::Minutes;
use super::methods::auth::KeyCache;
use super::methods::pruning::Pruning;
use super::metrics::Metrics;
use super::notify::feed::Feed;
use super::notify::wakeup::Notifier;
use crate::clock::{Clock, StoreClock, SystemClock};
use crate::entropy::Entropy;
use crate::job::{JobState, Policy};
use crate::key::KeySecret;
use crate::limits;
use crate::settings::Retention;
use crate::ticket::{TicketKey, TicketPublicKey};
use crate::webhook_url::TargetPolicy;

/// Options of a store; every value has a default.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Largest payload, result or checkpoint in bytes; at most [`limits::PAYLOAD_BYTES_MAX`].
    pub payload_bytes_max: usize,
    /// How long an idempotency key is kept.
    pub idempotency_window: Duration,
    /// Default retry policy and time limits of jobs.
    pub policy: Policy,
    /// How long final jobs other than dead letters are kept. A store has one retention: the first process that
    /// prunes it sets it from these two values, and from then on [`Store::set_retention`](super::Store::set_retention)
    /// changes it.
    pub retention: Duration,
    /// How long dead letters are kept.
    pub retention_dead_letter: Duration,
    /// The URLs that callbacks may be sent to.
    pub targets: TargetPolicy,
    /// Signed tickets: issued at submission, verified before every run. Disabled unless set; every node of a
    /// fleet must have the same key, or trust the others' keys.
    pub tickets: Option<TicketOptions>,
    /// The ticket keys that a worker at a server trusts: jobs with other tickets are not run, and reported
    /// as failed. If empty, the server is trusted.
    pub tickets_trusted: Vec<TicketPublicKey>,
    /// Jobs that one commit changes as consequences of another change; maintenance continues with the rest.
    pub cascade_jobs_per_commit: usize,
    /// Jobs of lower priorities that a claim compares where jobs age; see [`limits::AGING_HEADS_PER_CLAIM`].
    pub aging_heads_per_claim: usize,
    /// Lanes that a claim reads without comparing where they begin.
    pub lanes_read_at_once: usize,
    /// When a SQLite file is checked for damage.
    pub file_check: FileCheck,
    /// The API key for a server; used instead of one in the address or in `WINDLASS_KEY`. Ignored by stores in this process.
    pub key: Option<KeySecret>,
}

/// So many lanes are read at once unless said otherwise: that costs one query less than comparing where they begin.
const LANES_READ_AT_ONCE: usize = 64;

/// How tickets are signed and verified.
#[derive(Debug, Clone, PartialEq)]
pub struct TicketOptions {
    /// The key that signs and verifies tickets.
    pub key: TicketKey,
    /// Other keys whose tickets are valid, such as the previous one.
    pub trusted: Vec<TicketPublicKey>,
    /// Maximum validity of a ticket; as long as its job lives unless set.
    pub lifetime: Option<Duration>,
}

impl TicketOptions {
    /// Tickets signed with this key, valid as long as their jobs live.
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
            lanes_read_at_once: LANES_READ_AT_ONCE,
            file_check: FileCheck::default(),
            key: None,
        }
    }
}

/// When a SQLite file is checked for damage after opening. The check takes about 5 µs per job, and 3 s per GB of
/// payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileCheck {
    /// Opening the store returns after the whole file was checked.
    #[default]
    BeforeServing,
    /// The store is used during the check. If damage is found it stops: nothing is acknowledged any more.
    InBackground,
}

impl StoreOptions {
    /// The retention used if the store has none.
    pub(crate) fn retention(&self) -> Retention {
        let time = Some(self.retention);
        let dead_letter = Some(self.retention_dead_letter);
        Retention { completed: time, failed: time, dead_letter, cancelled: time }
    }

    /// The retention of a job that ended in this state.
    pub fn retention_of(&self, state: JobState) -> Duration {
        if state == JobState::DeadLetter { self.retention_dead_letter } else { self.retention }
    }
}

/// How long a store waits in real time; the defaults are those of [`limits`]. Tests shorten outages and poll rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a request may take; see [`limits::REQUEST_MAX`].
    pub request_max: Duration,
    /// How long a caller waits for an unreachable database; see [`limits::DB_OUTAGE_TIMEOUT`]; at most `request_max`.
    pub outage_max: Duration,
    /// How long a database server may take to answer; see [`limits::CALL_MAX`].
    pub call_max: Duration,
    /// How often waiters poll; see [`limits::POLL_INTERVAL`].
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
    /// The source of ids and jitter.
    pub entropy: Entropy,
    /// The store's options.
    pub options: StoreOptions,
    /// How long to wait.
    pub timing: Timing,
    /// Notifies waiters of queues with work.
    pub wakeups: Notifier,
    /// Publishes events.
    pub feed: Feed,
    /// This process's cache of the API keys.
    pub keys: KeyCache,
    /// This process's metrics of the store.
    pub metrics: Metrics,
    /// This process's cache of the statistics of past minutes.
    pub(crate) minutes: Minutes,
    /// When this process must look for final jobs to remove.
    pub(crate) pruning: Pruning,
    /// The schemas that payloads are compared with before their transaction.
    pub(crate) schemas: KnownSchemas,
    /// This store's own name among several processes on one database.
    pub node: String,
    /// Whether the store is opened to move its content, and so also while it is closed to everything else.
    pub(crate) is_moving: bool,
}

impl Environment {
    /// Uses the machine's clock and randomness.
    pub fn system(options: StoreOptions) -> Environment {
        Environment::new(Arc::new(SystemClock::new()), Entropy::from_system(), options)
    }

    /// Uses this clock and this randomness.
    pub fn new(clock: Arc<dyn Clock>, entropy: Entropy, options: StoreOptions) -> Environment {
        let node = format!("{:016x}", entropy.bits() >> 64);
        Environment {
            clock: Arc::new(StoreClock::new(clock)),
            entropy,
            options,
            timing: Timing::default(),
            wakeups: Notifier::default(),
            feed: Feed::default(),
            keys: KeyCache::default(),
            metrics: Metrics::default(),
            minutes: Minutes::default(),
            pruning: Pruning::default(),
            schemas: KnownSchemas::default(),
            node,
            is_moving: false,
        }
    }
}
