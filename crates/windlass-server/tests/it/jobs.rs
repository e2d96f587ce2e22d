//! Jobs over HTTP: submit, look, act, list, bulk.

mod act;
mod list;
mod submit;
