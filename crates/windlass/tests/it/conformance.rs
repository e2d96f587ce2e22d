//! One suite for every engine: each test is a sentence, names the line of the model it proves, and ends with a check of all
//! invariants.

mod audit;
mod children;
mod damage;
mod finish;
mod look;
mod operate;
mod smoke;
mod steps;
