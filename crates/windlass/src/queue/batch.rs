//! Jobs of any kinds submitted as one: graphs and chains, all or nothing (M63).

use std::marker::PhantomData;

use super::{AnyJob, Draft, Handle, Job, Queue, WaitsFor};
use crate::error::{Invalid, SubmitError};
use crate::job::{Dependency, NewJob};
use crate::store::command::submit::{Receipt, SubmitOptions};

/// A job of a batch, before it is submitted: others can wait for it.
pub struct Node<J> {
    index: usize,
    kind: PhantomData<fn() -> J>,
}

impl<J> Clone for Node<J> {
    fn clone(&self) -> Node<J> {
        *self
    }
}

impl<J> Copy for Node<J> {}

impl<J> WaitsFor for Node<J> {
    fn dependency(&self) -> Dependency {
        Dependency::Named(name_of(self.index))
    }
}

fn name_of(index: usize) -> String {
    format!("node-{index}")
}

/// Jobs that are submitted as one.
pub struct Batch {
    queue: Queue,
    jobs: Vec<Result<NewJob, Invalid>>,
}

impl Batch {
    pub(crate) fn new(queue: Queue) -> Batch {
        Batch { queue, jobs: Vec::new() }
    }

    /// Adds a job.
    pub fn add<J: Job>(&mut self, job: impl Into<Draft<J>>) -> Node<J> {
        let index = self.jobs.len();
        self.jobs.push(job.into().named(name_of(index)).into_new());
        Node { index, kind: PhantomData }
    }

    /// Submits all of them, or none.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit; nothing was stored.
    pub async fn submit(self) -> Result<Submitted, SubmitError> {
        let mut new = Vec::with_capacity(self.jobs.len());
        for (index, job) in self.jobs.into_iter().enumerate() {
            new.push(job.map_err(|invalid| SubmitError::Invalid { index, invalid })?);
        }
        let receipts = self.queue.store().submit(self.queue.caller(), new, SubmitOptions::default()).await?;
        Ok(Submitted { queue: self.queue, receipts })
    }
}

/// A batch that was submitted.
pub struct Submitted {
    queue: Queue,
    receipts: Vec<Receipt>,
}

impl Submitted {
    /// The handle of a node of this batch.
    pub fn handle<J: Job>(&self, node: Node<J>) -> Handle<J> {
        Handle::new(self.queue.clone(), &self.receipts[node.index])
    }

    /// All jobs, in the order they were added.
    pub fn jobs(&self) -> Vec<AnyJob> {
        self.receipts.iter().map(|receipt| AnyJob::new(self.queue.clone(), receipt.job.id)).collect()
    }
}

/// Jobs that run one after the other, each only if the one before completed.
pub struct Chain {
    batch: Batch,
}

impl Chain {
    pub(crate) fn new(queue: Queue) -> Chain {
        Chain { batch: Batch::new(queue) }
    }

    /// Adds the next job.
    #[must_use]
    pub fn then<J: Job>(mut self, job: impl Into<Draft<J>>) -> Chain {
        let mut draft = job.into();
        if let Some(last) = self.batch.jobs.len().checked_sub(1) {
            draft = draft.after(&Node::<J> { index: last, kind: PhantomData });
        }
        self.batch.add(draft);
        self
    }

    /// Submits all of them, or none; the jobs are in their order.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit; nothing was stored.
    pub async fn submit(self) -> Result<Vec<AnyJob>, SubmitError> {
        Ok(self.batch.submit().await?.jobs())
    }
}
