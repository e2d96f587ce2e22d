//! What the coordinator and its nodes say to each other: a line each, orders as JSON on a node's standard input and replies
//! on its standard output. A node replies `Ready` to an order, begins at [`GO`], and replies with what it measured.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::bench::node::CallTimes;

/// Begin what was ordered.
pub(super) const GO: &str = "go";
/// End what lasts until this.
pub(super) const STOP: &str = "stop";

/// An order to a node. Those without a time last until [`STOP`].
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Open the store; the first order. Addresses hold passwords, which others could read among arguments.
    Open {
        store: String,
        /// The same database with the schema of the table without Windlass.
        plain: String,
        payload: usize,
    },
    /// Wait for single jobs; if there is a pause to make before each, submit them, too, and reply `Ready` after the last.
    PickUp { pause: Option<Duration>, time: Duration },
    /// Submit one by one.
    Submit { time: Duration },
    /// Insert rows without Windlass one by one.
    Insert { time: Duration },
    /// Handle jobs that do nothing.
    Work,
}

/// A reply of a node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Ready,
    Measured(CallTimes),
    Failed(String),
}
