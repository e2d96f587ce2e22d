//! A push target on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::limits;
use windlass::store::documents::config::Push;

use super::time::Span;

/// A web address that works on a queue's jobs: each is posted to it, and the answer is the outcome.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Push")]
#[serde(deny_unknown_fields)]
pub(crate) struct PushWire {
    /// Where jobs are sent.
    url: String,
    /// Jobs that one server sends at once.
    #[serde(default = "concurrency")]
    concurrency: u32,
    /// How long one answer may take.
    #[serde(default)]
    timeout: Option<Span>,
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
