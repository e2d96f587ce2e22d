//! Fan-out: a job spawns children and continues when their group is decided.

use super::branch::Branch;
use super::history::{GroupShape, Record};
use super::quiet::{Kind, WaitAnswer, WakeUp};
use super::{CrashPoint, Cx, HandlerExit, failed};
use crate::client::{Job, JobBuilder};
use crate::error::FieldError;
use crate::job::{ErrorRecord, Failure, GroupDecision, GroupStrategy, JobId, JobState, NewJob};
use crate::limits;
use crate::store::command::children::{NewGroup, SpawnOptions, SpawnReport};
use crate::store::command::finish::Park;
use crate::store::query::job_details::{DecidedGroup, Group};

/// Why a child has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// It did not complete.
    #[error("child {id} is {state}: {}", error.as_ref().map_or("no error was stored", |error| &error.message))]
    NotCompleted {
        /// The job.
        id: JobId,
        /// The child's state; not final only if the group was decided without it.
        state: JobState,
        /// The child's error, if one was stored.
        error: Option<Box<ErrorRecord>>,
    },
    /// It was deleted, so its outcome is unknown.
    #[error("child {index} was deleted before its result was read")]
    Deleted {
        /// The child's position in the input, from 0.
        index: usize,
    },
}

/// The results of a group of children.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Children<T> {
    /// Whether the group succeeded by its strategy. A deleted child still has an error in `results`.
    pub is_well: bool,
    /// Each child's result or error, in input order.
    pub results: Vec<Result<T, ChildError>>,
}

