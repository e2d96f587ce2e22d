//! Limits of JSON Schemas, and of tokens for pages.

use std::time::Duration;

/// Bytes of a JSON Schema: it is part of the settings, which every node keeps in memory.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Levels of a JSON Schema; validators recurse along them.
pub const SCHEMA_DEPTH_MAX: usize = 32;
/// Characters of the reason why a value does not match a schema; it may repeat parts of the value.
pub const SCHEMA_MESSAGE_CHARS_MAX: usize = 300;
/// Steps of comparing one value with a schema, each about as much as comparing one value with one subschema: some tenths
/// of a second. References between subschemas can multiply them without end.
pub const SCHEMA_STEPS_MAX: u64 = 1_000_000;
/// Steps of comparing all payloads of one command with the schemas of their types: more than a usual schema needs for the
/// largest request.
pub const SCHEMA_BATCH_STEPS_MAX: u64 = 8_000_000;
/// Commands whose payloads are compared with schemas at a time: each takes a processor and memory.
pub const SCHEMA_CHECKS_AT_ONCE: usize = 4;
/// Schemas that a process remembers to compare payloads before their transaction.
pub const SCHEMAS_KNOWN_MAX: usize = 10_000;
/// Steps up to which the first difference is looked for: the validator then collects every one, each with its place.
pub const SCHEMA_DIFFERENCE_STEPS_MAX: u64 = 10_000;
/// Levels of comparing a value with a schema, along references and into the value: each is a frame of the stack.
pub const SCHEMA_LEVELS_MAX: usize = 256;
/// Levels up to which a value is compared on the stack of the caller.
pub const SCHEMA_LEVELS_HERE: usize = 32;
/// Bytes of the stack for more levels: a level takes up to 10 KiB in a build without optimisation.
pub const SCHEMA_STACK_BYTES: usize = SCHEMA_LEVELS_MAX * (32 << 10);
/// Bytes of a pattern in a schema: translating it takes time that grows with their square.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 1024;
/// Bytes of the compiled form of one pattern.
pub const SCHEMA_PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
/// States of all patterns of a schema together: they stay in memory as long as the schema.
pub const SCHEMA_PATTERN_STATES_MAX: u64 = 20_000;
/// How long a token for one job may be valid: it is in pages, where it cannot be revoked by itself.
pub const JOB_TOKEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);
