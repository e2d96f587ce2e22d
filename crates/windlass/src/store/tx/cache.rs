//! What a connection remembers between commits: the parsed configuration and rates not written yet. Everything in it can
//! be rebuilt from the database at any moment.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, JobState, Lane, Seq, acts_at};
use crate::store::command::claim::AgingTurns;
use crate::store::command::generation::LeaseSweep;
use crate::store::documents::config::Config;
use crate::store::documents::liveness::Liveness;
use crate::store::documents::minute_stats::Rates;
use crate::store::engine::{EngineResult, Read};
use crate::store::environment::Environment;
use crate::store::move_store::mark;

/// A connection's memory.
#[derive(Debug, Default)]
pub struct ConnectionCache {
    config: Option<(u64, Arc<Config>)>,
    /// Why nobody is served, if so, as of a version of the configuration.
    shut: Option<(u64, Option<String>)>,
    lanes: FxHashSet<Arc<Lane>>,
    /// When workers were last heard of.
    pub(in crate::store) liveness: Liveness,
    running: Running,
    pub(in crate::store) tallies: UsageCache,
    /// No job is changed by time before this; none if it is not known.
    quiet_until: Option<Timestamp>,
    /// Whether somebody else has committed since this connection last did: what is found out now will not be known for
    /// long, and is not worth a question.
    pub(in crate::store) is_shared: bool,
    /// How far running jobs were searched for leases of an earlier generation.
    pub(in crate::store) lease_sweep: LeaseSweep,
    /// Whose jobs' aging was compared when.
    pub(in crate::store) aging_turns: AgingTurns,
    /// Rates of the current minute.
    pub rates: Rates,
}

/// Jobs that run, as stored: a job that was claimed through this connection is mostly finished through it too, and need
/// not be read again.
#[derive(Debug, Default)]
struct Running {
    generation: u64,
    jobs: FxHashMap<Seq, JobRecord>,
    seqs: FxHashMap<JobId, Seq>,
    /// Names of their checkpoints and how many bytes each has, as far as they were written or read through this connection.
    steps: FxHashMap<Seq, FxHashMap<String, u64>>,
    /// How many names.
    names: usize,
}

/// How far rates, turns and budgets are used, as the documents say or will say when this group ends.
#[derive(Debug, Default)]
pub(in crate::store) struct UsageCache {
    /// By key; the second is whether it is yet to be written.
    pub(in crate::store) documents: FxHashMap<String, (Option<Vec<u8>>, bool)>,
    /// No timer of a throttled key is earlier than this; none if it is not known.
    pub(in crate::store) no_timer_before: Option<Timestamp>,
    /// Whether it is known that no cascade is left to go on with.
    pub(in crate::store) has_no_cascades: bool,
}

/// Running jobs remembered; all are forgotten when there are more.
const RUNNING_REMEMBERED_MAX: usize = 20_000;

/// Names of checkpoints remembered; all are forgotten when there are more.
const STEPS_REMEMBERED_MAX: usize = 100_000;

/// Lanes remembered; all are forgotten when there are more, since most of them are then no longer in use.
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

    /// Refuses to serve a store whose content is elsewhere, or on its way (see [`transfer`](crate::store::transfer)). Looked up
    /// again whenever the configuration has changed, so that it binds every process from the next commit on.
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
            self.shut = Some((version, mark::refusal(db)?));
        }
        match &self.shut {
            Some((_, Some(why))) => Err(StoreError::Moved(why.clone())),
            _ => Ok(()),
        }
    }

    /// Changes the remembered configuration along with the database, which is at `version` from now on.
    pub fn change_config(&mut self, version: u64, change: impl FnOnce(&mut Config)) {
        if let Some((known, config)) = &mut self.config {
            change(Arc::make_mut(config));
            *known = version;
        }
        // Nothing but this connection's own change lies between the two versions.
        if let Some((known, _)) = &mut self.shut {
            *known = version;
        }
    }

    /// The one shared value of a lane.
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

    /// Makes sure that nothing is remembered from before somebody else's commit.
    pub fn refresh(&mut self, generation: u64) {
        self.is_shared = self.running.generation != generation;
        if self.is_shared {
            self.running = Running { generation, ..Running::default() };
            self.tallies = UsageCache::default();
            self.liveness.outdate();
            self.quiet_until = None;
        }
    }

    /// Whether it is known that time changes no job by `now`: most claims come while nothing is due, and need not look.
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    /// Remembers when time changes a job next; none if never.
    pub fn quiet_until(&mut self, next: Option<Timestamp>) {
        self.quiet_until = Some(next.unwrap_or(Timestamp::MAX));
    }

    /// Takes notice of a job that will be stored like this.
    pub fn written(&mut self, job: &JobRecord) {
        if let (Some(known), Some(at)) = (self.quiet_until, acts_at(job)) {
            self.quiet_until = Some(known.min(at));
        }
    }

    /// The running job with this id, if it is remembered.
    pub fn running(&self, id: JobId) -> Option<&JobRecord> {
        self.running.jobs.get(self.running.seqs.get(&id)?)
    }

    /// Remembers a job as it was just stored, if it runs.
    pub fn stored(&mut self, job: &JobRecord) {
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

    /// Whether all checkpoints of a running job are remembered.
    pub(in crate::store) fn knows_steps(&self, seq: Seq) -> bool {
        let (job, steps) = (self.running.jobs.get(&seq), self.running.steps.get(&seq));
        job.zip(steps).is_some_and(|(job, steps)| steps.len() as u64 == job.details.checkpoints)
    }

    /// How many bytes a running job's checkpoint of this name has, if it is remembered.
    pub(in crate::store) fn step_bytes(&self, seq: Seq, step: &str) -> Option<u64> {
        self.running.steps.get(&seq)?.get(step).copied()
    }

    /// Remembers a checkpoint of a running job, as stored.
    pub(in crate::store) fn learn_step(&mut self, seq: Seq, step: &str, bytes: u64) {
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

    /// Forgets everything, after a commit that failed.
    pub fn clear(&mut self) {
        *self = ConnectionCache::default();
    }
}
