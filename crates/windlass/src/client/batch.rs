//! Jobs of any type submitted together: graphs and chains, all or nothing.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Client, Handle, IntoDependency, Job, JobBuilder, JobHandle};
use crate::error::{FieldError, SubmitError};
use crate::job::{Dependency, NewJob};
use crate::store::command::submit::{Receipt, SubmitOptions};

/// A job of a batch before submission. Other jobs of the same batch can depend on it.
pub struct BatchNode<J> {
    batch: u64,
    index: usize,
    kind: PhantomData<fn() -> J>,
}

impl<J> Clone for BatchNode<J> {
    fn clone(&self) -> BatchNode<J> {
        *self
    }
}

impl<J> Copy for BatchNode<J> {}

impl<J> IntoDependency for BatchNode<J> {
    fn dependency(&self) -> Dependency {
        Dependency::Named(name_of(self.batch, self.index))
    }
}

/// Unique per batch, so a node of another batch is never mistaken for one of this batch.
fn name_of(batch: u64, index: usize) -> String {
    format!("batch-{batch}-node-{index}")
}

/// Numbers the batches of this process.
static BATCHES: AtomicU64 = AtomicU64::new(1);

/// The node belongs to another batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node belongs to another batch")]
pub struct UnknownNode;

/// Jobs that are submitted together.
pub struct Batch {
    client: Client,
    number: u64,
    jobs: Vec<Result<NewJob, FieldError>>,
}

impl Batch {
    pub(crate) fn new(client: Client) -> Batch {
        Batch { client, number: BATCHES.fetch_add(1, Ordering::Relaxed), jobs: Vec::new() }
    }

    /// Adds a job and returns its node, for dependencies.
    pub fn add<J: Job>(&mut self, job: impl Into<JobBuilder<J>>) -> BatchNode<J> {
        let (batch, index) = (self.number, self.jobs.len());
        self.jobs.push(job.into().named(name_of(batch, index)).into_new());
        BatchNode { batch, index, kind: PhantomData }
    }

    /// Submits all jobs, or none.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit. Nothing was stored.
    pub async fn submit(self) -> Result<SubmittedBatch, SubmitError> {
        let mut new = Vec::with_capacity(self.jobs.len());
        for (index, job) in self.jobs.into_iter().enumerate() {
            new.push(job.map_err(|invalid| SubmitError::Invalid { index, invalid })?);
        }
        let receipts = self.client.api().submit(self.client.caller(), new, SubmitOptions::default()).await?;
        Ok(SubmittedBatch { client: self.client, number: self.number, receipts })
    }
}

/// A submitted batch.
pub struct SubmittedBatch {
    client: Client,
    number: u64,
    receipts: Vec<Receipt>,
}

impl SubmittedBatch {
    /// The handle of a node of this batch.
    ///
    /// # Errors
    /// If the node belongs to another batch.
    pub fn handle<J: Job>(&self, node: BatchNode<J>) -> Result<Handle<J>, UnknownNode> {
        let receipt = self.receipts.get(node.index).filter(|_| node.batch == self.number);
        receipt.map(|receipt| Handle::new(self.client.clone(), receipt)).ok_or(UnknownNode)
    }

    /// All jobs, in the order they were added.
    pub fn jobs(&self) -> Vec<JobHandle> {
        self.receipts.iter().map(|receipt| JobHandle::new(self.client.clone(), receipt.job.id)).collect()
    }
}

/// Jobs that run in sequence, each only if the previous one completed.
pub struct Chain {
    batch: Batch,
}

impl Chain {
    pub(crate) fn new(client: Client) -> Chain {
        Chain { batch: Batch::new(client) }
    }

    /// Adds the next job.
    #[must_use]
    pub fn then<J: Job>(mut self, job: impl Into<JobBuilder<J>>) -> Chain {
        let mut builder = job.into();
        if let Some(last) = self.batch.jobs.len().checked_sub(1) {
            builder =
                builder.after(&BatchNode::<J> { batch: self.batch.number, index: last, kind: PhantomData });
        }
        self.batch.add(builder);
        self
    }

    /// Submits all jobs, or none. The handles are in the order of the chain.
    ///
    /// # Errors
    /// [`SubmitError`] names the job, field, value and limit. Nothing was stored.
    pub async fn submit(self) -> Result<Vec<JobHandle>, SubmitError> {
        Ok(self.batch.submit().await?.jobs())
    }
}
