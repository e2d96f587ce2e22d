//! Priority: an integer from 0 to 100, higher first, with five names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;

/// A job's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Priority(u8);

impl Priority {
    /// 100: before everything else.
    pub const CRITICAL: Priority = Priority(100);
    /// 80: a user is waiting for it.
    pub const HIGH: Priority = Priority(80);
    /// 50: the default.
    pub const NORMAL: Priority = Priority(50);
    /// 10: it can wait.
    pub const LOW: Priority = Priority(10);
    /// 0: after everything else.
    pub const BULK: Priority = Priority(0);

    /// The priority, if it is between 0 and 100.
    pub fn new(value: i64) -> Result<Priority, FieldProblem> {
        u8::try_from(value).ok().filter(|value| *value <= 100).map(Priority).ok_or_else(|| {
            FieldProblem::OutOfRange { value: value.to_string(), min: "0".into(), max: "100".into() }
        })
    }

    /// The number.
    pub fn value(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::NORMAL
    }
}

impl TryFrom<i64> for Priority {
    type Error = FieldProblem;

    fn try_from(value: i64) -> Result<Priority, FieldProblem> {
        Priority::new(value)
    }
}

impl TryFrom<i32> for Priority {
    type Error = FieldProblem;

    fn try_from(value: i32) -> Result<Priority, FieldProblem> {
        Priority::new(value.into())
    }
}

/// Parses a name in any letter case (`critical`, `high`, `normal`, `low` or `bulk`) or a number.
impl TryFrom<&str> for Priority {
    type Error = FieldProblem;

    fn try_from(name: &str) -> Result<Priority, FieldProblem> {
        name.parse()
    }
}

impl From<Priority> for i64 {
    fn from(priority: Priority) -> i64 {
        i64::from(priority.0)
    }
}

impl FromStr for Priority {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<Priority, FieldProblem> {
        match NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            Some((_, priority)) => Ok(*priority),
            None => text.parse().map_err(|_| unknown(text)).and_then(Priority::new),
        }
    }
}

/// The names, parsed in any letter case.
const NAMES: [(&str, Priority); 5] = [
    ("critical", Priority::CRITICAL),
    ("high", Priority::HIGH),
    ("normal", Priority::NORMAL),
    ("low", Priority::LOW),
    ("bulk", Priority::BULK),
];

fn unknown(text: &str) -> FieldProblem {
    FieldProblem::unknown(text, "0 to 100, critical, high, normal, low, bulk")
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
