//! Submitted data: [`NewJob`] as input, [`Spec`], [`JobMetadata`] and rare options in [`RareFields`] as stored. Submitted
//! values are validated against their limits once, here.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    ErrorRecord, JobId, JobType, Payload, Priority, Progress, QueueName, RetryPolicy, StreamTotals,
    Suspension, Tenant, Timeouts, Wait, WorkerVersion,
};
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem};
use crate::key::KeyId;
use crate::limits;
use crate::skip_none;
use crate::ticket::Ticket;
use crate::webhook_url::TargetPolicy;

/// Data that a client may change until the job is final.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobMetadata {
    /// Tags to find jobs by.
    pub tags: BTreeMap<String, String>,
    /// The caller's own id for what the job belongs to.
    pub correlation_id: Option<String>,
    /// URL that receives a callback when the job finishes.
    pub callback_url: Option<String>,
}

/// The submitted data, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The payload.
    pub payload: Payload,
    /// Idempotency key: the same key returns the same job.
    pub idempotency_key: Option<String>,
    /// Unique key: only one unfinished job can hold it.
    pub unique_key: Option<String>,
    /// Concurrency key: limits how many jobs with it run at once.
    pub concurrency_key: Option<String>,
    /// The data that may be changed later.
    pub metadata: JobMetadata,
    /// The caller that submitted it.
    pub owner: String,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// W3C `tracestate` of the same trace.
    pub tracestate: Option<String>,
    /// W3C `baggage`: data of the application for everything that the submission causes.
    pub baggage: Option<String>,
    /// Jobs that must complete first.
    pub after: Vec<JobId>,
    /// Jobs of which one must finish first.
    pub after_any: Vec<JobId>,
}

impl Spec {
    /// A placeholder for a deleted job, of which nothing is known.
    pub fn unknown() -> Spec {
        Spec {
            payload: Payload::json("null"),
            idempotency_key: None,
            unique_key: None,
            concurrency_key: None,
            metadata: JobMetadata::default(),
            owner: String::new(),
            traceparent: None,
            tracestate: None,
            baggage: None,
            after: Vec::new(),
            after_any: Vec::new(),
        }
    }
}

/// A job that another one depends on: by id, or by its name within the batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dependency {
    /// An existing job.
    Job(JobId),
    /// A job of the same batch, by its local name.
    Named(String),
}

/// Debouncing: while a job with this key has not started, a later submission with the same key replaces its payload and
/// delay instead of adding a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debounce {
    /// Identifies submissions that replace each other, within one tenant and type.
    pub key: String,
    /// How long to wait for another submission.
    pub delay: Duration,
}

/// A job to be submitted. Unset options follow type, queue and store, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// The job type; selects the handler.
    pub job_type: JobType,
    /// The payload.
    pub payload: Payload,
    /// The queue.
    pub queue: QueueName,
    /// The version of the workers that may receive it; any version if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_version: Option<WorkerVersion>,
    /// The priority.
    pub priority: Option<Priority>,
    /// Delay before the job can run.
    pub delay: Option<Duration>,
    /// Earliest start.
    pub run_at: Option<Timestamp>,
    /// Whether the job stays `created` until it is submitted explicitly.
    pub hold: bool,
    /// Idempotency key: the same key returns the same job.
    pub idempotency_key: Option<String>,
    /// How long the idempotency key is remembered.
    pub idempotency_window: Option<Duration>,
    /// Unique key: only one unfinished job can hold it.
    pub unique_key: Option<String>,
    /// Concurrency key: limits how many jobs with it run at once.
    pub concurrency_key: Option<String>,
    /// Whether later submissions replace this one until it starts.
    pub debounce: Option<Debounce>,
    /// When and how often to retry.
    pub retry: Option<RetryPolicy>,
    /// Longest duration of one attempt.
    pub execution_timeout: Option<Duration>,
    /// How long a lease lasts without a heartbeat.
    pub lease_timeout: Option<Duration>,
    /// Longest time from submission to a final state.
    pub lifetime: Option<Duration>,
    /// Longest time from when the job becomes ready to its first start.
    #[serde(default)]
    pub start_timeout: Option<Duration>,
    /// Jobs that must complete first.
    pub after: Vec<Dependency>,
    /// Jobs of which one must finish first.
    pub after_any: Vec<Dependency>,
    /// Local name, for dependencies within the same batch.
    pub name: Option<String>,
    /// Tags, correlation id and callback URL. Stored schedules have it under its former name, which other versions read.
    #[serde(rename = "labels")]
    pub metadata: JobMetadata,
    /// The tenant; the caller's own tenant unless set.
    pub tenant: Option<Tenant>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// W3C `tracestate` of the same trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// W3C `baggage`: data of the application for everything that the submission causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
}

