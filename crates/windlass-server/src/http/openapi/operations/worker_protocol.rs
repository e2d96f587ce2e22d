//! Operations of workers. docs/protocol.md says how they work together.

use super::{Operation, op};

#[rustfmt::skip]
pub(super) const OPERATIONS: &[Operation] = &[
    op("post /workers", "registerWorker",
        "Registers a worker at each start of its program. The id belongs to the key that registered it.")
        .body(r#"{"name": "mailer-1", "queues": ["mail"], "types": ["email.send"], "concurrency": 10}"#),
    op("delete /workers/{id}", "deregisterWorker",
        "Says that a worker stops. Jobs that it still holds are released without counting a failure."),
    op("post /claims", "claimJobs",
        "Claims up to `limit` jobs; if there are none, waits up to `wait` for the first. Each has a lease, and a fence that every \
         write for it must name.")
        .body(r#"{"worker_id": "0199ad3b-5ff6-7d0e-9c86-3b0a4c6a2f11", "limit": 10, "wait": "30s"}"#),
    op("post /heartbeats", "sendHeartbeats",
        "Extends the leases of running jobs and returns a directive for each: `continue`, or a reason to stop. Send them every \
         ten seconds; with `wait` the answer comes as soon as there is something to tell.")
        .body(r#"{"worker_id": "0199ad3b-5ff6-7d0e-9c86-3b0a4c6a2f11", "jobs": [{"id": "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3",
            "fence": 1, "progress": {"percent": 40, "message": "page 4 of 10"}}]}"#),
    op("post /outcomes", "reportOutcomes",
        "Reports how up to 1,000 attempts ended. Each item has its own result: `applied`, `stale` if the lease was lost, or \
         `rejected` with an error.")
        .body(r#"{"worker_id": "0199ad3b-5ff6-7d0e-9c86-3b0a4c6a2f11", "outcomes": [{"id": "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3",
            "fence": 1, "outcome": "completed", "result": {"message_id": "m-7"}}]}"#),
    op("post /checkpoints", "saveCheckpointsOfJobs",
        "Saves steps, progress, log lines and partial output of up to 1,000 running jobs of a worker in one commit. Each job has its own \
         result: `saved`, `stale` if the lease was lost, or `rejected` with an error.")
        .body(r#"{"worker_id": "0199ad3b-5ff6-7d0e-9c86-3b0a4c6a2f11", "jobs": [{"id": "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3",
            "fence": 1, "checkpoints": [{"step": "reserve", "value": {"seat": 12}}]}]}"#),
    op("put /jobs/{id}/checkpoints/{name}", "saveCheckpoint",
        "Saves the value of a step of a running job. Every later claim of the job brings it.")
        .body(r#"{"fence": 1, "value": {"seat": 12}}"#),
    op("post /jobs/{id}/checkpoints", "saveCheckpoints",
        "Saves steps, progress, log lines and partial output of a running job in one commit.")
        .body(r#"{"fence": 1, "checkpoints": [{"step": "reserve", "value": {"seat": 12}}], "logs": ["seat 12 reserved"]}"#),
    op("post /jobs/{id}/stream", "appendJobStream",
        "Adds chunks to the partial output of a running job, in order. Each is any JSON, at most 64 KiB; a request has at most 1000 \
         and 1 MiB. With `offset` a repeated request adds nothing twice. A job keeps 8 MiB; the oldest chunks are dropped.")
        .body(r#"{"fence": 1, "offset": 0, "chunks": ["Once", " upon", " a", " time"]}"#),
    op("post /jobs/{id}/children", "spawnChildren",
        "Submits children of a running job and parks it until their group is decided. A repeat with the same `name` returns the \
         first group.")
        .body(r#"{"fence": 1, "name": "pages", "jobs": [{"type": "page.render", "payload": {"page": 1}}], "strategy": "collect_all"}"#),
];
