//! Names of types, queues, tenants, schedules and alerts. A value of these types is valid.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;
use crate::limits;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates a name: 1–255 letters, digits, `_ . : -`, starting with a letter.
            pub fn new(text: &str) -> Result<$name, FieldProblem> {
                check(text).map(|()| $name(Arc::from(text)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = FieldProblem;

            fn try_from(text: String) -> Result<$name, FieldProblem> {
                $name::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// The type of a job; selects the handler.
    JobType
}
name! {
    /// The queue that a job waits in.
    QueueName
}
name! {
    /// The tenant that owns a job. Tenants never see each other's jobs.
    Tenant
}

name! {
    /// The name of a schedule within its tenant.
    ScheduleName
}

name! {
    /// The name of an alert within its tenant.
    AlertName
}

impl Default for QueueName {
    fn default() -> QueueName {
        QueueName(Arc::from("default"))
    }
}

impl Default for Tenant {
    fn default() -> Tenant {
        Tenant(Arc::from("default"))
    }
}

fn check(text: &str) -> Result<(), FieldProblem> {
    if text.is_empty() {
        return Err(FieldProblem::Missing);
    }
    let length = text.chars().count();
    if length > limits::NAME_CHARS_MAX {
        return Err(FieldProblem::TooLong { length, limit: limits::NAME_CHARS_MAX });
    }
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts_well && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c)) {
        Ok(())
    } else {
        Err(FieldProblem::NotAName(text.to_owned()))
    }
}
