//! Data attached to jobs: finished attempts, checkpoints and their times, signals, log lines, streamed output, results,
//! groups of children. Bodies are opaque; they are removed with their job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::Words;

use crate::job::Seq;
use crate::store::engine::EngineResult;

/// Data attached to a job; deleted with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Words)]
pub enum JobDataKind {
    /// A finished attempt; `number` is the attempt number.
    Attempt,
    /// A checkpoint or step; `name` is the step's name.
    Checkpoint,
    /// A signal that was not consumed yet; `number` is the order of arrival.
    Signal,
    /// A log line; `number` is its position.
    Log,
    /// The result.
    Result,
    /// A group of children; `number` is the group's number.
    Group,
    /// When a step was saved and by which attempt; `name` is the step's name. Apart from the checkpoint itself, so that a
    /// claim does not read it.
    StepTime,
    /// Streamed output; `number` is that of its last chunk.
    Stream,
}

/// One piece of job data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobData {
    /// The job.
    pub seq: Seq,
    /// The kind of data.
    pub kind: JobDataKind,
    /// Its name; empty if the kind has none.
    pub name: String,
    /// Its number; 0 if the kind has none.
    pub number: u64,
    /// Its content.
    pub body: Arc<[u8]>,
}

/// A change to job data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobDataWrite {
    /// Adds the data, or replaces data with the same name and number.
    Put(JobData),
    /// Removes the data if it exists.
    Drop {
        /// The job.
        seq: Seq,
        /// The kind of data.
        kind: JobDataKind,
        /// Its name.
        name: String,
        /// Its number.
        number: u64,
    },
}

/// Selects the job data to read. Results are ordered by name, then number.
#[derive(Debug, Clone, Copy)]
pub struct JobDataQuery<'a> {
    /// The job.
    pub seq: Seq,
    /// The kind of data.
    pub kind: JobDataKind,
    /// Only data with this name.
    pub name: Option<&'a str>,
    /// Only data with a number greater than this.
    pub above: Option<u64>,
    /// Maximum number of results.
    pub limit: usize,
}

/// Reading job data.
pub trait JobDataTable {
    /// Data of one job, ordered by name, then number.
    fn job_data(&mut self, query: JobDataQuery<'_>) -> EngineResult<Vec<JobData>>;
    /// Data of several jobs, all of one kind, in the order of the jobs, then by name and number.
    fn job_data_of(&mut self, seqs: &[Seq], kind: JobDataKind) -> EngineResult<Vec<JobData>> {
        let mut found = Vec::new();
        for seq in seqs {
            let query = JobDataQuery { seq: *seq, kind, name: None, above: None, limit: usize::MAX };
            found.extend(self.job_data(query)?);
        }
        Ok(found)
    }
}

/// Writing job data.
pub trait JobDataTableMut: JobDataTable {
    /// Changes job data, in this order.
    fn write_job_data(&mut self, writes: &[JobDataWrite]) -> EngineResult<()>;
}
