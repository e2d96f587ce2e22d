//! Settings of the API as those of the rules, and back.

use windlass_core::error::Invalid;
use windlass_core::job::RetryPolicy;
use windlass_core::settings::patch::{
    Field, QueuePatch, RetentionPatch, TenantPatch, TimeoutsPatch, TypePatch,
};
use windlass_core::settings::{
    JobSchema, PartialTimeouts, Push, QueueSettings, Rate, TenantSettings, TypeSettings,
};

use crate::priority::PriorityInput;
use crate::push::PushWire;
use crate::retention::RetentionBody;
use crate::retry::{EffectiveRetry, Retry, two_leases};
use crate::time::Span;

use super::{
    QueueBody, QueueSettingsView, RateWire, TenantBody, TenantSettingsView, TimeoutsBody, TimeoutsView,
    TypeBody, TypeSettingsView,
};

impl TimeoutsBody {
    fn into_patch(self) -> Result<TimeoutsPatch, Invalid> {
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

impl From<RateWire> for Rate {
    fn from(rate: RateWire) -> Rate {
        Rate::new(rate.count, rate.per.0)
    }
}

impl From<Rate> for RateWire {
    fn from(rate: Rate) -> RateWire {
        RateWire { count: rate.count, per: rate.per.into() }
    }
}

impl QueueBody {
    /// The library's change.
    pub fn into_patch(self) -> Result<QueuePatch, Invalid> {
        Ok(QueuePatch {
            max_running: self.max_running,
            max_running_per_key: self.max_running_per_key,
            rate: self.rate.map(Rate::from),
            rate_per_key: self.rate_per_key.map(Rate::from),
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

impl From<PartialTimeouts> for TimeoutsView {
    fn from(timeouts: PartialTimeouts) -> TimeoutsView {
        TimeoutsView {
            execution: timeouts.execution.map(Span),
            lease: timeouts.lease.map(Span),
            lifetime: timeouts.lifetime.map(Span),
            start: timeouts.start.map(Span),
            max_execution: timeouts.max_execution.map(Span),
        }
    }
}

impl From<&QueueSettings> for QueueSettingsView {
    fn from(settings: &QueueSettings) -> QueueSettingsView {
        QueueSettingsView {
            max_running: settings.max_running,
            max_running_per_key: settings.max_running_per_key,
            rate: settings.rate.map(RateWire::from),
            rate_per_key: settings.rate_per_key.map(RateWire::from),
            max_depth: settings.max_depth,
            fair_by: settings.fair_by,
            aging: settings.aging.map(Span),
            audit: settings.audit,
            retry: settings.retry.as_ref().map(EffectiveRetry::from),
            timeouts: settings.timeouts.into(),
            priority: settings.priority.map(PriorityInput),
            push: settings.push.as_ref().map(PushWire::from),
            retention: settings.retention.into(),
        }
    }
}

impl TypeBody {
    /// The library's change.
    pub fn into_patch(self) -> Result<TypePatch, Invalid> {
        Ok(TypePatch {
            max_running: self.max_running,
            rate: self.rate.map(Rate::from),
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

impl From<&TypeSettings> for TypeSettingsView {
    fn from(settings: &TypeSettings) -> TypeSettingsView {
        TypeSettingsView {
            max_running: settings.max_running,
            rate: settings.rate.map(RateWire::from),
            retry: settings.retry.as_ref().map(EffectiveRetry::from),
            timeouts: settings.timeouts.into(),
            priority: settings.priority.map(PriorityInput),
            success_event: settings.success_event.clone(),
            exhausted_event: settings.exhausted_event.clone(),
            retention: settings.retention.into(),
            payload_schema: settings.payload_schema.clone().map(Into::into),
            result_schema: settings.result_schema.clone().map(Into::into),
        }
    }
}

impl From<&QueuePatch> for QueueBody {
    fn from(patch: &QueuePatch) -> QueueBody {
        QueueBody {
            max_running: patch.max_running,
            max_running_per_key: patch.max_running_per_key,
            rate: patch.rate.map(RateWire::from),
            rate_per_key: patch.rate_per_key.map(RateWire::from),
            max_depth: patch.max_depth,
            fair_by: patch.fair_by,
            aging: patch.aging.map(Span),
            audit: patch.audit,
            retry: patch.retry.as_ref().map(Retry::from),
            timeouts: patch.timeouts.map(TimeoutsBody::from),
            priority: patch.priority.map(PriorityInput),
            push: patch.push.as_ref().map(PushWire::from),
            retention: patch.retention.map(RetentionBody::from),
        }
    }
}

impl From<QueueSettingsView> for QueueSettings {
    fn from(shown: QueueSettingsView) -> QueueSettings {
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
            priority: shown.priority.map(|priority| priority.0),
            push: shown.push.map(Push::from),
            retention: shown.retention.into(),
        }
    }
}

impl From<&TypePatch> for TypeBody {
    fn from(patch: &TypePatch) -> TypeBody {
        TypeBody {
            max_running: patch.max_running,
            rate: patch.rate.map(RateWire::from),
            retry: patch.retry.as_ref().map(Retry::from),
            timeouts: patch.timeouts.map(TimeoutsBody::from),
            priority: patch.priority.map(PriorityInput),
            success_event: patch.success_event.clone(),
            exhausted_event: patch.exhausted_event.clone(),
            retention: patch.retention.map(RetentionBody::from),
            payload_schema: patch.payload_schema.clone().map(Into::into),
            result_schema: patch.result_schema.clone().map(Into::into),
        }
    }
}

impl From<TypeSettingsView> for TypeSettings {
    fn from(shown: TypeSettingsView) -> TypeSettings {
        TypeSettings {
            max_running: shown.max_running,
            rate: shown.rate.map(Rate::from),
            retry: shown.retry.map(RetryPolicy::from),
            timeouts: shown.timeouts.into(),
            priority: shown.priority.map(|priority| priority.0),
            success_event: shown.success_event,
            exhausted_event: shown.exhausted_event,
            retention: shown.retention.into(),
            payload_schema: shown.payload_schema.map(JobSchema::from),
            result_schema: shown.result_schema.map(JobSchema::from),
        }
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

impl From<TimeoutsView> for PartialTimeouts {
    fn from(shown: TimeoutsView) -> PartialTimeouts {
        PartialTimeouts {
            execution: shown.execution.map(|span| span.0),
            lease: shown.lease.map(|span| span.0),
            lifetime: shown.lifetime.map(|span| span.0),
            start: shown.start.map(|span| span.0),
            max_execution: shown.max_execution.map(|span| span.0),
        }
    }
}

/// Conversions between types whose fields are the same.
macro_rules! copied {
    ($fields:tt: $($from:ty => $into:ident),*) => {$(copied!(@ $fields $from => $into);)*};
    (@ {$($field:ident),*} $from:ty => $into:ident) => {
        impl From<$from> for $into {
            fn from(from: $from) -> $into {
                $into { $($field: from.$field),* }
            }
        }
    };
}

copied!(
    {max_running, max_depth, weight, budget_cents, budget_period, max_queues, max_types, max_lanes, max_concurrency_keys}:
    TenantBody => TenantPatch, &TenantPatch => TenantBody,
    TenantSettingsView => TenantSettings, &TenantSettings => TenantSettingsView
);
