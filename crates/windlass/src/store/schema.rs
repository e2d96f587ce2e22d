//! Which schema a store has, and what would bring it to the one that this version knows. Looks only; opening a store is what
//! brings it there.

use crate::error::OpenError;

/// The schema of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// What it has; 0 if there is no store yet.
    pub found: u32,
    /// The newest that this version knows.
    pub known: u32,
    /// The names of the steps in between.
    pub pending: Vec<&'static str>,
}

impl Schema {
    /// Looks at the store at an address, `sqlite:PATH` or `postgres://…`, and changes nothing.
    ///
    /// # Errors
    /// [`OpenError::NewerSchema`] if the store is newer than this version.
    pub fn read(address: &str) -> Result<Schema, OpenError> {
        #[cfg(feature = "sqlite")]
        if let Some(path) = address.strip_prefix("sqlite:") {
            return super::engines::sqlite::migrate::read_schema(std::path::Path::new(path));
        }
        #[cfg(feature = "postgres")]
        if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            return super::engines::postgres::migrate::read_schema(address);
        }
        Err(OpenError::UnknownAddress(address.to_owned()))
    }

    /// The state of a store that was found at a step.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn at(found: usize, steps: impl ExactSizeIterator<Item = &'static str>) -> Schema {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Schema { found: small(found), known: small(steps.len()), pending: steps.skip(found).collect() }
    }
}
