//! Answers: status, errors, entity tags, traces, compression.

pub(in crate::http) mod compress;
pub(in crate::http) mod encoded;
pub(in crate::http) mod error;
pub(in crate::http) mod etag;
pub(in crate::http) mod event_stream;
pub(in crate::http) mod response;
pub(in crate::http) mod trace;
