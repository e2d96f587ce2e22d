//! Comparing payloads and results with the schemas of their types. It can take some tenths of a second for each, so it is
//! done before the transaction, with the schemas that this process knows; the transaction compares again what it
//! finds another schema for.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;

use crate::error::FieldError;
use crate::job::{JobType, Payload};
use crate::limits;
use crate::settings::{JobSchema, SchemaSteps, TypeSettings};

/// Which of a type's two schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SchemaKind {
    Payload,
    Result,
}

impl SchemaKind {
    fn schema(self, settings: Option<&TypeSettings>) -> Option<&JobSchema> {
        match self {
            SchemaKind::Payload => settings?.payload_schema.as_ref(),
            SchemaKind::Result => settings?.result_schema.as_ref(),
        }
    }

    fn field(self) -> &'static str {
        match self {
            SchemaKind::Payload => "payload",
            SchemaKind::Result => "result",
        }
    }
}

/// The schemas that the last commands of this process met.
#[derive(Debug)]
pub(crate) struct KnownSchemas {
    known: RwLock<HashMap<(JobType, SchemaKind), JobSchema>>,
    /// Bounds the memory and the processors that comparisons use at a time.
    pub(crate) turns: Arc<Semaphore>,
}

impl Default for KnownSchemas {
    fn default() -> KnownSchemas {
        let turns = Arc::new(Semaphore::new(limits::SCHEMA_CHECKS_AT_ONCE));
        KnownSchemas { known: RwLock::default(), turns }
    }
}

impl KnownSchemas {
    /// Whether any type has a schema for this, as far as it is known.
    pub(crate) fn has_any(&self, place: SchemaKind) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.keys().any(|(_, one)| *one == place)
    }

    pub(crate) fn get(&self, job_type: &JobType, place: SchemaKind) -> Option<JobSchema> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() { None } else { known.get(&(job_type.clone(), place)).cloned() }
    }

    fn cache(&self, job_type: &JobType, place: SchemaKind, schema: Option<&JobSchema>) {
        match (self.get(job_type, place), schema) {
            (None, None) => {}
            (Some(known), Some(schema)) if known.is_same(schema) => {}
            (_, schema) => {
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                let key = (job_type.clone(), place);
                known.remove(&key);
                if let Some(schema) = schema.filter(|_| known.len() < limits::SCHEMAS_KNOWN_MAX) {
                    known.insert(key, schema.clone());
                }
            }
        }
    }
}

/// A payload or result to compare before the transaction.
pub(crate) struct PendingCheck {
    pub(crate) job_type: JobType,
    pub(crate) place: SchemaKind,
    pub(crate) schema: JobSchema,
    /// Where the command keeps these bytes.
    pub(crate) address: usize,
    pub(crate) json: Arc<[u8]>,
}

/// The comparisons of one command.
#[derive(Debug, Default)]
pub(crate) struct SchemaChecks {
    done: HashMap<(JobType, SchemaKind), CheckResults>,
    steps: SchemaSteps,
}

/// What was compared with one schema: by the address of the bytes, which the command keeps.
#[derive(Debug)]
struct CheckResults {
    schema: JobSchema,
    verdicts: HashMap<usize, Result<(), FieldError>>,
}

impl SchemaChecks {
    /// Compares before the transaction.
    pub(crate) fn before(wanted: Vec<PendingCheck>) -> SchemaChecks {
        let mut checks = SchemaChecks::default();
        let mut steps = SchemaSteps::default();
        for PendingCheck { job_type, place, schema, address, json } in wanted {
            let verdict = schema.check_json(place.field(), &json, &mut steps);
            let done = checks.done.entry((job_type, place));
            let done = done.or_insert_with(|| CheckResults { schema, verdicts: HashMap::new() });
            done.verdicts.insert(address, verdict);
        }
        checks
    }

    /// Checks a payload in the transaction.
    pub(crate) fn payload(
        &mut self,
        known: &KnownSchemas,
        job_type: &JobType,
        settings: Option<&TypeSettings>,
        payload: &Payload,
    ) -> Result<(), FieldError> {
        let schema = SchemaKind::Payload.schema(settings);
        known.cache(job_type, SchemaKind::Payload, schema);
        let Some(schema) = schema else { return Ok(()) };
        schema.check_type(payload)?;
        self.compare(job_type, SchemaKind::Payload, schema, &payload.bytes)
    }

    /// Checks a result in the transaction.
    pub(crate) fn result(
        &mut self,
        known: &KnownSchemas,
        job_type: &JobType,
        settings: Option<&TypeSettings>,
        result: &[u8],
    ) -> Result<(), FieldError> {
        let schema = SchemaKind::Result.schema(settings);
        known.cache(job_type, SchemaKind::Result, schema);
        schema.map_or(Ok(()), |schema| self.compare(job_type, SchemaKind::Result, schema, result))
    }

    fn compare(
        &mut self,
        job_type: &JobType,
        place: SchemaKind,
        schema: &JobSchema,
        json: &[u8],
    ) -> Result<(), FieldError> {
        if let Some(done) = self.done.get_mut(&(job_type.clone(), place))
            && done.schema == *schema
        {
            // Equal at once the next time.
            done.schema = schema.clone();
            if let Some(verdict) = done.verdicts.get(&address(json)) {
                return verdict.clone();
            }
        }
        schema.check_json(place.field(), json, &mut self.steps)
    }
}

/// Where bytes are.
pub(crate) fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr().addr()
}
