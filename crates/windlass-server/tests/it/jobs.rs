//! Jobs over HTTP: submit, look, act, list, bulk.

#[path = "jobs/act.rs"]
mod act;
#[path = "jobs/graph.rs"]
mod graph;
#[path = "jobs/list.rs"]
mod list;
#[path = "jobs/submit.rs"]
mod submit;
