//! Moving a store, an optional capability: everything that is stored, row by row and in one order on every engine. Rows
//! are logical, independent of an engine's format; derived data is left out. What the chapters of the contract can read
//! and write in order (documents, audit records, numbers) is not repeated here.

use serde::{Deserialize, Serialize};

use crate::audit::Record;
use crate::job::Seq;
use crate::store::engine::{Edge, EngineResult, JobData, JobDataKind, Key, KeyHolder, NewRow};

/// How much is read at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Maximum number of rows.
    pub rows: usize,
    /// Maximum number of bytes of user data, but at least one row.
    pub bytes: usize,
}

impl Page {
    /// How many of the rows with these sizes fit.
    pub fn fitting(&self, sizes: impl IntoIterator<Item = usize>) -> usize {
        let mut left = Some(self.bytes);
        let fits = |size: usize| {
            let has_room = left.is_some();
            left = left.and_then(|left| left.checked_sub(size));
            has_room
        };
        sizes.into_iter().take(self.rows).map(fits).take_while(|fits| *fits).count()
    }
}

/// The position of job data; job data is ordered by this.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobDataPosition {
    /// The job.
    pub seq: Seq,
    /// The kind of data.
    pub kind: JobDataKind,
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
}

impl JobDataPosition {
    /// The position of job data.
    pub fn new(data: &JobData) -> JobDataPosition {
        JobDataPosition { seq: data.seq, kind: data.kind, name: data.name.clone(), number: data.number }
    }
}

/// Reading everything.
pub trait Export {
    /// Jobs in order of submission, without their keys.
    fn jobs_after(&mut self, after: Seq, page: Page) -> EngineResult<Vec<NewRow>>;
    /// Job data, in the order of [`JobDataPosition`].
    fn job_data_after(&mut self, after: Option<&JobDataPosition>, page: Page) -> EngineResult<Vec<JobData>>;
    /// Keys and their holders, in the keys' order.
    fn keys_after(&mut self, after: Option<&Key>, page: Page) -> EngineResult<Vec<(Key, KeyHolder)>>;
    /// Edges in their order.
    fn edges_after(&mut self, after: Option<Edge>, page: Page) -> EngineResult<Vec<Edge>>;
}

/// Writing rows of another store unchanged. Jobs, edges, job data, documents, counts and numbers are written with the
/// chapters of the contract.
pub trait Import {
    /// Inserts keys with their holders.
    fn import_keys(&mut self, keys: &[(Key, KeyHolder)]) -> EngineResult<()>;
    /// Inserts audit records with the numbers they have.
    fn import_records(&mut self, records: &[Record]) -> EngineResult<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_the_row_that_fills_it() {
        let page = Page { rows: 4, bytes: 10 };
        assert_eq!(page.fitting([1, 2, 3]), 3);
        assert_eq!(page.fitting([1; 9]), 4);
        assert_eq!(page.fitting([99, 1]), 1, "a row that is too large still goes alone");
        assert_eq!(page.fitting([5, 6, 1]), 2);
        assert_eq!(page.fitting([]), 0);
    }
}
