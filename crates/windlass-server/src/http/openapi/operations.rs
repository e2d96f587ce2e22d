//! What an operation is called in generated clients, what it does, and an example of its request. The table of routes has
//! the rest; a test fails for a route without an entry here.

mod jobs;
mod manage;
mod worker_protocol;

use super::Route;

/// An operation, by method and path.
pub(super) struct Operation {
    at: &'static str,
    /// Its name, which becomes a method in generated clients.
    pub(super) id: &'static str,
    pub(super) description: &'static str,
    /// An example of its body, as JSON.
    pub(super) body: Option<&'static str>,
}

/// An operation without a body.
const fn op(at: &'static str, id: &'static str, description: &'static str) -> Operation {
    Operation { at, id, description, body: None }
}

impl Operation {
    /// With this body as an example.
    const fn body(self, body: &'static str) -> Operation {
        Operation { body: Some(body), ..self }
    }
}

fn all() -> impl Iterator<Item = &'static Operation> {
    [jobs::OPERATIONS, worker_protocol::OPERATIONS, manage::OPERATIONS].into_iter().flatten()
}

/// The entry of a route.
pub(super) fn find(route: &Route) -> Option<&'static Operation> {
    let at = format!("{} {}", route.method.as_str().to_lowercase(), route.path);
    all().find(|operation| operation.at == at)
}

/// The place of an operation in the order of these tables.
pub(crate) fn place(id: &str) -> usize {
    all().position(|operation| operation.id == id).unwrap_or(usize::MAX)
}
