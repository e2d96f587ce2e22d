//! JSON Schemas of payloads and results. A schema is bounded, refers to nothing outside itself, and is compiled once for
//! as long as the settings that hold it are in use. So is the work of comparing a value with it.

mod graph;
mod pattern;
mod steps;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread;

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::graph::Graph;
use self::steps::{TooMuch, Work};
use crate::error::{FieldError, FieldProblem};
use crate::job::Payload;
use crate::limits;

/// The address of the schema itself, which its own references are relative to.
const ADDRESS: &str = "windlass:schema";
/// The address of its opposite.
const OPPOSITE: &str = "windlass:opposite";

/// A JSON Schema; equal to another of the same JSON.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub struct JobSchema {
    json: Arc<Value>,
    /// Compiled, or the reason why it cannot be.
    compiled: Arc<OnceLock<Result<CompiledSchema, String>>>,
}

struct CompiledSchema {
    schemas: Schemas,
    root: SchemaIndex,
    /// Matches what the schema does not match. It is decided without collecting every difference.
    opposite: SchemaIndex,
    graph: Graph,
}

/// The work that may still be done for one command: a batch compares many payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaSteps(u64);

impl Default for SchemaSteps {
    fn default() -> SchemaSteps {
        SchemaSteps(limits::SCHEMA_BATCH_STEPS_MAX)
    }
}

impl JobSchema {
    /// The schema as JSON.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Checks that it is a JSON Schema within the limits.
    ///
    /// # Errors
    /// [`FieldError`] with the field of this name.
    pub fn check(&self, field: &str) -> Result<(), FieldError> {
        let length = self.json.to_string().len();
        if length > limits::SCHEMA_BYTES_MAX {
            let limit = limits::SCHEMA_BYTES_MAX;
            return Err(FieldError::new(field, FieldProblem::TooManyBytes { length, limit }));
        }
        let depth = depth(&self.json, limits::SCHEMA_DEPTH_MAX);
        let refused = |message: String| FieldError::new(field, FieldProblem::Contradiction(message));
        if depth > limits::SCHEMA_DEPTH_MAX {
            return Err(refused(format!("is nested more than {} levels deep", limits::SCHEMA_DEPTH_MAX)));
        }
        let compiled = self.compiled().as_ref();
        compiled.map(drop).map_err(|problem| refused(format!("is not accepted as a JSON Schema: {problem}")))
    }

    fn compiled(&self) -> &Result<CompiledSchema, String> {
        self.compiled.get_or_init(|| CompiledSchema::new(&self.json))
    }

    /// Whether it is a clone of the other one.
    pub fn is_same(&self, other: &JobSchema) -> bool {
        Arc::ptr_eq(&self.json, &other.json)
    }

    /// Checks that a payload is JSON.
    ///
    /// # Errors
    /// [`FieldError`] with the payload.
    #[allow(clippy::unused_self, reason = "only payloads of types with a schema must be JSON")]
    pub fn check_type(&self, payload: &Payload) -> Result<(), FieldError> {
        if *payload.content_type != *Payload::JSON {
            let message = "must be JSON: its type has a schema".to_owned();
            return Err(FieldError::new("payload", FieldProblem::Contradiction(message)));
        }
        Ok(())
    }

    /// Checks JSON text; empty text is null.
    ///
    /// # Errors
    /// [`FieldError`] with the first place below `field` that does not match.
    pub fn check_json(&self, field: &str, json: &[u8], steps: &mut SchemaSteps) -> Result<(), FieldError> {
        let json = if json.is_empty() { b"null" } else { json };
        let refused = |message: String| FieldError::new(field, FieldProblem::Contradiction(message));
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| refused(format!("cannot be read as JSON: {error}")))?;
        // It was compiled when it was set; one that an older build cannot compile checks nothing.
        let Ok(compiled) = self.compiled() else { return Ok(()) };
        let max = limits::SCHEMA_STEPS_MAX.min(steps.0);
        let taken = compiled.graph.work(&value, max).map_err(|problem| refused(too_much(problem, *steps)))?;
        steps.0 -= taken.steps;
        compiled.compare_within(&value, taken).map_err(|difference| match difference {
            Some((path, message)) => {
                let message = format!("does not match the schema of its type: {message}");
                FieldError::new(format!("{field}{path}"), FieldProblem::Contradiction(message))
            }
            None => refused("does not match the schema of its type".to_owned()),
        })
    }
}

