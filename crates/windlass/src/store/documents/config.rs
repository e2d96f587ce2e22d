//! Configuration stored in the database: settings of queues, types and tenants, pauses, workers. Small documents,
//! parsed once and cached; consulted in every claim.

mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::worker::Worker;
use crate::audit::AuditLevel;
use crate::clock::{SharedGrace, Timestamp};
use crate::error::StoreError;
use crate::job::{
    JobState, JobType, Lane, NewJob, Policy, Priority, QueueName, ScheduleName, Tenant, WorkerId,
};
use crate::key::KeyId;
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::settings::shorter;
use crate::settings::{PauseMode, Push, QueueSettings, Rate, Retention, TenantSettings, TypeSettings};
use crate::store::caller::Caller;
use crate::store::documents::schedules::Schedule;
use crate::store::engine::{DocumentKind, EngineResult, LimitScope, Read};
use crate::store::methods::auth::ApiKey;
use crate::store::query::payload::redact_config;

/// The scope of a pause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    /// All processing.
    Gate,
    /// A tenant.
    Tenant(Tenant),
    /// A type, of one tenant or of all.
    Type {
        /// The type.
        job_type: JobType,
        /// The tenant; all tenants if `None`.
        tenant: Option<Tenant>,
    },
    /// A queue, of one tenant or of all.
    Queue {
        /// The queue.
        queue: QueueName,
        /// The tenant; all tenants if `None`.
        tenant: Option<Tenant>,
    },
    /// A worker.
    Worker(WorkerId),
}

impl PauseScope {
    /// Every scope that contains jobs of this lane.
    fn all_over(lane: &Lane) -> Vec<PauseScope> {
        let (queue, job_type) = (&lane.queue, &lane.job_type);
        let mut scopes = vec![PauseScope::Gate, PauseScope::Tenant(lane.tenant.clone())];
        let tenants = [None, Some(lane.tenant.clone())];
        scopes.extend(tenants.clone().map(|tenant| PauseScope::Type { job_type: job_type.clone(), tenant }));
        scopes.extend(tenants.map(|tenant| PauseScope::Queue { queue: queue.clone(), tenant }));
        scopes
    }
}

/// A pause: actor, start, reason and end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRecord {
    /// The paused scope.
    pub scope: PauseScope,
    /// How running jobs were treated.
    pub mode: PauseMode,
    /// The reason given.
    pub reason: Option<String>,
    /// Who paused it.
    pub by: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl PauseRecord {
    /// Whether it is still in force.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// The end of a queue's last pause: who resumed it, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resumption {
    /// The resumed scope.
    pub scope: PauseScope,
    /// Who resumed it.
    pub by: String,
    /// When it was resumed.
    pub at: Timestamp,
    /// The reason given.
    pub reason: Option<String>,
}

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Config {
    /// Settings of queues, by queue and tenant; no tenant means all tenants.
    pub queues: BTreeMap<(QueueName, Option<Tenant>), QueueSettings>,
    /// Settings of types.
    pub types: BTreeMap<JobType, TypeSettings>,
    /// Settings of tenants.
    pub tenants: BTreeMap<Tenant, TenantSettings>,
    /// Pauses, by scope.
    pub pauses: BTreeMap<PauseScope, PauseRecord>,
    /// The default retention of jobs, used if neither their type nor their queue sets one; empty until the first
    /// pruning.
    pub retention: Retention,
    /// The ends of queues' last pauses.
    pub resumed: BTreeMap<PauseScope, Resumption>,
    /// Workers.
    pub workers: BTreeMap<WorkerId, Worker>,
    /// API keys.
    pub keys: BTreeMap<KeyId, ApiKey>,
    /// Whether there ever was an API key: once there was, requests without a valid key are refused.
    pub had_keys: bool,
    /// Schedules.
    pub schedules: BTreeMap<(Tenant, ScheduleName), Arc<Schedule>>,
    /// Gaps and clock jumps that all nodes must know of.
    pub grace: SharedGrace,
}

/// Push targets by queue and tenant; no tenant means all tenants.
pub type PushTargets = BTreeMap<(QueueName, Option<Tenant>), Push>;

/// The kinds of documents in the configuration, in the order in which they are read.
const KINDS: [DocumentKind; 11] = [
    DocumentKind::Queue,
    DocumentKind::Type,
    DocumentKind::Tenant,
    DocumentKind::Hold,
    DocumentKind::Retention,
    DocumentKind::Resumption,
    DocumentKind::Worker,
    DocumentKind::ApiKey,
    DocumentKind::Closed,
    DocumentKind::Schedule,
    DocumentKind::Grace,
];

/// The document key of the store's retention.
pub(crate) const RETENTION_KEY: &str = "store";