impl<T> Children<T> {
    /// All results, or the first error.
    ///
    /// # Errors
    /// The error of the first child, in input order, that failed; if none failed, of the first that was cancelled or is
    /// not final.
    pub fn all(self) -> Result<Vec<T>, ChildError> {
        let (mut all, mut first) = (Vec::with_capacity(self.results.len()), None);
        for result in self.results {
            match result {
                Ok(result) => all.push(result),
                // A child that was cancelled because another one failed does not explain the failure.
                Err(
                    error @ ChildError::NotCompleted {
                        state: JobState::Failed | JobState::DeadLetter, ..
                    },
                ) => {
                    return Err(error);
                }
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        first.map_or(Ok(all), Err)
    }
}

impl Cx {
    /// Spawns children and waits, without a slot, until their group is decided. A later attempt finds the same
    /// children.
    ///
    /// A group is identified by its number, its strategy, and the number and types of its children, so that changed
    /// code is detected. If these differ between attempts, use [`spawn_all_named`](Cx::spawn_all_named).
    ///
    /// # Errors
    /// If a child is refused, if the saved group is different (`steps_changed`), or if the lease was lost.
    pub async fn spawn_all<J: Job, D: Into<JobBuilder<J>>>(
        &self,
        children: impl IntoIterator<Item = D>,
        strategy: GroupStrategy,
    ) -> Result<Children<J::Output>, anyhow::Error> {
        self.spawn_as("", new_jobs(children)?, strategy).await
    }

    /// Spawns children like [`spawn_all`](Cx::spawn_all), but identifies the group by its name only. Later attempts
    /// find the children that the first one spawned, whatever they ask for.
    ///
    /// # Errors
    /// If a child is refused, or if the lease was lost.
    pub async fn spawn_all_named<J: Job, D: Into<JobBuilder<J>>>(
        &self,
        name: &str,
        children: impl IntoIterator<Item = D>,
        strategy: GroupStrategy,
    ) -> Result<Children<J::Output>, anyhow::Error> {
        if name.is_empty() {
            return Err(Failure::permanent("step_name", "the name of a group cannot be empty").into());
        }
        self.spawn_as(name, new_jobs(children)?, strategy).await
    }

    async fn spawn_as<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        jobs: Vec<NewJob>,
        strategy: GroupStrategy,
    ) -> Result<Children<T>, anyhow::Error> {
        let mut call = self.call(&format!("children:{name}")).await?;
        let key = call.key().to_owned();
        let shape = GroupShape::new(strategy, &jobs);
        if let Some(saved) = self.saved_by(&call) {
            if name.is_empty() && self.is_strict() {
                check_shape(&key, &shape, &saved)?;
            }
            let known = self.known_group(&key).await?;
            if let Some(group) = known.filter(|group| group.group.decided.is_some()) {
                call.keep();
                return results(group);
            }
        } else {
            let record = Record { group: Some(shape.clone()), ..call.record() };
            self.save_with_next(&call, &record).await.map_err(failed)?;
        }
        call.save_part(Record { group: Some(shape), ..call.record() });
        let parks = self.may_spawn().await;
        let keeps_running = parks.is_none();
        self.clear_places();
        self.crash_at(&CrashPoint::BeforeSpawn).await;
        let group = NewGroup { name: key.clone(), strategy, jobs };
        let spawned = self.spawn_now(group, parks).await?;
        self.crash_at(&CrashPoint::AfterSpawn).await;
        if keeps_running {
            self.park(WakeUp::Group(key)).await?;
            return std::future::pending().await;
        }
        if spawned.parent.is_held_with(self.fence())
            && let Some(group) = self.known_group(&key).await?
        {
            // The group was decided between the read and this call, so the store did not park the job.
            call.keep();
            return results(group);
        }
        // The store has parked the job. Even a new group that is decided at once is read by the next attempt.
        self.leave(HandlerExit::Parked).await
    }

    /// Waits until nothing else in the handler can continue, because spawning parks the job. Returns the other things
    /// that wake the job; `None` if the job must not park yet, because another call spawns children beside this one.
    async fn may_spawn(&self) -> Option<Vec<Park>> {
        if self.is_batched() {
            return Some(Vec::new());
        }
        match self.0.order.wait(Kind::Spawn, |_| false).await {
            WaitAnswer::Spawn(others) => {
                let now = self.now();
                Some(others.into_iter().map(|awaited| awaited.into_park(now)).collect())
            }
            WaitAnswer::SpawnFirst => None,
            WaitAnswer::Go | WaitAnswer::Changed | WaitAnswer::Alone => Some(Vec::new()),
        }
    }

    /// Spawns a group and parks on it and on `parks`; without them the job continues.
    async fn spawn_now(
        &self,
        group: NewGroup,
        parks: Option<Vec<Park>>,
    ) -> Result<SpawnReport, anyhow::Error> {
        let _storing = self.0.order.storing();
        let client = self.client();
        let (writes, carried) = self.after_deferred(Vec::new(), false).await;
        let (keeps_running, parks) = (parks.is_none(), parks.unwrap_or_default());
        let options = SpawnOptions { keeps_running, parks, writes: writes.clone() };
        let spawned = client.api().spawn_with(client.caller(), self.lease_ref(), group, options).await;
        let spawned = spawned.map_err(failed)?;
        carried.written(&writes);
        Ok(spawned)
    }

    /// Starts a child without waiting for it, once across all attempts, and returns its id. It is cancelled with this
    /// job, and shown as its child. At most 1,000 groups and such children can belong to one job.
    ///
    /// This is a step named `start TYPE`.
    ///
    /// # Errors
    /// If the child is refused, or if the lease was lost.
    pub async fn start<J: Job>(&self, child: impl Into<JobBuilder<J>>) -> Result<JobId, anyhow::Error> {
        let job = child.into().into_new().map_err(|invalid| failed(invalid.into()))?;
        let work = async {
            // Its own key names the group, so that a repeated step finds the child.
            let name = Branch::current().step_key().to_owned();
            let group = NewGroup { name, strategy: GroupStrategy::CollectAll, jobs: vec![job.clone()] };
            let spawned = self.spawn_now(group, None).await?;
            let started = spawned.children.first().map(|child| child.id);
            started.ok_or_else(|| {
                let message = "the child was deleted before its id was saved";
                anyhow::Error::from(Failure::permanent("child_deleted", message))
            })
        };
        self.step(&format!("start {}", job.job_type), work).await
    }

    async fn known_group(&self, name: &str) -> Result<Option<Group>, anyhow::Error> {
        let came = self.claimed().groups.iter().find(|decided| decided.group.group.name == name);
        if let Some(DecidedGroup { group, next: None }) = came {
            return Ok(Some(group.clone()));
        }
        let _storing = self.0.order.storing();
        let client = self.client();
        Ok(client.api().group(client.caller(), self.job_id(), name).await?)
    }
}

fn new_jobs<J: Job, D: Into<JobBuilder<J>>>(
    children: impl IntoIterator<Item = D>,
) -> Result<Vec<NewJob>, anyhow::Error> {
    let drafts = children.into_iter().map(|child| child.into().into_new());
    drafts.collect::<Result<_, FieldError>>().map_err(|invalid| failed(invalid.into()))
}

/// Rejects a group that differs from the saved one.
fn check_shape(key: &str, asked: &GroupShape, saved: &[u8]) -> Result<(), Failure> {
    let record = serde_json::from_slice::<Record<'_>>(saved).unwrap_or_default();
    match record.group {
        Some(saved) if saved != *asked => {
            let message = format!(
                "the code was changed: group `{key}` is {asked}, and was {saved} in an earlier attempt; use \
                 `spawn_all_named` for a group that varies"
            );
            Err(Failure::permanent("steps_changed", message))
        }
        Some(_) | None => Ok(()),
    }
}

fn results<T: serde::de::DeserializeOwned>(group: Group) -> Result<Children<T>, anyhow::Error> {
    let is_well = group.group.decided == Some(GroupDecision::Well);
    if !group.omitted.is_empty() {
        let limit = limits::CHILD_RESULTS_BYTES_MAX;
        let message = format!(
            "the results of group `{}` exceed {limit} bytes in total: let children return less, such as a reference \
             to the data",
            group.group.name
        );
        return Err(Failure::permanent("child_results_too_large", message).into());
    }
    let mut results = Vec::with_capacity(group.children.len());
    for (index, slot) in group.into_slots().into_iter().enumerate() {
        let Some((child, result)) = slot else {
            results.push(Err(ChildError::Deleted { index }));
            continue;
        };
        let is_completed = child.state == JobState::Completed;
        let error = child.details.error.clone().map(Box::new);
        results.push(if is_completed {
            let json = result.as_deref().unwrap_or(b"null");
            Ok(serde_json::from_slice(json).map_err(|error| {
                let message = format!("the result of child {} cannot be read: {error}", child.id);
                Failure::permanent("child_result_unreadable", message)
            })?)
        } else {
            Err(ChildError::NotCompleted { id: child.id, state: child.state, error })
        });
    }
    Ok(Children { is_well, results })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::clock::Timestamp;
    use crate::job::{ChildGroup, JobRecord as Record, JobType, Lane, Parent, QueueName, Seq, Tenant};

    fn child(index: u32) -> Record {
        let lane = Lane::new(Tenant::default(), QueueName::default(), JobType::new("child").unwrap());
        let now = Timestamp::from_millis(1000);
        let id = JobId::new(now, u128::from(index));
        let parent = Parent { seq: Seq(1), id: JobId::new(now, 99), group: 1, index };
        Record {
            state: JobState::Completed,
            parent: Some(parent),
            ..Record::new(Seq(i64::from(index) + 2), id, Arc::new(lane), Arc::default(), now)
        }
    }

    /// Model: child-groups. A deleted child leaves its position empty; the others keep theirs.
    #[test]
    fn a_deleted_child_is_an_error_in_its_own_place() {
        let group = ChildGroup {
            name: "all".into(),
            strategy: GroupStrategy::CollectAll,
            total: 3,
            open: 0,
            completed: 3,
            decided: Some(GroupDecision::Well),
        };
        let children = vec![(child(0), Some(Arc::from(&b"0"[..]))), (child(2), Some(Arc::from(&b"2"[..])))];
        let found: Children<u32> = results(Group {
            number: 1,
            group,
            redacted: BTreeSet::new(),
            omitted: BTreeSet::new(),
            children,
        })
        .unwrap();
        assert_eq!(found.results, [Ok(0), Err(ChildError::Deleted { index: 1 }), Ok(2)]);
        let said = found.all().unwrap_err().to_string();
        assert_eq!(said, "child 1 was deleted before its result was read");
    }

    fn ended<T>(state: JobState) -> Result<T, ChildError> {
        let id = JobId::new(Timestamp::from_millis(1000), state as u128);
        Err(ChildError::NotCompleted { id, state, error: None })
    }

    /// Model: child-groups. Also if children that were cancelled for it, or have not ended, come first.
    #[test]
    fn the_child_that_failed_explains_the_failure() {
        let others = [JobState::Cancelled, JobState::Running, JobState::Pending];
        for failed in [JobState::Failed, JobState::DeadLetter] {
            let states = others.into_iter().chain([failed, JobState::Cancelled]);
            let results: Vec<Result<u8, _>> = states.map(ended).collect();
            assert_eq!(Children { is_well: false, results }.all(), ended(failed));
        }
        let results: Vec<Result<u8, _>> = others.into_iter().map(ended).collect();
        assert_eq!(Children { is_well: false, results }.all(), ended(JobState::Cancelled));
    }
}
