//! A connection's cache between commits: the parsed configuration and statistics that are not written yet. Everything
//! in it can be rebuilt from the database at any time.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, JobState, Lane, Seq, Tenant, WorkerId, acts_at};
use crate::store::command::claim::{AgingHeads, AgingTurns, LaneHeads};
use crate::store::command::generation::LeaseSweep;
use crate::store::documents::config::Config;
use crate::store::documents::liveness::Liveness;
use crate::store::documents::minute_stats::Rates;
use crate::store::engine::{EngineResult, Read};
use crate::store::environment::Environment;
use crate::store::move_store::marker;

/// A connection's cache.
#[derive(Debug, Default)]
pub struct ConnectionCache {
    config: Option<(u64, Arc<Config>)>,
    /// Why the store must not be served, if so, as of a version of the configuration.
    shut: Option<(u64, Option<String>)>,
    lanes: FxHashSet<Arc<Lane>>,
    /// When workers were last seen.
    pub(in crate::store) liveness: Liveness,
    running: Running,
    pub(in crate::store) usage: UsageCache,
    /// No job's timer is due before this; `None` if unknown.
    quiet_until: Option<Timestamp>,
    /// Whether another connection has committed since this one last did: what is cached now will not be valid for long,
    /// and is not worth a query.
    pub(in crate::store) is_shared: bool,
    /// Whether a look before the transaction has seen such commits, which the transaction then does not meet.
    has_looked_past_others: bool,
    /// How far running jobs were scanned for leases of an earlier generation.
    pub(in crate::store) lease_sweep: LeaseSweep,
    /// When each lane's aging was last compared.
    pub(in crate::store) aging_turns: AgingTurns,
    /// Where the priorities of lanes whose jobs age begin.
    pub(in crate::store) aging_heads: AgingHeads,
    /// Where other lanes begin.
    pub(in crate::store) lane_heads: LaneHeads,
    /// Statistics of the current minute.
    pub rates: Rates,
}

/// Running jobs as stored: a job claimed through this connection is usually finished through it too, and need not be
/// read again.
#[derive(Debug, Default)]
struct Running {
    generation: u64,
    jobs: FxHashMap<Seq, JobRecord>,
    seqs: FxHashMap<JobId, Seq>,
    /// Names and sizes of their checkpoints, as far as they were written or read through this connection.
    steps: FxHashMap<Seq, FxHashMap<String, u64>>,
    /// Total number of names.
    names: usize,
}

impl Running {
    /// Discards the jobs that others have changed, or all if it is not known which they are.
    fn refresh(&mut self, generation: u64, changed: Option<Vec<Seq>>) {
        let Some(changed) = changed else {
            *self = Running { generation, ..Running::default() };
            return;
        };
        self.generation = generation;
        self.steps.clear();
        self.names = 0;
        for seq in changed {
            if let Some(job) = self.jobs.remove(&seq) {
                self.seqs.remove(&job.id);
            }
        }
    }
}

/// Usage of rate limits, turns and budgets, as stored or to be stored when this group ends.
#[derive(Debug, Default)]
pub(in crate::store) struct UsageCache {
    /// By key; the second value is whether it is not written yet.
    pub(in crate::store) documents: FxHashMap<String, (Option<Vec<u8>>, bool)>,
    /// No timer of a throttled key is due before this; `None` if unknown.
    pub(in crate::store) no_timer_before: Option<Timestamp>,
    /// Of tenants that submitted jobs with concurrency keys: how many keys they use at most.
    pub(in crate::store) key_bounds: FxHashMap<Tenant, u64>,
    /// Whether it is known that no cascade is left.
    pub(in crate::store) has_no_cascades: bool,
}

/// Maximum number of cached running jobs; the cache is cleared when there are more.
const RUNNING_REMEMBERED_MAX: usize = 20_000;

/// Maximum number of cached checkpoint names; the cache is cleared when there are more.
const STEPS_REMEMBERED_MAX: usize = 100_000;

/// Maximum number of cached lanes; the cache is cleared when there are more, because most of them are then no longer in
/// use.
const LANES_REMEMBERED_MAX: usize = 10_000;

impl ConnectionCache {
    /// The configuration, read again only if it changed.
    pub fn config(&mut self, db: &mut (impl Read + ?Sized)) -> EngineResult<Arc<Config>> {
        let version = db.configuration_version()?;
        if let Some((known, config)) = &self.config
            && *known == version
        {
            return Ok(config.clone());
        }
        let config = Arc::new(Config::load(db)?);
        self.config = Some((version, config.clone()));
        Ok(config)
    }

    /// The version of a worker, as far as the configuration is cached; a job that fails was claimed with it.
    pub(crate) fn version_of(&self, worker: WorkerId) -> Option<String> {
        let (_, config) = self.config.as_ref()?;
        config.workers.get(&worker)?.version.clone()
    }

    /// Refuses to serve a store whose content was moved or is being moved (see [`move_store`](crate::store::move_store)).
    /// Checked again whenever the configuration has changed, so that it applies to every process from the next commit
    /// on.
    pub(crate) fn check_not_moved(
        &mut self,
        db: &mut (impl Read + ?Sized),
        env: &Environment,
    ) -> EngineResult<()> {
        if env.is_moving {
            return Ok(());
        }
        let version = db.configuration_version()?;
        if self.shut.as_ref().is_none_or(|(known, _)| *known != version) {
            self.shut = Some((version, marker::refusal(db)?));
        }
        match &self.shut {
            Some((_, Some(why))) => Err(StoreError::Moved(why.clone())),
            _ => Ok(()),
        }
    }

