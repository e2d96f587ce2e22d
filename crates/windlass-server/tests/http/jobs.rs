//! Jobs over HTTP: submit, look, act, list, bulk.

#[path = "jobs/actions.rs"]
mod actions;
#[path = "jobs/etag.rs"]
mod etag;
#[path = "jobs/graph.rs"]
mod graph;
#[path = "jobs/limits.rs"]
mod limits;
#[path = "jobs/list.rs"]
mod list;
#[path = "jobs/pending.rs"]
mod pending;
#[path = "jobs/submit.rs"]
mod submit;
#[path = "jobs/trace.rs"]
mod trace;
#[path = "jobs/version.rs"]
mod version;
