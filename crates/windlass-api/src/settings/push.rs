//! A push target in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::limits;
use windlass_core::settings::Push;

use crate::time::Span;

/// A URL that runs a queue's jobs: each job is posted to it, and the response is the outcome.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Push")]
#[serde(deny_unknown_fields)]
pub struct PushWire {
    /// URL that jobs are posted to.
    pub url: String,
    /// Maximum number of jobs in progress per server.
    #[serde(default = "concurrency")]
    pub concurrency: u32,
    /// Maximum time to wait for a response.
    #[serde(default)]
    pub timeout: Option<Span>,
    /// Whether jobs are sent as a claim has them, with checkpoints and decided groups, and the response may be an outcome of
    /// the worker protocol, also `parked`: then they can have durable steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub durable: bool,
}

fn concurrency() -> u32 {
    limits::PUSH_CONCURRENCY_DEFAULT
}

impl From<PushWire> for Push {
    fn from(push: PushWire) -> Push {
        let PushWire { url, concurrency, timeout, durable } = push;
        Push { url, concurrency, timeout: timeout.map(|span| span.0), durable }
    }
}

impl From<&Push> for PushWire {
    fn from(push: &Push) -> PushWire {
        let Push { url, concurrency, timeout, durable } = push.clone();
        PushWire { url, concurrency, timeout: timeout.map(Span), durable }
    }
}
