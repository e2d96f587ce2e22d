//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod access;
mod audit;
mod backlog;
mod budget;
mod children;
mod claim;
mod concurrency;
mod damage;
mod events;
mod fairness;
mod fence;
mod finish;
mod graph;
mod holds;
mod keys;
mod lease;
mod look;
mod metadata;
mod operate;
mod rate;
mod settings;
mod smoke;
mod starvation;
mod steps;
mod submit;
