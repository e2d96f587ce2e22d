//! Operations on jobs, for those who submit them.

use super::{Operation, op};

#[rustfmt::skip]
pub(super) const OPERATIONS: &[Operation] = &[
    op("post /jobs", "submitJob",
        "Stores a job; the answer is sent when it is on disk. With an `idempotency_key` a repeat returns the first job with \
         `duplicate: true`, so that a request whose answer was lost can be sent again.")
        .body(r#"{"type": "email.send", "queue": "mail", "payload": {"to": "ada@example.com"}, "idempotency_key": "welcome-7"}"#),
    op("get /jobs", "listJobs",
        "Jobs that match all given filters, newest first. Continue with `next_cursor` until it is null; a page can have fewer \
         jobs than its limit before that."),
    op("post /jobs/batch", "submitJobs",
        "Stores up to 10,000 jobs in one commit, all or none. A job may have a `name`, which others of the batch use in \
         `after` as `@name`.")
        .body(r#"{"jobs": [{"type": "order.charge", "name": "charge"}, {"type": "order.ship", "after": ["@charge"]}]}"#),
    op("post /jobs/bulk", "actOnJobs",
        "The same action on every job that matches a filter. With `dry_run` it only counts them. With `limit` it continues where \
         `next_cursor` says.")
        .body(r#"{"action": "redrive", "filter": {"state": "dead_letter", "queue": "mail"}, "dry_run": true}"#),
    op("get /jobs/{id}", "getJob",
        "One job. With `wait` it answers when the job is final, or after that time in its current state; with `payload` it \
         includes the payload."),
    op("patch /jobs/{id}", "updateJob",
        "Changes priority, tags, correlation id or callback URL of a job that is not final. Fields that are not given stay, \
         null clears one.")
        .body(r#"{"tags": {"customer": "7"}, "correlation_id": "order-7"}"#),
    op("delete /jobs/{id}", "deleteJob",
        "Deletes a final job with its payload, result and log. The audit trail keeps its records. A job that an unfinished job \
         needs is not deleted (409 `job_needed`)."),
    op("post /jobs/{id}/submit", "submitHeldJob",
        "Submits a job that was stored with `hold`.").body("{}"),
    op("post /jobs/{id}/suspend", "suspendJob",
        "Keeps a job from running until it is resumed. `mode` decides what happens to a running attempt: `idle_only` refuses, \
         `graceful` waits for its end, `aggressive` stops it.")
        .body(r#"{"mode": "graceful", "reason": "the supplier is down", "expires": "2h"}"#),
    op("post /jobs/{id}/resume", "resumeJob",
        "Ends a suspension, or withdraws one that has not taken effect.").body(r#"{"reason": "the supplier is back"}"#),
    op("post /jobs/{id}/cancel", "cancelJob",
        "Ends a job. A waiting job is cancelled at once; the worker of a running one learns it from its next heartbeat.")
        .body(r#"{"reason": "the order was withdrawn"}"#),
    op("post /jobs/{id}/priority", "setJobPriority",
        "Changes the priority of a job that is not final.").body(r#"{"value": "high"}"#),
    op("post /jobs/{id}/redrive", "redriveJob",
        "Submits a final job again as a new job, which continues after its last checkpoint unless `reset_checkpoints` is set. \
         `from_step` runs a saved step and those after it again. `payload` replaces the old one.")
        .body(r#"{"only_once": true}"#),
    op("post /jobs/{id}/signals/{name}", "signalJob",
        "Sends a signal with a value. It is stored until the job waits for a signal of this name.")
        .body(r#"{"value": {"paid_cents": 1999}}"#),
    op("get /jobs/{id}/attempts", "listJobAttempts",
        "Every attempt with its worker, its outcome and its error, the running one last."),
    op("get /jobs/{id}/checkpoints", "listJobCheckpoints",
        "The values that steps of the job have saved. Needs the permission to read payloads."),
    op("get /jobs/{id}/events", "listJobEvents",
        "The job's part of the audit trail, oldest first."),
    op("get /jobs/{id}/children", "listJobChildren",
        "Jobs that the job has spawned, with their results, and the groups that they belong to. With `limit` or `cursor` they come in \
         pages."),
    op("get /jobs/{id}/logs", "getJobLog",
        "Lines that workers wrote for the job. Needs the permission to read payloads."),
    op("get /jobs/{id}/stream", "readJobStream",
        "The partial output that the job's worker has streamed. As JSON it is a page after the number `after`; with `wait` it answers \
         when there is more, or when the job is final. With `Accept: text/event-stream` it is a stream of the events `chunk`, with \
         the number as id for `Last-Event-ID`; `restart`, before a chunk that starts the output over; and `end`. Needs the \
         permission to read payloads."),
    op("get /jobs/{id}/result", "getJobResult",
        "State, result and last error. With `wait` it answers when the job is final. Needs the permission to read payloads."),
    op("get /jobs/{id}/graph", "getJobGraph",
        "The jobs that it waits for, those that wait for it, its parents and children."),
    op("post /jobs/{id}/tokens", "createJobToken",
        "Makes a token that reads this job, its result and its partial output, and nothing else, for example in a browser. It ends with its time, at the \
         latest after 24 hours, or with the key that made it.")
        .body(r#"{"expires": "15m"}"#),
    op("get /jobs/{id}/explain", "explainJob",
        "Every reason why the job is not running now, all at once: pauses, limits, dependencies, missing workers."),
];
