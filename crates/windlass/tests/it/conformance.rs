//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod audit;
mod children;
mod claim;
mod concurrency;
mod damage;
mod finish;
mod graph;
mod holds;
mod keys;
mod look;
mod metadata;
mod operate;
mod smoke;
mod steps;
mod submit;
