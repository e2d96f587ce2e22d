//! The schema version of a store, and the pending migration steps. Only reads; opening a store migrates it.

use crate::error::OpenError;

/// The schema version of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schema {
    /// The version found; 0 if there is no store yet.
    pub found: u32,
    /// The newest version that this build supports.
    pub known: u32,
    /// The names of the pending steps.
    pub pending: Vec<&'static str>,
}

impl Schema {
    /// Reads the schema version of the store at an address, `sqlite:PATH` or `postgres://…`. Changes nothing.
    ///
    /// # Errors
    /// [`OpenError::NewerSchema`] if the store is newer than this build supports.
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

    /// The schema of a store at a given step.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn at(found: usize, steps: impl ExactSizeIterator<Item = &'static str>) -> Schema {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Schema { found: small(found), known: small(steps.len()), pending: steps.skip(found).collect() }
    }
}