    /// Changes the cached configuration along with the database, which is at `version` from now on.
    pub fn change_config(&mut self, version: u64, change: impl FnOnce(&mut Config)) {
        if let Some((known, config)) = &mut self.config {
            change(Arc::make_mut(config));
            *known = version;
        }
        // Only this connection's own change lies between the two versions.
        if let Some((known, _)) = &mut self.shut {
            *known = version;
        }
    }

    /// The shared instance of a lane.
    pub fn intern_lane(&mut self, lane: Lane) -> Arc<Lane> {
        if let Some(known) = self.lanes.get(&lane) {
            return known.clone();
        }
        if self.lanes.len() >= LANES_REMEMBERED_MAX {
            self.lanes.clear();
        }
        let lane = Arc::new(lane);
        self.lanes.insert(lane.clone());
        lane
    }

    /// Discards what was cached before another connection's commit.
    pub fn refresh(&mut self, db: &mut (impl Read + ?Sized)) {
        let generation = db.cache_generation();
        let has_news = self.running.generation != generation;
        self.is_shared = has_news || std::mem::take(&mut self.has_looked_past_others);
        if has_news {
            self.running.refresh(generation, db.changed_by_others());
            let heads = (std::mem::take(&mut self.aging_heads), std::mem::take(&mut self.lane_heads));
            self.outdate_counters();
            if let Some(added) = db.added_by_others() {
                (self.aging_heads, self.lane_heads) = heads;
                for (lane, first) in added {
                    // It says nothing about the other priorities.
                    self.aging_heads.forget(&lane);
                    self.lane_heads.added(&lane, first);
                }
            }
        }
    }

    /// The same in a look before a transaction.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "only nodes that share a database look ahead")
    )]
    pub(in crate::store) fn refresh_ahead(&mut self, db: &mut (impl Read + ?Sized)) {
        self.refresh(db);
        self.has_looked_past_others = self.is_shared;
    }

    /// Discards what follows from stored jobs, after a change that bypassed them.
    pub(in crate::store) fn outdate(&mut self) {
        self.running = Running { generation: self.running.generation, ..Running::default() };
        self.outdate_counters();
    }

    fn outdate_counters(&mut self) {
        self.usage = UsageCache::default();
        self.liveness.outdate();
        self.aging_heads.clear();
        self.lane_heads.clear();
        self.quiet_until = None;
    }

    /// Whether it is known that no timer is due by `now`: most claims come while nothing is due, and need no query.
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    /// Records when the next timer of a job is due; `None` if there is none.
    pub fn quiet_until(&mut self, next: Option<Timestamp>) {
        self.quiet_until = Some(next.unwrap_or(Timestamp::MAX));
    }

    /// Registers a job that will be stored like this.
    pub fn written(&mut self, job: &JobRecord) {
        if let (Some(known), Some(at)) = (self.quiet_until, acts_at(job)) {
            self.quiet_until = Some(known.min(at));
        }
    }

    /// The running job with this id, if it is cached.
    pub fn running(&self, id: JobId) -> Option<&JobRecord> {
        self.running.jobs.get(self.running.seqs.get(&id)?)
    }

    /// Registers a job that was just stored, if it may be claimed.
    pub fn added(&mut self, job: &JobRecord) {
        self.aging_heads.stored(job);
        self.lane_heads.stored(job);
    }

    /// Caches a job as it was just stored, if it runs or may be claimed.
    pub fn stored(&mut self, job: &JobRecord) {
        self.added(job);
        let running = &mut self.running;
        if job.state == JobState::Running {
            if running.jobs.len() >= RUNNING_REMEMBERED_MAX {
                running.jobs.clear();
                running.seqs.clear();
                running.steps.clear();
                running.names = 0;
            }
            running.seqs.insert(job.id, job.seq);
            running.jobs.insert(job.seq, job.clone());
        } else if running.jobs.remove(&job.seq).is_some() {
            running.seqs.remove(&job.id);
            let steps = running.steps.remove(&job.seq);
            running.names -= steps.map_or(0, |steps| steps.len());
        }
    }

    /// Whether all checkpoints of a running job are cached.
    pub(in crate::store) fn has_cached_steps(&self, seq: Seq) -> bool {
        let (job, steps) = (self.running.jobs.get(&seq), self.running.steps.get(&seq));
        job.zip(steps).is_some_and(|(job, steps)| steps.len() as u64 == job.details.checkpoints)
    }

    /// Size in bytes of a running job's checkpoint of this name, if it is cached.
    pub(in crate::store) fn step_bytes(&self, seq: Seq, step: &str) -> Option<u64> {
        self.running.steps.get(&seq)?.get(step).copied()
    }

    /// Caches a stored checkpoint of a running job.
    pub(in crate::store) fn cache_step(&mut self, seq: Seq, step: &str, bytes: u64) {
        let running = &mut self.running;
        if !running.jobs.contains_key(&seq) {
            return;
        }
        if running.names >= STEPS_REMEMBERED_MAX {
            running.steps.clear();
            running.names = 0;
        }
        let is_new = running.steps.entry(seq).or_default().insert(step.to_owned(), bytes).is_none();
        running.names += usize::from(is_new);
    }

    /// The same after a look without the lock: nothing can have been written, and lanes begin where they were read.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "only nodes that share a database look ahead")
    )]
    pub(in crate::store) fn clear_after_snapshot(&mut self) {
        let lane_heads = std::mem::take(&mut self.lane_heads);
        self.clear();
        self.lane_heads = lane_heads;
    }

    /// Clears everything that is stored, after a failed commit. Statistics that were not written yet are kept.
    pub fn clear(&mut self) {
        let rates = std::mem::take(&mut self.rates);
        *self = ConnectionCache { rates, ..ConnectionCache::default() };
    }
}
