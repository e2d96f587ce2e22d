//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod children;
mod finish;
mod operate;
mod smoke;
mod steps;
