//! Retry policies and time limits in the API.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use windlass_core::error::FieldError;
use windlass_core::job::{Category, JitterMode, RetryPolicy, Strategy, Timeouts};
use windlass_core::limits;
use windlass_core::skip_none;

use crate::invalid;
use crate::time::Span;

/// A retry policy: a preset's name, or values over a preset.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Retry(RetryFields);

/// The values; those not given come from the preset, or from `standard`.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RetryFields {
    /// `standard`, `fixed` or `backoff`.
    preset: Option<String>,
    /// How the delay grows with the number of failures.
    strategy: Option<Strategy>,
    /// Delay after the first failure.
    initial_delay: Option<Span>,
    /// Maximum delay.
    max_delay: Option<Span>,
    /// Factor of the exponential strategy.
    multiplier: Option<f64>,
    /// Random share of the delay, 0 to 1, by which it is shortened or lengthened.
    jitter: Option<f64>,
    /// Source of the jitter: `random`, or `hashed` from the job's id and attempt, which is reproducible.
    jitter_mode: Option<JitterMode>,
    /// Maximum number of attempts, including the first.
    max_attempts: Option<u32>,
    /// One less than `max_attempts`.
    max_retries: Option<u32>,
    /// Error categories that are retried.
    retry_on: Option<Vec<Category>>,
}

/// The presets, for the schema; the rules know what each means.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
enum RetryPreset {
    Standard,
    Fixed,
    Backoff,
}

impl Retry {
    /// The policy it describes.
    pub fn into_policy(self) -> Result<RetryPolicy, FieldError> {
        let fields = self.0;
        let base =
            fields.preset.as_deref().map_or_else(|| Ok(RetryPolicy::standard()), RetryPolicy::preset)?;
        let max_attempts = attempts(fields.max_attempts, fields.max_retries)?;
        let policy = RetryPolicy {
            strategy: fields.strategy.unwrap_or(base.strategy),
            initial_delay: fields.initial_delay.map_or(base.initial_delay, |span| span.0),
            max_delay: fields.max_delay.map_or(base.max_delay, |span| span.0),
            multiplier: fields.multiplier.unwrap_or(base.multiplier),
            jitter: fields.jitter.unwrap_or(base.jitter),
            jitter_mode: fields.jitter_mode.unwrap_or(base.jitter_mode),
            max_attempts: max_attempts.unwrap_or(base.max_attempts),
            retry_on: fields.retry_on.unwrap_or(base.retry_on),
        };
        policy.check()?;
        Ok(policy)
    }
}

impl From<&RetryPolicy> for Retry {
    fn from(policy: &RetryPolicy) -> Retry {
        Retry(RetryFields {
            preset: None,
            strategy: Some(policy.strategy),
            initial_delay: Some(Span(policy.initial_delay)),
            max_delay: Some(Span(policy.max_delay)),
            multiplier: Some(policy.multiplier),
            jitter: Some(policy.jitter),
            jitter_mode: Some(policy.jitter_mode),
            max_attempts: Some(policy.max_attempts),
            max_retries: None,
            retry_on: Some(policy.retry_on.clone()),
        })
    }
}

/// The number of attempts, from either spelling.
fn attempts(attempts: Option<u32>, retries: Option<u32>) -> Result<Option<u32>, FieldError> {
    let refused = |message: String| Err(invalid("retry.max_retries", message));
    if let Some(retries) = retries
        && retries >= limits::ATTEMPTS_MAX
    {
        return refused(format!("is {retries}, allowed is 0 to {}", limits::ATTEMPTS_MAX - 1));
    }
    match (attempts, retries) {
        (Some(attempts), Some(retries)) if attempts != retries + 1 => {
            refused(format!("is {retries}, which contradicts max_attempts {attempts}"))
        }
        (Some(attempts), _) => Ok(Some(attempts)),
        (None, retries) => Ok(retries.map(|retries| retries + 1)),
    }
}

impl<'de> Deserialize<'de> for Retry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Retry, D::Error> {
        deserializer.deserialize_any(RetryVisitor)
    }
}

struct RetryVisitor;

