//! Jobs over HTTP: submit, look, act, list, bulk.

#[path = "jobs/act.rs"]
mod act;
#[path = "jobs/list.rs"]
mod list;
#[path = "jobs/submit.rs"]
mod submit;
