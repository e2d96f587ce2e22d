//! Operations of operators and monitoring.

use super::{Operation, op};

#[rustfmt::skip]
pub(super) const OPERATIONS: &[Operation] = &[
    op("get /queues", "listQueues", "Every queue with its counts, rates, pause and settings."),
    op("get /queues/{queue}", "getQueue",
        "One queue. Any name is accepted; `known` says whether it is used, and `similar` has names that are close to it."),
    op("put /queues/{queue}", "updateQueue",
        "Changes settings of a queue: limits, rate, fairness, aging, retry policy, time limits, push target, retention. Fields that \
         are not given stay, null clears one.")
        .body(r#"{"max_running": 20, "rate": {"count": 100, "per": "1m"}}"#),
    op("post /queues/{queue}/pause", "pauseQueue",
        "Stops starting jobs of a queue. Running ones finish, or are stopped and suspended with `mode: aggressive`.")
        .body(r#"{"mode": "graceful", "reason": "maintenance", "expires": "30m"}"#),
    op("post /queues/{queue}/resume", "resumeQueue",
        "Ends the pause of a queue. `jobs` also resumes jobs that an aggressive pause has suspended.")
        .body(r#"{"reason": "maintenance is over"}"#),
    op("get /workers", "listWorkers", "Registered workers, with their last sign of life and their pause."),
    op("post /workers/{id}/pause", "pauseWorker", "Gives a worker no more jobs until it is resumed.")
        .body(r#"{"reason": "to be restarted"}"#),
    op("post /workers/{id}/resume", "resumeWorker", "Ends the pause of a worker.").body(r#"{"reason": "restarted"}"#),
    op("get /gate", "getProcessing", "Whether jobs are processed, and which tenants and types are paused."),
    op("post /gate/offline", "pauseProcessing",
        "Stops starting jobs: all, those of a tenant, or those of a type. Submissions are still accepted.")
        .body(r#"{"type": "email.send", "reason": "the mail server moves", "expires": "1h"}"#),
    op("post /gate/online", "resumeProcessing", "Ends such a pause.").body(r#"{"type": "email.send"}"#),
    op("get /clock", "getClock", "Store time and the wall clock, as the responding node sees them."),
    op("post /clock/accept", "acceptClock",
        "Lets store time follow a wall clock that has jumped. Until then timers go by the old time.").body("{}"),
    op("get /retention", "getRetention", "How long final jobs are kept where neither their type nor their queue says so."),
    op("put /retention", "updateRetention",
        "Changes that. Fields that are not given stay, null restores what the server was started with.")
        .body(r#"{"completed": "7d"}"#),
    op("get /tenants", "listTenants", "Every tenant with its counts, costs, pause and settings."),
    op("get /tenants/{tenant}", "getTenant", "One tenant. Any name is accepted; `known` says whether it is used."),
    op("put /tenants/{tenant}", "updateTenant",
        "Changes settings of a tenant: limits, share of fair queues, budget. Fields that are not given stay, null clears one.")
        .body(r#"{"max_running": 50, "budget_cents": 100000, "budget_period": "month"}"#),
    op("get /types", "listTypes", "Every job type with its counts, rates, pause and settings."),
    op("get /types/{type}", "getType", "One job type. Any name is accepted; `known` says whether it is used."),
    op("put /types/{type}", "updateType",
        "Changes settings of a job type: limits, rate, retry policy, time limits, event names, retention. Fields that are not \
         given stay, null clears one.")
        .body(r#"{"retry": {"preset": "backoff", "max_attempts": 5}, "timeouts": {"execution": "5m"}}"#),
    op("get /schedules", "listSchedules",
        "Every schedule with its timing, its job and its next runs. With `deleted` those that can be restored."),
    op("get /schedules/{schedule}", "getSchedule", "One schedule."),
    op("put /schedules/{schedule}", "putSchedule",
        "Creates a schedule or replaces it: give one of `cron`, `every` and `at`, and the job that each run submits.")
        .body(r#"{"cron": "0 7 * * MON-FRI", "timezone": "Europe/Berlin", "job": {"type": "report.daily"}}"#),
    op("delete /schedules/{schedule}", "deleteSchedule", "Deletes a schedule. Jobs that it has submitted stay."),
    op("post /schedules/{schedule}/restore", "restoreSchedule",
        "Creates a deleted schedule again, as it was. Possible for 35 days, unless a new schedule has its name (409).").body("{}"),
    op("post /schedules/{schedule}/pause", "pauseSchedule", "Runs of a paused schedule are skipped.")
        .body(r#"{"reason": "holidays", "expires": "14d"}"#),
    op("post /schedules/{schedule}/resume", "resumeSchedule", "Ends the pause of a schedule.")
        .body(r#"{"reason": "holidays are over"}"#),
    op("post /schedules/{schedule}/trigger", "triggerSchedule", "Submits the schedule's job once, now, beside its regular runs.")
        .body("{}"),
    op("get /alerts", "listAlerts",
        "Every alert with its condition, its receiver and its state. A caller of one tenant does not see alerts about all tenants."),
    op("get /alerts/{alert}", "getAlert", "One alert."),
    op("put /alerts/{alert}", "putAlert",
        "Creates an alert or replaces it. It fires when its condition holds, resolves when it no longer does, and sends a message \
         about each to its URL: as a signed webhook, or as Slack's incoming webhooks take it.")
        .body(r#"{"condition": "dead_letters", "more_than": 10, "within": "10m", "queue": "mail", "url": "https://example.com/alerts"}"#),
    op("delete /alerts/{alert}", "deleteAlert", "Deletes an alert. Nothing is sent about it, also if it fires."),
    op("post /alerts/{alert}/pause", "pauseAlert", "A paused alert keeps its state and sends nothing.")
        .body(r#"{"reason": "release", "expires": "1h"}"#),
    op("post /alerts/{alert}/resume", "resumeAlert", "Ends the pause of an alert.").body(r#"{"reason": "released"}"#),
    op("post /alerts/{alert}/test", "testAlert",
        "Sends a sample message, also if the alert is paused. The answer is the job that delivers it.").body("{}"),
    op("get /keys", "listKeys", "API keys without their secrets, oldest first."),
    op("post /keys", "createKey",
        "Creates an API key. Its secret is in this answer only. From the first key on every request needs one.")
        .body(r#"{"name": "shop", "role": "app", "expires": "365d"}"#),
    op("delete /keys/{id}", "revokeKey", "Makes a key invalid, within a second also for requests that wait."),
    op("get /stats", "getStats", "Jobs by state, queue, type and tenant, rates of the last hour, and costs."),
    op("get /stats/history", "getStatsHistory",
        "Throughput, failures, ready jobs, latency and use of the workers over any time of the last 30 days, in equal periods: of \
         everything, or of one queue, type or tenant."),
    op("get /audit", "listAuditRecords",
        "Who did what, when and from which request: oldest first, by job, event, actor, tenant, queue, type and time. A page can be \
         empty before the last one."),
    op("get /audit/head", "getAuditHead",
        "The newest seal of the audit trail. Keep it in another place, and `windlass audit verify` shows later \
         that nothing before it was changed."),
    op("get /events", "streamEvents",
        "Audit records as they are written, as server-sent events. `id` is the number of the record, `event` its name, `data` the \
         record as JSON. A connection that was lost continues with `Last-Event-ID`. A comment every 15 s shows that the stream is \
         alive; before it ends, an event `end` gives the reason."),
    op("get /healthz", "checkAlive", "Answers while the process is alive, whatever the state of its store."),
    op("get /readyz", "checkReady", "Answers 200 if the store can be reached and the server is not stopping, else 503."),
    op("get /metrics", "getMetrics", "Counters and histograms in the text format of Prometheus, or in that of OpenMetrics."),
    op("get /openapi.json", "getOpenApi", "This description as an OpenAPI document, for generators of clients."),
    op("get /docs/api", "getReference", "This description as a page for people."),
];