impl<'de> Visitor<'de> for RetryVisitor {
    type Value = Retry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a preset, or a retry policy")
    }

    fn visit_str<E: de::Error>(self, preset: &str) -> Result<Retry, E> {
        // Refused here, so that the error names this field: there is no `preset` in it.
        RetryPolicy::preset(preset).map_err(|invalid| E::custom(invalid.problem))?;
        Ok(Retry(RetryFields { preset: Some(preset.to_owned()), ..RetryFields::default() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Retry, A::Error> {
        RetryFields::deserialize(MapAccessDeserializer::new(map)).map(Retry)
    }
}

impl JsonSchema for Retry {
    fn schema_name() -> Cow<'static, str> {
        "Retry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let preset = generator.subschema_for::<RetryPreset>();
        let fields = generator.subschema_for::<RetryFields>();
        json_schema!({
            "description": "A retry policy: the name of a preset, or values over a preset.",
            "anyOf": [preset, fields],
            "examples": ["standard"],
        })
    }
}

/// The effective retry policy.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveRetry {
    /// How the delay grows with the number of failures.
    pub strategy: Strategy,
    /// Delay after the first failure.
    pub initial_delay: Span,
    /// Maximum delay.
    pub max_delay: Span,
    /// Factor of the exponential strategy.
    pub multiplier: f64,
    /// Random share of the delay, 0 to 1, by which it is shortened or lengthened.
    pub jitter: f64,
    /// Source of the jitter.
    pub jitter_mode: JitterMode,
    /// Maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// One less than `max_attempts`.
    pub max_retries: u32,
    /// Error categories that are retried.
    pub retry_on: Vec<Category>,
}

impl From<&RetryPolicy> for EffectiveRetry {
    fn from(policy: &RetryPolicy) -> EffectiveRetry {
        EffectiveRetry {
            strategy: policy.strategy,
            initial_delay: policy.initial_delay.into(),
            max_delay: policy.max_delay.into(),
            multiplier: policy.multiplier,
            jitter: policy.jitter,
            jitter_mode: policy.jitter_mode,
            max_attempts: policy.max_attempts,
            max_retries: policy.max_retries(),
            retry_on: policy.retry_on.clone(),
        }
    }
}

impl From<EffectiveRetry> for RetryPolicy {
    fn from(shown: EffectiveRetry) -> RetryPolicy {
        RetryPolicy {
            strategy: shown.strategy,
            initial_delay: shown.initial_delay.0,
            max_delay: shown.max_delay.0,
            multiplier: shown.multiplier,
            jitter: shown.jitter,
            jitter_mode: shown.jitter_mode,
            max_attempts: shown.max_attempts,
            retry_on: shown.retry_on,
        }
    }
}

/// Time limits; those not given follow the defaults.
#[skip_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Timeouts")]
#[serde(deny_unknown_fields)]
pub struct SomeTimeouts {
    /// Maximum duration of an attempt.
    pub execution: Option<Span>,
    /// How long a lease lasts without a heartbeat.
    pub lease: Option<Span>,
    /// Another name for `lease`.
    pub visibility: Option<Span>,
    /// Maximum time from submission to a final state.
    pub lifetime: Option<Span>,
    /// Maximum time from when the job can be claimed to its first start; a job that is not started in time fails.
    pub start: Option<Span>,
}

impl SomeTimeouts {
    /// The lease, under either name.
    pub fn lease(&self) -> Result<Option<Span>, FieldError> {
        match (self.lease, self.visibility) {
            (Some(lease), Some(visibility)) if lease.0 != visibility.0 => Err(two_leases(lease, visibility)),
            (lease, visibility) => Ok(lease.or(visibility)),
        }
    }
}

/// The error for different leases under both names.
pub fn two_leases(lease: Span, visibility: Span) -> FieldError {
    let message = format!(
        "is {visibility}, which contradicts timeouts.lease {lease}: they are two names for one limit"
    );
    invalid("timeouts.visibility", message)
}

/// The effective time limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveTimeouts {
    /// Maximum duration of an attempt.
    execution: Span,
    /// How long a lease lasts without a heartbeat.
    lease: Span,
    /// Maximum time from submission to a final state.
    lifetime: Span,
    /// Maximum time from when the job can be claimed to its first start; left out if there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Span>,
}

impl From<Timeouts> for EffectiveTimeouts {
    fn from(timeouts: Timeouts) -> EffectiveTimeouts {
        EffectiveTimeouts {
            execution: timeouts.execution.into(),
            lease: timeouts.lease.into(),
            lifetime: timeouts.lifetime.into(),
            start: timeouts.start.map(Span),
        }
    }
}

impl From<EffectiveTimeouts> for Timeouts {
    fn from(shown: EffectiveTimeouts) -> Timeouts {
        Timeouts {
            execution: shown.execution.0,
            lease: shown.lease.0,
            lifetime: shown.lifetime.0,
            start: shown.start.map(|span| span.0),
        }
    }
}
