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
}

fn concurrency() -> u32 {
    limits::PUSH_CONCURRENCY_DEFAULT
}

impl From<PushWire> for Push {
    fn from(push: PushWire) -> Push {
        let PushWire { url, concurrency, timeout } = push;
        Push { url, concurrency, timeout: timeout.map(|span| span.0) }
    }
}

impl From<&Push> for PushWire {
    fn from(push: &Push) -> PushWire {
        PushWire { url: push.url.clone(), concurrency: push.concurrency, timeout: push.timeout.map(Span) }
    }
}
