//! Everything that is stored, row by row and in one order on every engine: what a move reads at one end and writes at the
//! other. Rows are what they mean, not how an engine keeps them; what follows from them is left out.

use serde::{Deserialize, Serialize};

use crate::audit::Record;
use crate::job::Seq;
use crate::store::engine::{
    Document, DocumentKind, Edge, EngineResult, JobData, JobDataKind, Key, KeyHolder, NewRow,
};

/// How much is read at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// At most so many rows.
    pub rows: usize,
    /// At most so many bytes of what users stored, but at least one row.
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

/// The numbers that are given out next, and the generation that is part of every fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The store's generation, from 1 (M8).
    pub generation: u64,
    /// To the next job.
    pub seq: Seq,
    /// To the next audit record.
    pub record: u64,
}

/// Which facet; they are ordered by this.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobDataPosition {
    /// The job.
    pub seq: Seq,
    /// What it is.
    pub kind: JobDataKind,
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
}

impl JobDataPosition {
    /// The place of a facet.
    pub fn of(facet: &JobData) -> JobDataPosition {
        JobDataPosition { seq: facet.seq, kind: facet.kind, name: facet.name.clone(), number: facet.number }
    }
}

/// Submissions that came in by the door in SQL and are no jobs yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    /// Those that wait to be taken in.
    pub waiting: u64,
    /// Those of which no job can be made, and which wait for people.
    pub set_aside: u64,
}

/// Reading everything. Audit records are read as they always are.
pub trait Export {
    /// What is given out next.
    fn numbers(&mut self) -> EngineResult<SequenceNumbers>;
    /// Jobs in the order of submission, without their keys.
    fn jobs_after(&mut self, after: Seq, page: Page) -> EngineResult<Vec<NewRow>>;
    /// What hangs on jobs, in the order of [`FacetPlace`].
    fn facets_after(&mut self, after: Option<&JobDataPosition>, page: Page) -> EngineResult<Vec<JobData>>;
    /// Keys and who has them, in the keys' order.
    fn keys_after(&mut self, after: Option<&Key>, page: Page) -> EngineResult<Vec<(Key, KeyHolder)>>;
    /// Edges in their order.
    fn edges_after(&mut self, after: Option<Edge>, page: Page) -> EngineResult<Vec<Edge>>;
    /// The documents of a kind, ordered by key.
    fn documents_after(
        &mut self,
        kind: DocumentKind,
        after: Option<&str>,
        page: Page,
    ) -> EngineResult<Vec<Document>>;
    /// How much lies at the door in SQL; only a server has one.
    fn letter_counts(&mut self) -> EngineResult<InboxCounts> {
        Ok(InboxCounts::default())
    }
}

/// Writing what was read elsewhere, as it was there. Jobs, edges, facets, documents and counts are written as they always
/// are.
pub trait Import {
    /// Gives keys to those who have them.
    fn import_keys(&mut self, keys: &[(Key, KeyHolder)]) -> EngineResult<()>;
    /// Adds audit records with the numbers that they have.
    fn import_records(&mut self, records: &[Record]) -> EngineResult<()>;
    /// Goes on with these numbers.
    fn adopt(&mut self, numbers: SequenceNumbers) -> EngineResult<()>;
    /// Shuts the door in SQL, waiting for whoever stands in it, or opens it again; only a server has one.
    fn set_inbox_paused(&mut self, _is_shut: bool) -> EngineResult<()> {
        Ok(())
    }
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
