//! What holds after every step, whatever was done.

use windlass::clock::Timestamp;
use windlass::job::{Fence, JobId, JobState, WorkerId};

use super::action::Action;
use super::view::View;
use super::world::World;
use crate::random::invariants::grew;

/// Whether what a worker reports must be taken: it is the last that the job was given to, and its lease has not ended.
pub(super) fn is_valid(before: &View, now: Timestamp, job: JobId, fence: Fence, worker: WorkerId) -> bool {
    let job = before.jobs.iter().find(|found| found.id == job);
    job.is_some_and(|job| {
        job.state == JobState::Running
            && job.fence == fence
            && job.expires_at > now
            && job.lease.is_some_and(|lease| lease.worker == worker && lease.ends_at() > now)
    })
}

/// Holds a state against the one before it.
pub(super) fn follows(world: &World, before: &View, action: Action) -> Result<(), String> {
    let jobs = &world.view.jobs;
    for was in &before.jobs {
        let Some(is) = jobs.iter().find(|job| job.id == was.id) else {
            return Err(format!("job {} is gone", was.id));
        };
        grew(was, is)?;
    }
    let children = jobs.iter().filter(|job| job.parent.is_some()).count();
    if children > 1 {
        return Err(format!("one group has {children} children"));
    }
    if let Action::Crash(_) | Action::Pass = action
        && jobs != &before.jobs
    {
        return Err("a step outside the store changed it".to_owned());
    }
    Ok(())
}

/// Holds a state against the invariants of stored data.
pub(super) async fn hold(world: &World) -> Result<(), String> {
    for report in world.store().verify().await.map_err(|error| error.to_string())? {
        // Late maintenance is tried here on purpose; this invariant counts it as a finding after a minute.
        if !report.holds() && report.code != "lifetimes" {
            return Err(format!("{}: {}: {:?}", report.code, report.promise, report.findings));
        }
    }
    world.repeat().await
}
