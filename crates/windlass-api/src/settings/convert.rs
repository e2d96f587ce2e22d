//! Settings of the API as those of the rules, and back.

use std::time::Duration;

use serde_json::Value;
use windlass_core::audit::AuditLevel;
use windlass_core::error::FieldError;
use windlass_core::job::{Priority, RetryPolicy};
use windlass_core::settings::patch::{
    Field, QueuePatch, RetentionPatch, TenantPatch, TimeoutsPatch, TypePatch,
};
use windlass_core::settings::{
    BudgetPeriod, FairBy, JobSchema, PartialTimeouts, Push, QueueSettings, Rate, Retention, TenantSettings,
    TypeSettings,
};

use super::{
    QueueBody, QueueSettingsView, RateWire, TenantBody, TenantSettingsView, TimeoutsBody, TimeoutsView,
    TypeBody, TypeSettingsView,
};
use crate::priority::PriorityInput;
use crate::push::PushWire;
use crate::retention::{RetentionBody, RetentionView};
use crate::retry::{EffectiveRetry, Retry, two_leases};
use crate::time::Span;

impl TimeoutsBody {
    fn into_patch(self) -> Result<TimeoutsPatch, FieldError> {
        let lease = match (self.lease, self.visibility) {
            (Field::Set(lease), Field::Set(visibility)) if lease.0 != visibility.0 => {
                return Err(two_leases(lease, visibility));
            }
            (Field::Keep, visibility) => visibility,
            (lease, _) => lease,
        };
        Ok(TimeoutsPatch {
            execution: self.execution.map(|span| span.0),
            lease: lease.map(|span| span.0),
            lifetime: self.lifetime.map(|span| span.0),
            start: self.start.map(|span| span.0),
            max_execution: self.max_execution.map(|span| span.0),
        })
    }
}

impl QueueBody {
    /// The library's change.
    pub fn into_patch(self) -> Result<QueuePatch, FieldError> {
        Ok(QueuePatch {
            max_running: self.max_running,
            max_running_per_key: self.max_running_per_key,
            rate: self.rate.translate(),
            rate_per_key: self.rate_per_key.translate(),
            max_depth: self.max_depth,
            fair_by: self.fair_by,
            aging: self.aging.map(|span| span.0),
            audit: self.audit,
            retry: self.retry.try_map(Retry::into_policy)?,
            timeouts: self.timeouts.try_map(TimeoutsBody::into_patch)?,
            priority: self.priority.map(|priority| priority.0),
            push: self.push.map(Push::from),
            retention: self.retention.map(RetentionPatch::from),
        })
    }
}

impl TypeBody {
    /// The library's change.
    pub fn into_patch(self) -> Result<TypePatch, FieldError> {
        Ok(TypePatch {
            max_running: self.max_running,
            rate: self.rate.translate(),
            retry: self.retry.try_map(Retry::into_policy)?,
            timeouts: self.timeouts.try_map(TimeoutsBody::into_patch)?,
            priority: self.priority.map(|priority| priority.0),
            success_event: self.success_event,
            exhausted_event: self.exhausted_event,
            retention: self.retention.map(RetentionPatch::from),
            payload_schema: self.payload_schema.map(JobSchema::from),
            result_schema: self.result_schema.map(JobSchema::from),
        })
    }
}

impl From<TimeoutsPatch> for TimeoutsBody {
    fn from(patch: TimeoutsPatch) -> TimeoutsBody {
        TimeoutsBody {
            execution: patch.execution.map(Span),
            lease: patch.lease.map(Span),
            visibility: Field::Keep,
            lifetime: patch.lifetime.map(Span),
            start: patch.start.map(Span),
            max_execution: patch.max_execution.map(Span),
        }
    }
}

/// A value of the API as that of the rules, or back.
trait Translate<T> {
    fn translate(&self) -> T;
}

impl<A: Translate<B>, B> Translate<Option<B>> for Option<A> {
    fn translate(&self) -> Option<B> {
        self.as_ref().map(A::translate)
    }
}

impl<A: Translate<B>, B> Translate<Field<B>> for Field<A> {
    fn translate(&self) -> Field<B> {
        self.as_ref().map(A::translate)
    }
}

/// What one value becomes.
macro_rules! values {
    ($($from:ty => $into:ty: $value:ident => $translated:expr;)*) => {$(
        impl Translate<$into> for $from {
            fn translate(&self) -> $into {
                let $value = self;
                $translated
            }
        }
    )*};
}

values! {
    u32 => u32: number => *number;
    u64 => u64: number => *number;
    String => String: text => text.clone();
    FairBy => FairBy: word => *word;
    BudgetPeriod => BudgetPeriod: word => *word;
    AuditLevel => AuditLevel: word => *word;
    Span => Duration: span => span.0;
    Duration => Span: time => Span(*time);
    PriorityInput => Priority: priority => priority.0;
    Priority => PriorityInput: priority => PriorityInput(*priority);
    RateWire => Rate: rate => Rate::new(rate.count, rate.per.0);
    Rate => RateWire: rate => RateWire { count: rate.count, per: Span(rate.per) };
    PushWire => Push: push => push.clone().into();
    Push => PushWire: push => push.into();
    RetryPolicy => Retry: retry => retry.into();
    RetryPolicy => EffectiveRetry: retry => retry.into();
    EffectiveRetry => RetryPolicy: retry => retry.clone().into();
    Value => JobSchema: schema => schema.clone().into();
    JobSchema => Value: schema => schema.clone().into();
    TimeoutsPatch => TimeoutsBody: patch => (*patch).into();
}

/// Conversions between types with the same fields.
macro_rules! fields {
    ($fields:tt: $($from:ident => $into:ident),*) => {$(fields!(@ $fields $from => $into);)*};
    (@ {$($field:ident),*} $from:ident => $into:ident) => {
        impl Translate<$into> for $from {
            fn translate(&self) -> $into {
                $into { $($field: self.$field.translate()),* }
            }
        }

        impl From<&$from> for $into {
            fn from(from: &$from) -> $into {
                from.translate()
            }
        }

        impl From<$from> for $into {
            fn from(from: $from) -> $into {
                from.translate()
            }
        }
    };
}

fields!(
    {max_running, max_running_per_key, rate, rate_per_key, max_depth, fair_by, aging, audit, retry, timeouts, priority, push, retention}:
    QueueSettingsView => QueueSettings, QueueSettings => QueueSettingsView, QueuePatch => QueueBody
);
fields!(
    {max_running, rate, retry, timeouts, priority, success_event, exhausted_event, retention, payload_schema, result_schema}:
    TypeSettingsView => TypeSettings, TypeSettings => TypeSettingsView, TypePatch => TypeBody
);
fields!(
    {max_running, max_depth, weight, budget_cents, budget_period, max_queues, max_types, max_lanes, max_concurrency_keys}:
    TenantBody => TenantPatch, TenantPatch => TenantBody,
    TenantSettingsView => TenantSettings, TenantSettings => TenantSettingsView
);
fields!(
    {execution, lease, lifetime, start, max_execution}:
    TimeoutsView => PartialTimeouts, PartialTimeouts => TimeoutsView
);
fields!(
    {completed, failed, dead_letter, cancelled}:
    RetentionBody => RetentionPatch, RetentionPatch => RetentionBody, RetentionView => Retention, Retention => RetentionView
);
