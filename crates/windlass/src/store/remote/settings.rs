//! Settings of queues, types and tenants, in the format of the API.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_api::retry::{EffectiveRetry, Retry};
use windlass_api::time::Span;

use crate::audit::AuditLevel;
use crate::job::{Priority, RetryPolicy};
use crate::store::documents::settings::patch::{
    Field, QueuePatch, RetentionPatch, TenantPatch, TimeoutsPatch, TypePatch,
};
use crate::store::documents::settings::{
    BudgetPeriod, FairBy, PartialTimeouts, Push, QueueSettings, Rate, Retention, TenantSettings, TypeSettings,
};

/// A change as it is sent: fields that stay are left out, cleared ones are null.
#[derive(Default)]
struct Change(Map<String, Value>);

impl Change {
    fn field<T>(mut self, name: &str, field: &Field<T>, write: impl FnOnce(&T) -> Value) -> Change {
        match field {
            Field::Keep => {}
            Field::Clear => drop(self.0.insert(name.to_owned(), Value::Null)),
            Field::Set(value) => drop(self.0.insert(name.to_owned(), write(value))),
        }
        self
    }

    fn plain<T: Serialize>(self, name: &str, field: &Field<T>) -> Change {
        self.field(name, field, |value| json!(value))
    }

    fn rate(self, name: &str, field: &Field<Rate>) -> Change {
        self.field(name, field, |rate| json!({"count": rate.count, "per": Span(rate.per)}))
    }

    fn retry(self, field: &Field<RetryPolicy>) -> Change {
        self.field("retry", field, |policy| json!(Retry::from(policy)))
    }

    fn timeouts(self, field: &Field<TimeoutsPatch>) -> Change {
        self.field("timeouts", field, |patch| {
            let change = Change::default()
                .field("execution", &patch.execution, |limit| json!(Span(*limit)))
                .field("lease", &patch.lease, |limit| json!(Span(*limit)))
                .field("lifetime", &patch.lifetime, |limit| json!(Span(*limit)))
                .field("start", &patch.start, |limit| json!(Span(*limit)))
                .field("max_execution", &patch.max_execution, |limit| json!(Span(*limit)));
            Value::Object(change.0)
        })
    }

    fn retention(self, field: &Field<RetentionPatch>) -> Change {
        self.field("retention", field, |patch| {
            let change = Change::default()
                .field("completed", &patch.completed, |time| json!(Span(*time)))
                .field("failed", &patch.failed, |time| json!(Span(*time)))
                .field("dead_letter", &patch.dead_letter, |time| json!(Span(*time)))
                .field("cancelled", &patch.cancelled, |time| json!(Span(*time)));
            Value::Object(change.0)
        })
    }
}

/// A change to a queue.
pub(super) fn queue(patch: &QueuePatch) -> Value {
    let change = Change::default()
        .plain("max_running", &patch.max_running)
        .plain("max_running_per_key", &patch.max_running_per_key)
        .rate("rate", &patch.rate)
        .rate("rate_per_key", &patch.rate_per_key)
        .plain("max_depth", &patch.max_depth)
        .plain("fair_by", &patch.fair_by)
        .field("aging", &patch.aging, |aging| json!(Span(*aging)))
        .plain("audit", &patch.audit)
        .retry(&patch.retry)
        .timeouts(&patch.timeouts)
        .plain("priority", &patch.priority)
        .field("push", &patch.push, |push| {
            json!({"url": push.url, "concurrency": push.concurrency, "timeout": push.timeout.map(Span)})
        })
        .retention(&patch.retention);
    Value::Object(change.0)
}

/// A change to a type.
pub(super) fn job_type(patch: &TypePatch) -> Value {
    let change = Change::default()
        .plain("max_running", &patch.max_running)
        .rate("rate", &patch.rate)
        .retry(&patch.retry)
        .timeouts(&patch.timeouts)
        .plain("priority", &patch.priority)
        .plain("success_event", &patch.success_event)
        .plain("exhausted_event", &patch.exhausted_event)
        .retention(&patch.retention);
    Value::Object(change.0)
}

/// A change to a tenant.
pub(super) fn tenant(patch: &TenantPatch) -> Value {
    let change = Change::default()
        .plain("max_running", &patch.max_running)
        .plain("max_depth", &patch.max_depth)
        .plain("weight", &patch.weight)
        .plain("budget_cents", &patch.budget_cents)
        .plain("budget_period", &patch.budget_period)
        .plain("max_queues", &patch.max_queues)
        .plain("max_types", &patch.max_types)
        .plain("max_lanes", &patch.max_lanes)
        .plain("max_concurrency_keys", &patch.max_concurrency_keys);
    Value::Object(change.0)
}

