//! Fan-out: a job spawns others and goes on when their group is decided (M64).

use super::{CrashPoint, Cx, Stop, failed};
use crate::error::Invalid;
use crate::job::{Decided, ErrorRecord, Failure, GroupStrategy, JobId, NewJob, State};
use crate::queue::{Draft, Job};
use crate::store::command::children::NewGroup;
use crate::store::query::side::Group;

/// Why a child has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("child {id} is {state}: {}", error.as_ref().map_or("no error was kept", |error| &error.message))]
pub struct ChildError {
    /// Which child.
    pub id: JobId,
    /// Where it is; not final only if its group was decided without it.
    pub state: State,
    /// Its error.
    pub error: Option<Box<ErrorRecord>>,
}

/// What a group of children came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Children<T> {
    /// Whether the group came to what its strategy asks for.
    pub is_well: bool,
    /// Each child's result or error, in input order.
    pub results: Vec<Result<T, ChildError>>,
}

impl<T> Children<T> {
    /// All results, or the first error.
    ///
    /// # Errors
    /// The first child, in input order, that has no result.
    pub fn all(self) -> Result<Vec<T>, ChildError> {
        self.results.into_iter().collect()
    }
}

impl Cx {
    /// Spawns children and waits, without a slot, until their group is decided. A replay finds the same children.
    ///
    /// # Errors
    /// When a child is refused, or the lease is not held any more.
    pub async fn spawn_all<J: Job, D: Into<Draft<J>>>(
        &self,
        children: impl IntoIterator<Item = D>,
        strategy: GroupStrategy,
    ) -> Result<Children<J::Output>, anyhow::Error> {
        let name = self.occurrence("children:");
        let drafts = children.into_iter().map(|child| child.into().into_new());
        let jobs: Vec<NewJob> =
            drafts.collect::<Result<_, Invalid>>().map_err(|invalid| failed(invalid.into()))?;
        let known = if self.attempt() > 1 { self.known_group(&name).await? } else { None };
        if let Some(group) = known.filter(|group| group.group.decided.is_some()) {
            return results(group);
        }
        self.crash_at(&CrashPoint::BeforeSpawn).await;
        let queue = self.queue();
        let group = NewGroup { name: name.clone(), strategy, jobs };
        let spawned = queue.store().spawn(queue.caller(), self.hand(), group).await.map_err(failed)?;
        self.crash_at(&CrashPoint::AfterSpawn).await;
        if spawned.parent.is_held_with(self.fence())
            && let Some(group) = self.known_group(&name).await?
        {
            // Decided between the look and the call, so the store saw no need to park.
            return results(group);
        }
        // The store has parked the job; even a new group that is decided at once is read by the next attempt.
        self.leave(Stop::Parked).await
    }

    async fn known_group(&self, name: &str) -> Result<Option<Group>, anyhow::Error> {
        let queue = self.queue();
        let groups = queue.store().groups(queue.caller(), self.job_id()).await?.unwrap_or_default();
        Ok(groups.into_iter().find(|group| group.group.name == name))
    }
}

fn results<T: serde::de::DeserializeOwned>(group: Group) -> Result<Children<T>, anyhow::Error> {
    let mut results = Vec::with_capacity(group.children.len());
    for (child, result) in group.children {
        let is_completed = child.state == State::Completed;
        let error = child.details.error.clone().map(Box::new);
        results.push(if is_completed {
            let json = result.as_deref().unwrap_or(b"null");
            Ok(serde_json::from_slice(json).map_err(|error| {
                let message = format!("the result of child {} cannot be read: {error}", child.id);
                Failure::permanent("child_result_unreadable", message)
            })?)
        } else {
            Err(ChildError { id: child.id, state: child.state, error })
        });
    }
    Ok(Children { is_well: group.group.decided == Some(Decided::Well), results })
}
