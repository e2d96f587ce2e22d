//! Records made of what the API's shorter answers contain.

use std::sync::Arc;

use windlass_api::json::Json;

use crate::clock::Timestamp;
use crate::job::{JobId, JobRecord, JobState, JobType, Lane, QueueName, Seq, Tenant};

/// A job of which only these fields are known.
pub(super) fn sketch(id: JobId, job_type: JobType, state: JobState, now: Timestamp) -> JobRecord {
    let lane = Lane::new(Tenant::default(), QueueName::default(), job_type);
    JobRecord { state, ..JobRecord::new(Seq(0), id, Arc::new(lane), Arc::default(), now) }
}

/// The bytes of a value, as a store keeps them.
pub(super) fn bytes(json: Option<Json>) -> Option<Arc<[u8]>> {
    json.map(|json| Arc::from(json.bytes()))
}
