//! Limits of groups of children and of how their results are read.

/// Child groups of one job.
pub const CHILD_GROUPS_MAX: u64 = 1_000;
/// Bytes of children's results that are read together; results beyond that are read child by child.
pub const CHILD_RESULTS_BYTES_MAX: usize = 64 << 20;
/// Children whose states and results are sent with claimed jobs; the others are read in pages.
pub const CLAIM_CHILDREN_MAX: usize = 1_000;
/// Bytes of children's results that are sent with claimed jobs: a claim is answered quickly.
pub const CLAIM_CHILD_BYTES_MAX: usize = 1 << 20;
/// Children in one page.
pub const CHILD_PAGE_MAX: usize = 1_000;
/// Bytes of results after which a page of children ends.
pub const CHILD_PAGE_BYTES: usize = 8 << 20;
