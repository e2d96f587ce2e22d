//! Kinds of jobs for the tests of workers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::client::{Job, JobDefaults};
use windlass::job::{Priority, RetryPolicy};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Greet {
    pub(crate) name: String,
}

impl Job for Greet {
    const TYPE: &'static str = "greet";
    type Output = String;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Add {
    pub(super) numbers: Vec<u64>,
}

impl Job for Add {
    const TYPE: &'static str = "add";
    type Output = u64;
}

pub(crate) fn greet(name: &str) -> Greet {
    Greet { name: name.to_owned() }
}

/// The same payload under the same name, but another type of result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GreetInNumbers {
    pub(super) name: String,
}

impl Job for GreetInNumbers {
    const TYPE: &'static str = "greet";
    type Output = u64;
}

/// A kind with wishes of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Mail;

impl Job for Mail {
    const TYPE: &'static str = "mail";
    type Output = ();

    fn defaults() -> JobDefaults {
        JobDefaults {
            queue: Some("post"),
            priority: Some(Priority::HIGH),
            retry: Some(RetryPolicy::fixed()),
            timeout: Some(Duration::from_secs(60)),
        }
    }
}

/// Bytes as a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Fill {
    pub(super) bytes: usize,
}

impl Job for Fill {
    const TYPE: &'static str = "fill";
    type Output = String;
}

/// A result that JSON has no words for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Map;

impl Job for Map {
    const TYPE: &'static str = "map";
    type Output = std::collections::BTreeMap<(u8, u8), u8>;
}

/// A payload that panics when it is read.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Trap;

impl<'de> Deserialize<'de> for Trap {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Trap, D::Error> {
        panic!("the trap shuts")
    }
}

impl Job for Trap {
    const TYPE: &'static str = "trap";
    type Output = ();
}

/// Another payload under the same name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OtherGreet {
    pub(super) names: Vec<String>,
}

impl Job for OtherGreet {
    const TYPE: &'static str = "greet";
    type Output = String;
}
