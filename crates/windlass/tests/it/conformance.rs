//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod children;
mod claim;
mod concurrency;
mod finish;
mod graph;
mod holds;
mod keys;
mod metadata;
mod operate;
mod smoke;
mod steps;
mod submit;