fn too_much(problem: TooMuch, left: SchemaSteps) -> String {
    match problem {
        TooMuch::Steps if left.0 < limits::SCHEMA_STEPS_MAX => {
            let limit = limits::SCHEMA_BATCH_STEPS_MAX;
            format!(
                "exceeds, together with the jobs before it, {limit} comparisons with schemas: split the batch"
            )
        }
        TooMuch::Steps => {
            format!("needs more than {} comparisons with the schema of its type", limits::SCHEMA_STEPS_MAX)
        }
        TooMuch::Levels => {
            let limit = limits::SCHEMA_LEVELS_MAX;
            format!("together with the schema of its type is nested more than {limit} levels deep")
        }
    }
}

impl CompiledSchema {
    fn new(json: &Value) -> Result<CompiledSchema, String> {
        let graph = Graph::from_schema(json)?;
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.use_loader(Box::new(NoExternalSchemas));
        let opposite = json!({"not": {"$ref": ADDRESS}});
        for (address, json) in [(ADDRESS, json.clone()), (OPPOSITE, opposite)] {
            compiler.add_resource(address, json).map_err(|error| error.to_string())?;
        }
        let root = compiler.compile(ADDRESS, &mut schemas).map_err(|error| format!("{error:#}"))?;
        let opposite = compiler.compile(OPPOSITE, &mut schemas).map_err(|error| format!("{error:#}"))?;
        Ok(CompiledSchema { schemas, root, opposite, graph })
    }

    /// Like [`compare`](CompiledSchema::compare), with room on the stack for every level.
    fn compare_within(&self, value: &Value, work: Work) -> Result<(), Option<(String, String)>> {
        if work.levels <= limits::SCHEMA_LEVELS_HERE {
            return self.compare(value, work.steps);
        }
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("windlass-schema".to_owned());
            let room = builder.stack_size(limits::SCHEMA_STACK_BYTES);
            let started = room.spawn_scoped(scope, || self.compare(value, work.steps));
            let no_room = |_| Some((String::new(), "there is no memory to compare it".to_owned()));
            started.map_err(no_room)?.join().unwrap_or(Err(None))
        })
    }

    /// Compares a value; the error is the first difference, unless finding it is too much work.
    fn compare(&self, value: &Value, steps: u64) -> Result<(), Option<(String, String)>> {
        if self.schemas.validate(value, self.opposite).is_err() {
            return Ok(());
        }
        if steps > limits::SCHEMA_DIFFERENCE_STEPS_MAX {
            return Err(None);
        }
        self.schemas.validate(value, self.root).map_err(|error| Some(difference(&error)))
    }
}

/// The first place that does not match, and why.
fn difference(error: &ValidationError<'_, '_>) -> (String, String) {
    let mut leaf = error;
    while let Some(cause) = leaf.causes.first() {
        leaf = cause;
    }
    let short = |text: String| text.chars().take(limits::SCHEMA_MESSAGE_CHARS_MAX).collect::<String>();
    let path = leaf.instance_location.to_string().replace('/', ".");
    (short(path), short(leaf.kind.to_string()))
}

/// How deeply a value is nested; at most one more than `max`.
fn depth(value: &Value, max: usize) -> usize {
    let mut level = vec![value];
    for depth in 0..=max {
        let mut next = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => next.extend(items),
                Value::Object(fields) => next.extend(fields.values()),
                _ => {}
            }
        }
        if next.is_empty() {
            return depth;
        }
        level = next;
    }
    max + 1
}

/// Loads nothing: what a payload must look like is not decided by another server or a file.
struct NoExternalSchemas;

impl UrlLoader for NoExternalSchemas {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside of the schema").into())
    }
}

impl From<Value> for JobSchema {
    fn from(json: Value) -> JobSchema {
        JobSchema { json: Arc::new(json), compiled: Arc::default() }
    }
}

impl From<JobSchema> for Value {
    fn from(schema: JobSchema) -> Value {
        Arc::unwrap_or_clone(schema.json)
    }
}

impl PartialEq for JobSchema {
    fn eq(&self, other: &JobSchema) -> bool {
        self.is_same(other) || self.json == other.json
    }
}

impl Eq for JobSchema {}

impl fmt::Debug for JobSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobSchema({})", self.json)
    }
}

#[cfg(test)]
mod tests;
