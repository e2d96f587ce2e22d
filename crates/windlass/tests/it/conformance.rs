//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod claim;
mod concurrency;
mod graph;
mod holds;
mod keys;
mod metadata;
mod smoke;
mod submit;