/// Settings of any kind as sent by the server.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ShownSettings {
    max_running: Option<u64>,
    max_running_per_key: Option<u64>,
    rate: Option<ShownRate>,
    rate_per_key: Option<ShownRate>,
    max_depth: Option<u64>,
    fair_by: Option<FairBy>,
    aging: Option<Span>,
    audit: Option<AuditLevel>,
    retry: Option<EffectiveRetry>,
    timeouts: ShownLimits,
    priority: Option<Priority>,
    push: Option<ShownPush>,
    retention: ShownRetention,
    success_event: Option<String>,
    exhausted_event: Option<String>,
    weight: Option<u32>,
    budget_cents: Option<u64>,
    budget_period: Option<BudgetPeriod>,
    max_queues: Option<u64>,
    max_types: Option<u64>,
    max_lanes: Option<u64>,
    max_concurrency_keys: Option<u64>,
    /// Whether the change had an effect.
    pub(super) changed: bool,
}

#[derive(Deserialize)]
struct ShownPush {
    url: String,
    concurrency: u32,
    timeout: Option<Span>,
}

impl From<ShownPush> for Push {
    fn from(shown: ShownPush) -> Push {
        let ShownPush { url, concurrency, timeout } = shown;
        Push { url, concurrency, timeout: timeout.map(|span| span.0) }
    }
}

#[derive(Deserialize)]
struct ShownRate {
    count: u64,
    per: Span,
}

impl From<ShownRate> for Rate {
    fn from(shown: ShownRate) -> Rate {
        Rate::new(shown.count, shown.per.0)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ShownLimits {
    execution: Option<Span>,
    lease: Option<Span>,
    lifetime: Option<Span>,
    start: Option<Span>,
    max_execution: Option<Span>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ShownRetention {
    completed: Option<Span>,
    failed: Option<Span>,
    dead_letter: Option<Span>,
    cancelled: Option<Span>,
}

impl From<ShownRetention> for Retention {
    fn from(shown: ShownRetention) -> Retention {
        let time = |span: Option<Span>| span.map(|span| span.0);
        Retention {
            completed: time(shown.completed),
            failed: time(shown.failed),
            dead_letter: time(shown.dead_letter),
            cancelled: time(shown.cancelled),
        }
    }
}

impl From<ShownLimits> for PartialTimeouts {
    fn from(shown: ShownLimits) -> PartialTimeouts {
        PartialTimeouts {
            execution: shown.execution.map(|span| span.0),
            lease: shown.lease.map(|span| span.0),
            lifetime: shown.lifetime.map(|span| span.0),
            start: shown.start.map(|span| span.0),
            max_execution: shown.max_execution.map(|span| span.0),
        }
    }
}

impl From<ShownSettings> for QueueSettings {
    fn from(shown: ShownSettings) -> QueueSettings {
        QueueSettings {
            max_running: shown.max_running,
            max_running_per_key: shown.max_running_per_key,
            rate: shown.rate.map(Rate::from),
            rate_per_key: shown.rate_per_key.map(Rate::from),
            max_depth: shown.max_depth,
            fair_by: shown.fair_by,
            aging: shown.aging.map(|span| span.0),
            audit: shown.audit,
            retry: shown.retry.map(RetryPolicy::from),
            timeouts: shown.timeouts.into(),
            priority: shown.priority,
            push: shown.push.map(Push::from),
            retention: shown.retention.into(),
        }
    }
}

impl From<ShownSettings> for TypeSettings {
    fn from(shown: ShownSettings) -> TypeSettings {
        TypeSettings {
            max_running: shown.max_running,
            rate: shown.rate.map(Rate::from),
            retry: shown.retry.map(RetryPolicy::from),
            timeouts: shown.timeouts.into(),
            priority: shown.priority,
            success_event: shown.success_event,
            exhausted_event: shown.exhausted_event,
            retention: shown.retention.into(),
        }
    }
}

impl From<ShownSettings> for TenantSettings {
    fn from(shown: ShownSettings) -> TenantSettings {
        TenantSettings {
            max_running: shown.max_running,
            max_depth: shown.max_depth,
            weight: shown.weight,
            budget_cents: shown.budget_cents,
            budget_period: shown.budget_period,
            max_queues: shown.max_queues,
            max_types: shown.max_types,
            max_lanes: shown.max_lanes,
            max_concurrency_keys: shown.max_concurrency_keys,
        }
    }
}