/// Fields that few jobs have, stored outside the hot record. Beside [`NewJob`], whose rare options it stores.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RareFields {
    /// Created on hold: stays `created` until it is submitted, also across a suspension.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_held: bool,
    /// What it is parked on.
    pub wait: Option<Wait>,
    /// The active suspension.
    pub suspension: Option<Suspension>,
    /// A graceful suspension that takes effect when the running attempt ends.
    pub suspend_requested: Option<Suspension>,
    /// The latest error; cleared on success.
    pub error: Option<ErrorRecord>,
    /// Proof that the job is the one that was submitted, where tickets are required.
    pub ticket: Option<Box<Ticket>>,
    /// The API key that submitted it, if any.
    pub owner_key: Option<KeyId>,
    /// Its progress.
    pub progress: Option<Progress>,
    /// The final job that this one retries.
    pub retry_of: Option<JobId>,
    /// The latest job that retries this one.
    pub superseded_by: Option<JobId>,
    /// When it was last suspended.
    pub suspended_at: Option<Timestamp>,
    /// Who suspended it last.
    pub suspended_by: Option<String>,
    /// When it was last resumed.
    pub resumed_at: Option<Timestamp>,
    /// When its priority was last changed.
    pub priority_updated_at: Option<Timestamp>,
    /// Number of log lines ever written; also the number of the last one.
    #[serde(skip_serializing_if = "is_zero")]
    pub log_lines: u64,
    /// Number of signals ever received; also the number of the last one.
    #[serde(skip_serializing_if = "is_zero")]
    pub signals: u64,
    /// Number of saved checkpoints.
    #[serde(skip_serializing_if = "is_zero")]
    pub checkpoints: u64,
    /// Total bytes of checkpoint values.
    #[serde(skip_serializing_if = "is_zero")]
    pub checkpoint_bytes: u64,
    /// Number of child groups; also the number of the last one.
    #[serde(skip_serializing_if = "is_zero")]
    pub groups: u64,
    /// What its attempts have streamed, if anything.
    pub stream: Option<StreamTotals>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl NewJob {
    /// A job of this type with this payload and default options.
    pub fn new(job_type: JobType, payload: Payload) -> NewJob {
        NewJob {
            job_type,
            payload,
            queue: QueueName::default(),
            requires_version: None,
            priority: None,
            delay: None,
            run_at: None,
            hold: false,
            idempotency_key: None,
            idempotency_window: None,
            unique_key: None,
            concurrency_key: None,
            debounce: None,
            retry: None,
            execution_timeout: None,
            lease_timeout: None,
            lifetime: None,
            start_timeout: None,
            after: Vec::new(),
            after_any: Vec::new(),
            name: None,
            metadata: JobMetadata::default(),
            tenant: None,
            traceparent: None,
            tracestate: None,
            baggage: None,
        }
    }

    /// The submitted data, as stored. `after` and `after_any` are the ids of the dependencies.
    pub fn spec(&self, owner: String, after: Vec<JobId>, after_any: Vec<JobId>) -> Spec {
        let not_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Spec {
            payload: self.payload.clone(),
            idempotency_key: self.idempotency_key.clone(),
            unique_key: self.unique_key.clone(),
            concurrency_key: self.concurrency_key.clone(),
            metadata: self.metadata.clone(),
            owner,
            traceparent: not_empty(&self.traceparent),
            tracestate: not_empty(&self.tracestate),
            baggage: not_empty(&self.baggage),
            after,
            after_any,
        }
    }

    /// The options that few submissions set, as stored; `None` if it sets none of them.
    pub fn rare_fields(&self) -> Option<RareFields> {
        self.hold.then(|| RareFields { is_held: self.hold, ..RareFields::default() })
    }

    /// Checks every value against its limits, except for the payload's size.
    pub fn check(&self) -> Result<(), FieldError> {
        self.payload.check()?;
        check_text("idempotency_key", self.idempotency_key.as_deref(), limits::KEY_CHARS_MAX)?;
        check_text("unique_key", self.unique_key.as_deref(), limits::KEY_CHARS_MAX)?;
        check_text("concurrency_key", self.concurrency_key.as_deref(), limits::KEY_CHARS_MAX)?;
        check_text("name", self.name.as_deref(), limits::NAME_CHARS_MAX)?;
        check_header("traceparent", self.traceparent.as_deref(), limits::CORRELATION_CHARS_MAX)?;
        check_header("tracestate", self.tracestate.as_deref(), limits::TRACESTATE_CHARS_MAX)?;
        check_header("baggage", self.baggage.as_deref(), limits::BAGGAGE_CHARS_MAX)?;
        check_duration("delay", self.delay)?;
        check_duration("idempotency_window", self.idempotency_window)?;
        if self.delay.is_some() && self.run_at.is_some() {
            let problem = FieldProblem::Contradiction("use `delay` or `run_at`, not both".into());
            return Err(FieldError::new("run_at", problem));
        }
        if let Some(debounce) = &self.debounce {
            if debounce.key.is_empty() {
                return Err(FieldError::new("debounce.key", FieldProblem::Missing));
            }
            check_text("debounce.key", Some(&debounce.key), limits::KEY_CHARS_MAX)?;
            check_duration("debounce.delay", Some(debounce.delay))?;
            if self.delay.is_some() || self.run_at.is_some() {
                let problem = FieldProblem::Contradiction("use `debounce`, or `delay` or `run_at`".into());
                return Err(FieldError::new("debounce", problem));
            }
        }
        let dependencies = self.after.len() + self.after_any.len();
        if dependencies > limits::DEPENDENCIES_MAX {
            let problem = FieldProblem::TooLong { length: dependencies, limit: limits::DEPENDENCIES_MAX };
            return Err(FieldError::new("after", problem));
        }
        if let Some(retry) = &self.retry {
            retry.check()?;
        }
        self.timeouts_over(Timeouts::default()).check()?;
        self.metadata.check()
    }

    /// Earliest start if the job is submitted now.
    pub fn runs_at(&self, now: Timestamp) -> Timestamp {
        let delay = self.delay.or(self.debounce.as_ref().map(|debounce| debounce.delay));
        self.run_at.unwrap_or_else(|| delay.map_or(now, |delay| now.plus(delay)))
    }

    /// `base`, overridden by this job's own time limits.
    pub fn timeouts_over(&self, base: Timeouts) -> Timeouts {
        Timeouts {
            execution: self.execution_timeout.unwrap_or(base.execution),
            lease: self.lease_timeout.unwrap_or(base.lease),
            lifetime: self.lifetime.unwrap_or(base.lifetime),
            start: self.start_timeout.or(base.start),
        }
    }
}

