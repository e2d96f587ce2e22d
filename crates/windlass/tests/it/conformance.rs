//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod access;
mod audit;
mod audit_trail;
mod claims;
mod damage;
mod events;
mod jobs;
mod operations;
mod pauses;
mod reads;
mod reports;
mod resume;
mod schedule;
mod settings;
mod smoke;
