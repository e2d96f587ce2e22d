//! Group commit: all waiting tasks run in one write transaction, which is committed once; then they are answered.
//! Engines only begin, commit and roll back.

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::store::command::effects::audit::RecordActor;
use crate::store::engine::{AppendedJobs, Appends, Write, WriteTask};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::write_tx::{Effects, WriteTx};

/// Runs all tasks. On an error nothing may be committed: the engine rolls back and clears the cache.
pub fn run(
    db: &mut dyn Write,
    cache: &mut ConnectionCache,
    env: &Environment,
    now: Timestamp,
    tasks: &mut [Box<dyn WriteTask>],
) -> Result<Effects, StoreError> {
    let result = run_tasks(db, cache, env, now, tasks);
    if result.is_err() {
        cache.clear();
    }
    result
}

/// Runs all tasks where nothing can be written. On an error the engine clears the cache, but for where lanes begin
/// (`ConnectionCache::clear_after_snapshot`).
pub(crate) fn run_tasks(
    db: &mut dyn Write,
    cache: &mut ConnectionCache,
    env: &Environment,
    now: Timestamp,
    tasks: &mut [Box<dyn WriteTask>],
) -> Result<Effects, StoreError> {
    cache.rates.begin();
    cache.check_not_moved(db, env)?;
    let put_back = if env.is_moving { None } else { db.why_put_back()? };
    let mut tx = WriteTx::new(db, cache, env, now);
    tx.share_grace()?;
    // Heartbeats name jobs, too, but report no outcomes.
    tx.expect_outcomes(tasks.iter().filter(|task| !task.is_urgent()).map(|task| task.names().len()).sum());
    if let Some(reason) = put_back {
        // Before any task of this commit: none of them may use or issue a fence of the previous generation.
        tx.begin_generation(&RecordActor { reason: Some(reason), ..RecordActor::system() })?;
    }
    // Before any task: appended jobs were answered before this commit.
    let appended = tx.raw(|db| db.appends().map(Appends::take_appended).transpose())?;
    if let Some((jobs, last)) = appended {
        tx.take_in(jobs, last)?;
        tx.begin();
    }
    for task in tasks {
        task.run(&mut tx);
        if let Some(error) = tx.error() {
            return Err(error.clone());
        }
    }
    tx.finish()
}

/// Runs tasks that only add jobs which depend on nothing stored, and returns these jobs. The engine then stores them
/// without excluding other writers. `db` is not written to, and should return an error for reads whose answer other
/// writers may have changed. On an error nothing was done: run the tasks in a commit instead.
pub fn append(
    db: &mut dyn Write,
    cache: &mut ConnectionCache,
    env: &Environment,
    now: Timestamp,
    tasks: &mut [Box<dyn WriteTask>],
) -> Result<(AppendedJobs, Effects), NotAppended> {
    cache.check_not_moved(db, env)?;
    let mut tx = WriteTx::new(db, cache, env, now).appending();
    for task in tasks {
        task.run(&mut tx);
        if let Some(error) = tx.error() {
            return Err(NotAppended { is_lane_unknown: tx.is_lane_unknown, error: error.clone() });
        }
    }
    Ok(tx.appended()?)
}

/// Why tasks cannot be appended.
#[derive(Debug)]
pub struct NotAppended {
    /// Whether it is because a lane is not known, which may have changed.
    pub is_lane_unknown: bool,
    /// The error.
    pub error: StoreError,
}

impl From<StoreError> for NotAppended {
    fn from(error: StoreError) -> NotAppended {
        NotAppended { is_lane_unknown: false, error }
    }
}

/// Announces a commit that is on disk, then answers all its tasks. `cache` is the one that the tasks were run with.
pub fn answer(
    env: &Environment,
    cache: &mut ConnectionCache,
    effects: Effects,
    tasks: Vec<Box<dyn WriteTask>>,
) {
    cache.rates.commit();
    if !effects.work.is_empty() {
        env.wakeups.work_arrived_in(effects.work);
    }
    if effects.has_ends {
        env.wakeups.jobs_ended();
    }
    env.wakeups.streamed(&effects.streams);
    if effects.has_cascades {
        env.wakeups.cascades_left();
    }
    if effects.has_interrupts {
        env.wakeups.jobs_interrupted();
    }
    if effects.has_late_rates {
        env.minutes.evict_before(env.clock.now());
    }
    env.metrics.counted(&effects.rates);
    env.pruning.ended(&effects.late_ends);
    env.feed.publish(effects.records, effects.change);
    for task in tasks {
        task.done(Ok(()));
    }
}

/// Answers all tasks that nothing was done.
pub fn refuse(tasks: Vec<Box<dyn WriteTask>>, error: &StoreError) {
    for task in tasks {
        task.done(Err(error.clone()));
    }
}