/// The document key of a queue's settings.
pub(crate) fn queue_key(queue: &QueueName, tenant: Option<&Tenant>) -> String {
    tenant.map_or_else(|| queue.to_string(), |tenant| format!("{queue} {tenant}"))
}

/// How many queues, types and lanes with jobs a tenant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamesMax {
    /// Maximum number of queues.
    pub queues: u64,
    /// Maximum number of types.
    pub types: u64,
    /// Maximum number of pairs of a queue and a type.
    pub lanes: u64,
}

impl Config {
    /// Reads and parses all documents.
    pub fn load(db: &mut (impl Read + ?Sized)) -> EngineResult<Config> {
        let mut config = Config::default();
        let mut found = db.documents_of(&KINDS)?.into_iter();
        let mut next = || found.next().unwrap_or_default();
        for document in next() {
            let (queue, tenant) = match document.key.split_once(' ') {
                Some((queue, tenant)) => (queue, Some(name(Tenant::new(tenant))?)),
                None => (document.key.as_str(), None),
            };
            config.queues.insert((name(QueueName::new(queue))?, tenant), parse(&document.body)?);
        }
        for document in next() {
            config.types.insert(name(JobType::new(&document.key))?, parse(&document.body)?);
        }
        for document in next() {
            config.tenants.insert(name(Tenant::new(&document.key))?, parse(&document.body)?);
        }
        for document in next() {
            let hold: PauseRecord = parse(&document.body)?;
            config.pauses.insert(hold.scope.clone(), hold);
        }
        for document in next() {
            config.retention = parse(&document.body)?;
        }
        for document in next() {
            let resumption: Resumption = parse(&document.body)?;
            config.resumed.insert(resumption.scope.clone(), resumption);
        }
        for document in next() {
            let worker: Worker = parse(&document.body)?;
            config.workers.insert(worker.id, worker);
        }
        for document in next() {
            let key: ApiKey = parse(&document.body)?;
            config.keys.insert(key.id.clone(), key);
        }
        let closed = next();
        config.had_keys = !config.keys.is_empty() || closed.iter().any(|document| document.key == "keys");
        for document in next() {
            let schedule: Arc<Schedule> = parse(&document.body)?;
            config.schedules.insert((schedule.tenant.clone(), schedule.name.clone()), schedule);
        }
        for document in next() {
            config.grace = parse(&document.body)?;
        }
        Ok(config)
    }

    /// The part of it that this caller can see: what applies to all tenants, and what applies to its own.
    #[must_use]
    pub fn seen_by(&self, caller: &Caller) -> Config {
        let mut seen = self.clone();
        redact_config(caller, &mut seen);
        let Some(own) = &caller.tenant else { return seen };
        let is_own = |tenant: &Option<Tenant>| tenant.as_ref().is_none_or(|tenant| tenant == own);
        seen.keys.clear();
        seen.queues.retain(|(_, tenant), _| is_own(tenant));
        seen.tenants.retain(|tenant, _| tenant == own);
        seen.schedules.retain(|(tenant, _), _| tenant == own);
        seen.workers.retain(|_, worker| is_own(&worker.tenant));
        let workers = &seen.workers;
        let is_seen = |scope: &PauseScope| match scope {
            PauseScope::Gate => true,
            PauseScope::Tenant(tenant) => tenant == own,
            PauseScope::Type { tenant, .. } | PauseScope::Queue { tenant, .. } => is_own(tenant),
            PauseScope::Worker(worker) => workers.contains_key(worker),
        };
        seen.pauses.retain(|scope, _| is_seen(scope));
        seen.resumed.retain(|scope, _| is_seen(scope));
        seen
    }

    /// A queue's effective settings for a tenant: its own, then those of all tenants. Without a tenant: those of all
    /// tenants.
    pub fn queue_in_force(&self, queue: &QueueName, tenant: Option<&Tenant>) -> QueueSettings {
        let of = |tenant: Option<&Tenant>| self.queues.get(&(queue.clone(), tenant.cloned()));
        let of_all = of(None).cloned().unwrap_or_default();
        tenant.and_then(|tenant| of(Some(tenant))).map_or(of_all.clone(), |own| own.or(&of_all))
    }

    /// The effective push targets.
    pub fn push_targets(&self) -> PushTargets {
        let is_in_force = |(queue, tenant): &(QueueName, Option<Tenant>)| {
            let everybodys = self.queues.get(&(queue.clone(), None));
            tenant.is_none() || everybodys.is_none_or(|settings| settings.push.is_none())
        };
        let found = self.queues.iter().filter(|(key, _)| is_in_force(key));
        found.filter_map(|(key, settings)| Some((key.clone(), settings.push.clone()?))).collect_ordered()
    }

