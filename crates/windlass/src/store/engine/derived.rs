//! Data that an engine derives from its rows: index entries and columns, tags, sums. What verification finds there can be
//! written again, because the rows it follows from are whole.

use crate::job::{ConcurrencyKey, Seq, Tenant};
use crate::store::engine::EngineResult;

/// Derived data that does not follow from its rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DerivedData {
    /// Index entries, index columns or tags of a job.
    Job(Seq),
    /// The number of concurrency keys that a tenant uses.
    KeyTotal(Tenant),
    /// An index of the database that differs from its table.
    Index(String),
}

/// A problem that only an integrity check finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// A description.
    pub text: String,
    /// The data to derive again, if nothing else is wrong.
    pub derived: Option<DerivedData>,
}

impl Damage {
    /// Damage of derived data.
    pub fn new(derived: DerivedData, text: String) -> Damage {
        Damage { text, derived: Some(derived) }
    }
}

impl From<String> for Damage {
    fn from(text: String) -> Damage {
        Damage { text, derived: None }
    }
}

/// Reading derived data, an optional capability.
pub trait Derived {
    /// The concurrency keys of a tenant that are counted, each with its number of jobs, ordered by key; only keys after
    /// `after`.
    fn counted_keys(
        &mut self,
        tenant: &Tenant,
        after: Option<ConcurrencyKey>,
        max: usize,
    ) -> EngineResult<Vec<(ConcurrencyKey, u64)>>;
    /// The tenants of all counted keys.
    fn tenants_of_keys(&mut self) -> EngineResult<Vec<Tenant>>;
}

/// Writing derived data, an optional capability.
pub trait DerivedMut {
    /// Writes this data as it follows from its rows.
    fn derive(&mut self, what: &DerivedData) -> EngineResult<()>;
}
