//! Changes to settings: a missing field stays, `null` clears it. Changes are merged inside the commit, so two people
//! who set different fields at once both succeed.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    BudgetPeriod, FairBy, JobSchema, PartialTimeouts, Push, QueueSettings, Rate, Retention, TenantSettings,
    TypeSettings,
};
use crate::audit::AuditLevel;
use crate::job::{JobType, Priority, QueueName, RetryPolicy, Tenant};

/// The change of one field.
///
/// Read from JSON with `#[serde(default)]`: absent keeps, `null` clears, anything else sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Field<T> {
    /// Keep the value.
    #[default]
    Keep,
    /// Clear the value.
    Clear,
    /// Set this value.
    Set(T),
}

impl<T> Field<T> {
    /// Converts the value; the conversion may fail.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Field<U>, E> {
        Ok(match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(make(value)?),
        })
    }

    /// Whether the value stays.
    pub fn is_kept(&self) -> bool {
        matches!(self, Field::Keep)
    }

    /// The field by reference.
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(value),
        }
    }

    /// Converts the value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(make(value)),
        }
    }
}

/// A change of one value of the settings, or of a group of them.
trait Change<T> {
    fn apply(&self, to: &mut T);
}

impl<T: Clone> Change<Option<T>> for Field<T> {
    fn apply(&self, to: &mut Option<T>) {
        match self {
            Field::Keep => {}
            Field::Clear => *to = None,
            Field::Set(value) => *to = Some(value.clone()),
        }
    }
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Field<T> {
        value.map_or(Field::Clear, Field::Set)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Field<T>, D::Error> {
        Option::deserialize(from).map(Field::from)
    }
}

/// Written with `#[serde(skip_serializing_if = "Field::is_kept")]`, for which a kept field is left out.
impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Keep | Field::Clear => serializer.serialize_none(),
            Field::Set(value) => value.serialize(serializer),
        }
    }
}

/// Changes to settings, with the names of their fields; how they are applied; and the change that replaces all fields.
macro_rules! patch {
    ($(#[$meta:meta])* $patch:ident of $settings:ident { $($field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "the fields are those of the settings")]
        pub struct $patch {
            $(pub $field: Field<$kind>,)*
        }

        impl $patch {
            /// The settings after the change.
            pub fn applied_to(&self, mut settings: $settings) -> $settings {
                $(self.$field.apply(&mut settings.$field);)*
                settings
            }
        }

        /// A change that replaces all fields.
        impl From<$settings> for $patch {
            fn from(all: $settings) -> $patch {
                $patch { $($field: all.$field.into(),)* }
            }
        }
    };
}

/// Groups of fields that are a field of other settings: clearing such a field clears the group.
macro_rules! group {
    ($patch:ident of $settings:ident) => {
        impl Change<$settings> for Field<$patch> {
            fn apply(&self, to: &mut $settings) {
                match self {
                    Field::Keep => {}
                    Field::Clear => *to = $settings::default(),
                    Field::Set(patch) => *to = patch.applied_to(*to),
                }
            }
        }

        impl From<$settings> for Field<$patch> {
            fn from(all: $settings) -> Field<$patch> {
                Field::Set(all.into())
            }
        }
    };
}

patch! {
    /// Changes to some time limits; see [`PartialTimeouts`] for the fields.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    TimeoutsPatch of PartialTimeouts {
        execution: Duration,
        lease: Duration,
        lifetime: Duration,
        start: Duration,
        max_execution: Duration,
    }
}
group!(TimeoutsPatch of PartialTimeouts);

patch! {
    /// Changes to the retention; see [`Retention`] for the fields.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    RetentionPatch of Retention {
        completed: Duration,
        failed: Duration,
        dead_letter: Duration,
        cancelled: Duration,
    }
}
group!(RetentionPatch of Retention);

patch! {
    /// Changes to a queue's settings; see [`QueueSettings`] for the fields.
    #[derive(Debug, Clone, PartialEq, Default)]
    QueuePatch of QueueSettings {
        max_running: u64,
        max_running_per_key: u64,
        rate: Rate,
        rate_per_key: Rate,
        max_depth: u64,
        fair_by: FairBy,
        aging: Duration,
        audit: AuditLevel,
        retry: RetryPolicy,
        timeouts: TimeoutsPatch,
        priority: Priority,
        push: Push,
        retention: RetentionPatch,
    }
}

patch! {
    /// Changes to a type's settings; see [`TypeSettings`] for the fields.
    #[derive(Debug, Clone, PartialEq, Default)]
    TypePatch of TypeSettings {
        max_running: u64,
        rate: Rate,
        retry: RetryPolicy,
        timeouts: TimeoutsPatch,
        priority: Priority,
        success_event: String,
        exhausted_event: String,
        retention: RetentionPatch,
        payload_schema: JobSchema,
        result_schema: JobSchema,
    }
}

patch! {
    /// Changes to a tenant's settings; see [`TenantSettings`] for the fields.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    TenantPatch of TenantSettings {
        max_running: u64,
        max_depth: u64,
        weight: u32,
        budget_cents: u64,
        budget_period: BudgetPeriod,
        max_queues: u64,
        max_types: u64,
        max_lanes: u64,
        max_concurrency_keys: u64,
    }
}

/// Changes to the settings of one queue, type or tenant.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsPatch {
    /// A queue's settings: for the caller's tenant, or for all tenants by an admin.
    Queue(QueueName, QueuePatch),
    /// A type's settings; admins only.
    Type(JobType, TypePatch),
    /// A tenant's settings; admins only.
    Tenant(Tenant, TenantPatch),
}
