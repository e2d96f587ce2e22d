//! The one test binary of the library: each module is a suite, so that everything links once.

mod conformance;
mod crash;
mod fixture;
mod tidy;
