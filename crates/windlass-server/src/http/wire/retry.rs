//! Retry policies and time limits in the API.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use windlass::job::{Category, JitterMode, RetryPolicy, Strategy, Timeouts};
use windlass::limits;

use super::time::Span;
use crate::http::reply::error::ApiError;

/// A retry policy: a preset's name, or values over a preset.
#[derive(Debug)]
pub(crate) struct Retry(RetryFields);

/// The values; those not given come from the preset, or from `standard`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RetryFields {
    /// `standard`, `fixed` or `backoff`.
    preset: Option<String>,
    /// How the delay grows with the number of failures.
    strategy: Option<BackoffInput>,
    /// Delay after the first failure.
    initial_delay: Option<Span>,
    /// Maximum delay.
    max_delay: Option<Span>,
    /// Factor of the exponential strategy.
    multiplier: Option<f64>,
    /// Random share of the delay, 0 to 1, by which it is shortened or lengthened.
    jitter: Option<f64>,
    /// Source of the jitter: `random`, or `hashed` from the job's id and attempt, which is reproducible.
    jitter_mode: Option<Jitter>,
    /// Maximum number of attempts, including the first.
    max_attempts: Option<u32>,
    /// One less than `max_attempts`.
    max_retries: Option<u32>,
    /// Error categories that are retried.
    retry_on: Option<Vec<Kind>>,
}

/// How delays grow.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BackoffInput {
    Constant,
    Linear,
    Exponential,
    Custom,
}

/// Source of the jitter.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Jitter {
    Random,
    Hashed,
}

impl From<Jitter> for JitterMode {
    fn from(word: Jitter) -> JitterMode {
        match word {
            Jitter::Random => JitterMode::Random,
            Jitter::Hashed => JitterMode::Hashed,
        }
    }
}

impl From<JitterMode> for Jitter {
    fn from(mode: JitterMode) -> Jitter {
        match mode {
            JitterMode::Random => Jitter::Random,
            JitterMode::Hashed => Jitter::Hashed,
        }
    }
}

/// The category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Temporary,
    Permanent,
    Timeout,
    Cancelled,
    System,
    Resource,
}

impl From<BackoffInput> for Strategy {
    fn from(growth: BackoffInput) -> Strategy {
        match growth {
            BackoffInput::Constant => Strategy::Constant,
            BackoffInput::Linear => Strategy::Linear,
            BackoffInput::Exponential => Strategy::Exponential,
            BackoffInput::Custom => Strategy::Custom,
        }
    }
}

impl From<Strategy> for BackoffInput {
    fn from(strategy: Strategy) -> BackoffInput {
        match strategy {
            Strategy::Constant => BackoffInput::Constant,
            Strategy::Linear => BackoffInput::Linear,
            Strategy::Exponential => BackoffInput::Exponential,
            Strategy::Custom => BackoffInput::Custom,
        }
    }
}

impl From<Kind> for Category {
    fn from(kind: Kind) -> Category {
        match kind {
            Kind::Temporary => Category::Temporary,
            Kind::Permanent => Category::Permanent,
            Kind::Timeout => Category::Timeout,
            Kind::Cancelled => Category::Cancelled,
            Kind::System => Category::System,
            Kind::Resource => Category::Resource,
        }
    }
}

impl From<Category> for Kind {
    fn from(category: Category) -> Kind {
        match category {
            Category::Temporary => Kind::Temporary,
            Category::Permanent => Kind::Permanent,
            Category::Timeout => Kind::Timeout,
            Category::Cancelled => Kind::Cancelled,
            Category::System => Kind::System,
            Category::Resource => Kind::Resource,
        }
    }
}

impl Retry {
    /// The policy it describes.
    pub(crate) fn into_policy(self) -> Result<RetryPolicy, ApiError> {
        let fields = self.0;
        let base =
            fields.preset.as_deref().map_or_else(|| Ok(RetryPolicy::standard()), RetryPolicy::preset)?;
        let max_attempts = attempts(fields.max_attempts, fields.max_retries)?;
        let policy = RetryPolicy {
            strategy: fields.strategy.map_or(base.strategy, Strategy::from),
            initial_delay: fields.initial_delay.map_or(base.initial_delay, |span| span.0),
            max_delay: fields.max_delay.map_or(base.max_delay, |span| span.0),
            multiplier: fields.multiplier.unwrap_or(base.multiplier),
            jitter: fields.jitter.unwrap_or(base.jitter),
            jitter_mode: fields.jitter_mode.map_or(base.jitter_mode, JitterMode::from),
            max_attempts: max_attempts.unwrap_or(base.max_attempts),
            retry_on: fields
                .retry_on
                .map_or(base.retry_on, |kinds| kinds.into_iter().map(Category::from).collect()),
        };
        policy.check()?;
        Ok(policy)
    }
}

/// The number of attempts, from either spelling.
fn attempts(attempts: Option<u32>, retries: Option<u32>) -> Result<Option<u32>, ApiError> {
    let refused = |message: String| Err(ApiError::invalid("retry.max_retries", message));
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
        let fields = generator.subschema_for::<RetryFields>();
        json_schema!({"anyOf": [{"type": "string", "enum": ["standard", "fixed", "backoff"]}, fields]})
    }
}

/// The effective retry policy.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EffectiveRetry {
    strategy: BackoffInput,
    initial_delay: Span,
    max_delay: Span,
    multiplier: f64,
    jitter: f64,
    jitter_mode: Jitter,
    max_attempts: u32,
    max_retries: u32,
    retry_on: Vec<Kind>,
}

impl From<&RetryPolicy> for EffectiveRetry {
    fn from(policy: &RetryPolicy) -> EffectiveRetry {
        EffectiveRetry {
            strategy: policy.strategy.into(),
            initial_delay: policy.initial_delay.into(),
            max_delay: policy.max_delay.into(),
            multiplier: policy.multiplier,
            jitter: policy.jitter,
            jitter_mode: policy.jitter_mode.into(),
            max_attempts: policy.max_attempts,
            max_retries: policy.max_retries(),
            retry_on: policy.retry_on.iter().copied().map(Kind::from).collect(),
        }
    }
}

/// Time limits; those not given follow the defaults.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SomeTimeouts {
    /// Maximum duration of an attempt.
    pub(crate) execution: Option<Span>,
    /// How long a lease lasts without a heartbeat.
    pub(crate) lease: Option<Span>,
    /// Another name for `lease`.
    visibility: Option<Span>,
    /// Maximum time from submission to a final state.
    pub(crate) lifetime: Option<Span>,
    /// Maximum time from when the job can be claimed to its first start; a job that is not started in time fails.
    pub(crate) start: Option<Span>,
}

impl SomeTimeouts {
    /// The lease, under either name.
    pub(crate) fn lease(&self) -> Result<Option<Span>, ApiError> {
        match (self.lease, self.visibility) {
            (Some(lease), Some(visibility)) if lease.0 != visibility.0 => Err(two_leases(lease, visibility)),
            (lease, visibility) => Ok(lease.or(visibility)),
        }
    }
}

/// The error for different leases under both names.
pub(crate) fn two_leases(lease: Span, visibility: Span) -> ApiError {
    let message = format!(
        "is {visibility}, which contradicts timeouts.lease {lease}: they are two names for one limit"
    );
    ApiError::invalid("timeouts.visibility", message)
}

/// The effective time limits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EffectiveTimeouts {
    execution: Span,
    lease: Span,
    lifetime: Span,
    /// Left out if there is no limit.
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