    /// How many queues, types and lanes with jobs a tenant may have.
    pub fn names_max(&self, tenant: &Tenant) -> NamesMax {
        let own = self.tenants.get(tenant);
        NamesMax {
            queues: own.and_then(|own| own.max_queues).unwrap_or(limits::QUEUES_PER_TENANT_MAX),
            types: own.and_then(|own| own.max_types).unwrap_or(limits::TYPES_PER_TENANT_MAX),
            lanes: own.and_then(|own| own.max_lanes).unwrap_or(limits::LANES_PER_TENANT_MAX),
        }
    }

    /// How many concurrency keys the open jobs of a tenant may have.
    pub fn concurrency_keys_max(&self, tenant: &Tenant) -> u64 {
        let own = self.tenants.get(tenant).and_then(|own| own.max_concurrency_keys);
        own.unwrap_or(limits::CONCURRENCY_KEYS_PER_TENANT_MAX)
    }

    /// The pauses that apply to this lane now. They are looked up one by one: a claim does this for every lane, and
    /// there may be as many pauses as tenants.
    pub fn pauses_on<'a>(&'a self, lane: &'a Lane, now: Timestamp) -> impl Iterator<Item = &'a PauseRecord> {
        let scopes = if self.pauses.is_empty() { Vec::new() } else { PauseScope::all_over(lane) };
        let holds = scopes.into_iter().filter_map(|scope| self.pauses.get(&scope));
        holds.filter(move |hold| hold.is_active(now))
    }

    /// The pause of a worker, if it is paused now.
    pub fn worker_pause(&self, worker: WorkerId, now: Timestamp) -> Option<&PauseRecord> {
        self.pauses.get(&PauseScope::Worker(worker)).filter(|hold| hold.is_active(now))
    }

    /// The settings that apply to a lane's queue, the tenant's own before those of all tenants.
    pub fn queue_settings<'a>(&'a self, lane: &'a Lane) -> impl Iterator<Item = &'a QueueSettings> {
        [Some(lane.tenant.clone()), None]
            .into_iter()
            .filter_map(move |tenant| self.queues.get(&(lane.queue.clone(), tenant)))
    }

    /// The audit level of a lane.
    pub fn audit_level(&self, lane: &Lane) -> AuditLevel {
        if self.queues.is_empty() {
            return AuditLevel::default();
        }
        self.queue_settings(lane).find_map(|settings| settings.audit).unwrap_or_default()
    }

    /// How many jobs with one concurrency key may run at once in this lane's queue.
    pub fn running_per_key(&self, lane: &Lane) -> u64 {
        let default = if lane.is_internal() { limits::CALLBACKS_PER_RECEIVER } else { 1 };
        self.queue_settings(lane).find_map(|settings| settings.max_running_per_key).unwrap_or(default)
    }

    /// The highest of these numbers: counting further is never needed.
    pub fn running_per_key_max(&self) -> u64 {
        let set = self.queues.values().filter_map(|settings| settings.max_running_per_key);
        set.fold(limits::CALLBACKS_PER_RECEIVER, u64::max)
    }

    /// The tenant's settings that apply to a lane; none for internal lanes.
    pub fn tenant_settings(&self, lane: &Lane) -> Option<&TenantSettings> {
        if lane.is_internal() { None } else { self.tenants.get(&lane.tenant) }
    }

    /// The running limits that apply to a lane.
    pub fn running_limits(&self, lane: &Lane) -> Vec<(LimitScope, u64)> {
        let mut found = self.queue_limits(lane, |settings| settings.max_running);
        let kind = self.types.get(&lane.job_type).and_then(|settings| settings.max_running);
        found.extend(kind.map(|limit| (LimitScope::Type(lane.job_type.clone()), limit)));
        let tenant = self.tenant_settings(lane).and_then(|settings| settings.max_running);
        found.extend(tenant.map(|limit| (LimitScope::Tenant(lane.tenant.clone()), limit)));
        found
    }

    /// The rate limits that apply to a lane as a whole.
    pub fn rates(&self, lane: &Lane) -> Vec<(LimitScope, Rate)> {
        let mut found = self.queue_limits(lane, |settings| settings.rate);
        let kind = self.types.get(&lane.job_type).and_then(|settings| settings.rate);
        found.extend(kind.map(|rate| (LimitScope::Type(lane.job_type.clone()), rate)));
        found
    }

    /// The rate limit of each concurrency key in this lane's queue.
    pub fn rate_per_key(&self, lane: &Lane) -> Option<Rate> {
        self.queue_settings(lane).find_map(|settings| settings.rate_per_key)
    }

    /// Whether any queue has a rate limit per concurrency key.
    pub fn has_rates_per_key(&self) -> bool {
        self.queues.values().any(|settings| settings.rate_per_key.is_some())
    }

    /// How long a job in this lane waits until its priority rises by one point.
    pub fn aging(&self, lane: &Lane) -> Option<Duration> {
        self.queue_settings(lane).find_map(|settings| settings.aging)
    }

