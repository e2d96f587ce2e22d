//! Tests of timings.
