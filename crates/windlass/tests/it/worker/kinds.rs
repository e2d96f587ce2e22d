//! Kinds of jobs for the tests of workers.

use serde::{Deserialize, Serialize};
use windlass::queue::Job;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Greet {
    pub(super) name: String,
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

pub(super) fn greet(name: &str) -> Greet {
    Greet { name: name.to_owned() }
}
