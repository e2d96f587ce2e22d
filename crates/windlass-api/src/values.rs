//! Values that many objects of the API have: durations and times, names, priorities, tags, payloads, retry policies.

pub mod expires;
pub mod json;
pub mod known;
pub(crate) mod lenient;
pub mod payload;
pub mod priority;
pub mod retry;
pub mod tags;
pub mod text;
pub mod time;
