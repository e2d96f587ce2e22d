//! Payloads and the schemas of their types.

use std::collections::HashMap;

use super::keys::Duplicate;
use super::{Batch, SubmitError};
use crate::store::command::schema_checks::SchemaChecks;
use crate::store::tx::write_tx::WriteTx;

impl Batch<'_> {
    /// Refuses payloads that do not match the schema of their type. A duplicate stores nothing, and is not checked.
    pub(super) fn check_schemas(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
        checks: &mut SchemaChecks,
    ) -> Result<(), SubmitError> {
        let config = tx.config()?;
        for (index, job) in self.jobs.iter().enumerate().filter(|(index, _)| !duplicates.contains_key(index))
        {
            let settings = config.types.get(&job.job_type);
            let checked = checks.payload(&tx.env.schemas, &job.job_type, settings, &job.payload);
            checked.map_err(|invalid| SubmitError::Invalid { index, invalid })?;
        }
        Ok(())
    }
}