    /// Whether tenants take turns in a queue. The setting for all tenants decides.
    pub fn is_fair(&self, queue: &QueueName) -> bool {
        self.queues.get(&(queue.clone(), None)).is_some_and(|settings| settings.fair_by.is_some())
    }

    /// How many jobs a tenant may start in its turn.
    pub fn weight(&self, tenant: &Tenant) -> u32 {
        self.tenants.get(tenant).and_then(|settings| settings.weight).unwrap_or(1)
    }

    /// The limits on unfinished jobs that apply to a lane.
    pub fn depth_limits(&self, lane: &Lane) -> Vec<(LimitScope, u64)> {
        // Callbacks are exempt from the limits: they must not be refused.
        if lane.is_internal() {
            return Vec::new();
        }
        let mut found = self.queue_limits(lane, |settings| settings.max_depth);
        let tenant = self.tenants.get(&lane.tenant).and_then(|settings| settings.max_depth);
        found.extend(tenant.map(|limit| (LimitScope::Tenant(lane.tenant.clone()), limit)));
        found
    }

    fn queue_limits<T>(
        &self,
        lane: &Lane,
        limit: impl Fn(&QueueSettings) -> Option<T>,
    ) -> Vec<(LimitScope, T)> {
        let mut found = Vec::new();
        for tenant in [None, Some(lane.tenant.clone())] {
            let key = (lane.queue.clone(), tenant);
            if let Some(limit) = self.queues.get(&key).and_then(&limit) {
                found.push((LimitScope::Queue(key.0, key.1), limit));
            }
        }
        found
    }

    /// The policy of a new job, from its own settings, then its type's, its queue's, and the defaults; and the priority of
    /// jobs that name none.
    pub fn resolve(&self, new: &NewJob, lane: &Lane, defaults: &Policy) -> (Policy, Priority) {
        let kind = self.types.get(&lane.job_type);
        let queues: Vec<&QueueSettings> = self.queue_settings(lane).collect();
        let mut timeouts = defaults.timeouts;
        for settings in queues.iter().rev() {
            timeouts = settings.timeouts.applied_to(timeouts);
        }
        if let Some(kind) = kind {
            timeouts = kind.timeouts.applied_to(timeouts);
        }
        let retry = new
            .retry
            .clone()
            .or_else(|| kind.and_then(|kind| kind.retry.clone()))
            .or_else(|| queues.iter().find_map(|settings| settings.retry.clone()))
            .unwrap_or_else(|| defaults.retry.clone());
        let priority = kind
            .and_then(|kind| kind.priority)
            .or_else(|| queues.iter().find_map(|settings| settings.priority))
            .unwrap_or_default();
        let mut timeouts = new.timeouts_over(timeouts);
        if let Some(cap) = self.execution_cap(lane) {
            timeouts.execution = timeouts.execution.min(cap);
        }
        (Policy { retry, timeouts, crashes_max: defaults.crashes_max }, priority)
    }

    /// The longest that an attempt in this lane may take: the shorter of the limits set by its queue and its type.
    fn execution_cap(&self, lane: &Lane) -> Option<Duration> {
        let queues = self.queue_settings(lane).map(|settings| settings.timeouts.max_execution);
        let kind = self.types.get(&lane.job_type).and_then(|settings| settings.timeouts.max_execution);
        queues.fold(kind, shorter)
    }

    /// The retention of a job in this lane that ended in this state, if its type or its queue sets one.
    pub fn retention(&self, lane: &Lane, state: JobState) -> Option<Duration> {
        let kind = self.types.get(&lane.job_type).and_then(|settings| settings.retention.get(state));
        kind.or_else(|| self.queue_settings(lane).find_map(|settings| settings.retention.get(state)))
    }

    /// The store's retention of jobs that ended in this state, for types and queues that set none; `default` if the
    /// store sets none.
    pub fn store_retention(&self, state: JobState, default: Duration) -> Duration {
        self.retention.get(state).unwrap_or(default)
    }

    /// The shortest retention that any type or queue sets for jobs that ended in this state.
    pub fn retention_min(&self, state: JobState) -> Option<Duration> {
        let types = self.types.values().filter_map(|settings| settings.retention.get(state));
        types.chain(self.queues.values().filter_map(|settings| settings.retention.get(state))).min()
    }
}

/// Parses a stored document. One that cannot be parsed is damaged; this is not the caller's mistake.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> EngineResult<T> {
    serde_json::from_slice(body).map_err(|error| StoreError::Damaged(error.to_string()))
}

/// Serializes a document or job data; plain data cannot fail.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data with text keys is always valid JSON")
}

fn name<T>(parsed: Result<T, crate::error::FieldProblem>) -> EngineResult<T> {
    parsed.map_err(|problem| StoreError::Damaged(problem.to_string()))
}