impl JobMetadata {
    /// Checks every value against its limits.
    pub fn check(&self) -> Result<(), FieldError> {
        if self.tags.len() > limits::TAGS_MAX {
            let problem = FieldProblem::TooLong { length: self.tags.len(), limit: limits::TAGS_MAX };
            return Err(FieldError::new("tags", problem));
        }
        for (name, value) in &self.tags {
            if name.is_empty() {
                return Err(FieldError::new("tags", FieldProblem::Missing));
            }
            check_text("tags", Some(name), limits::TAG_NAME_CHARS_MAX)?;
            check_text(&format!("tags.{name}"), Some(value), limits::TAG_VALUE_CHARS_MAX)?;
        }
        check_text("correlation_id", self.correlation_id.as_deref(), limits::CORRELATION_CHARS_MAX)?;
        check_text("callback_url", self.callback_url.as_deref(), limits::CALLBACK_URL_CHARS_MAX)
    }

    /// Checks the callback URL as far as possible without resolving it: form, scheme, port, and literal addresses
    /// that are not public. Host names are resolved at delivery.
    pub fn check_callback(&self, targets: &TargetPolicy) -> Result<(), FieldError> {
        let Some(url) = &self.callback_url else { return Ok(()) };
        let checked = targets.check(url);
        checked.map(drop).map_err(|error| FieldError::new("callback_url", error.into()))
    }
}

/// Checks that a text has at most `limit` characters and no NUL, which not every database can store.
pub fn check_text(field: &str, text: Option<&str>, limit: usize) -> Result<(), FieldError> {
    let Some(text) = text else { return Ok(()) };
    let length = if text.len() <= limit { text.len() } else { text.chars().count() };
    if length > limit {
        return Err(FieldError::new(field, FieldProblem::TooLong { length, limit }));
    }
    if text.contains('\0') {
        return Err(FieldError::new(field, FieldProblem::Contradiction("contains a NUL character".into())));
    }
    Ok(())
}

/// Checks a text that is sent as a header.
fn check_header(field: &str, text: Option<&str>, limit: usize) -> Result<(), FieldError> {
    check_text(field, text, limit)?;
    if text.is_some_and(|text| text.chars().any(char::is_control)) {
        let problem = FieldProblem::Contradiction("contains a control character".into());
        return Err(FieldError::new(field, problem));
    }
    Ok(())
}

fn check_duration(field: &str, duration: Option<Duration>) -> Result<(), FieldError> {
    match duration {
        Some(value) if value > limits::DURATION_MAX => {
            let (value, min) = (format!("{value:?}"), "0s".into());
            Err(FieldError::new(field, FieldProblem::OutOfRange { value, min, max: "100 years".into() }))
        }
        _ => Ok(()),
    }
}
