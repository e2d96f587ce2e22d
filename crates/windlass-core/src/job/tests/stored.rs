//! Stored values: builds of different age work on one store, so the names of stored fields stay.

use std::collections::BTreeSet;

use crate::job::{JobType, NewJob, Payload};

/// The job of a schedule is stored as JSON.
#[test]
fn the_stored_fields_of_a_submission_keep_their_names() {
    let job = NewJob::new(JobType::new("mail").unwrap(), Payload::json("null"));
    let stored = serde_json::to_value(&job).unwrap();
    let found: BTreeSet<&str> = stored.as_object().unwrap().keys().map(String::as_str).collect();
    let names = "after after_any concurrency_key debounce delay execution_timeout hold idempotency_key \
                 idempotency_window job_type labels lease_timeout lifetime name payload priority queue retry run_at \
                 start_timeout tenant traceparent unique_key";
    assert_eq!(found, names.split_whitespace().collect());
}
