//! Error codes: a closed list, stable for programs. `docs/http-api.md` documents the same list.

/// Every code with its status and its meaning.
pub const CODES: [(u16, &str, &str); 40] = [
    (400, "not_json", "the body is not JSON"),
    (400, "unreadable_body", "the body was cut off"),
    (400, "not_http", "not a valid HTTP/1.1 request, or its host or length is ambiguous"),
    (401, "unauthorized", "no API key, or an invalid one"),
    (403, "forbidden", "the key's role or tenant does not allow it"),
    (403, "cross_site", "a browser sent the request from a page of another site"),
    (403, "foreign_host", "without API keys: the Host header does not name this machine"),
    (404, "not_found", "the object does not exist, or the caller may not see it"),
    (405, "method_not_allowed", "the path does not support this method"),
    (
        408,
        "slow_body",
        "the body took longer than 20 s to arrive, or arrived with less than 128 bytes a second",
    ),
    (409, "state_conflict", "the job's state does not allow the action; `details.state`, `details.action`"),
    (409, "job_needed", "an unfinished job needs the job to be deleted; `details.job_id`, `details.role`"),
    (
        409,
        "already_redriven",
        "with `only_once`: the job was redriven already; `details.job_id` is the new job",
    ),
    (409, "already_suspended", "with `?strict=true`: the job is already suspended"),
    (409, "not_suspended", "with `?strict=true`: the job is not suspended"),
    (409, "already_paused", "with `?strict=true`: it is already paused"),
    (409, "not_paused", "with `?strict=true`: it is not paused"),
    (409, "unique_key_taken", "another unfinished job holds the key; `details.job_id`"),
    (
        409,
        "payload_differs",
        "with `?strict=true`: the idempotency key belongs to another payload; `details.job_id`",
    ),
    (409, "stale_fence", "the lease is no longer held; nothing was written"),
    (409, "last_admin_key", "the key is the last admin key; create another one first"),
    (
        412,
        "precondition_failed",
        "with `If-Match`: the job has changed; `details.version` is its current version",
    ),
    (413, "payload_too_large", "the payload exceeds the limit; `details.limit`"),
    (413, "body_too_large", "the body exceeds the route's limit; `details.limit`"),
    (414, "address_too_long", "the request's address is too long"),
    (422, "invalid_value", "invalid value; `details.field`, in a batch `details.index`"),
    (429, "too_many_jobs", "the queue or tenant has reached its limit of unfinished jobs"),
    (
        429,
        "too_many_requests",
        "the key sends too many requests, or too many reads of the key or its tenant are waiting",
    ),
    (
        429,
        "too_many_streams",
        "too many open event streams of the key, its tenant or in total; `details.limit`",
    ),
    (
        429,
        "too_many_workers",
        "the key or its tenant has too many registered workers, or they list too many names; `details.of`, \
         `details.limit`, `details.bytes_limit`",
    ),
    (429, "too_many_guesses", "this address has sent too many invalid keys"),
    (431, "head_too_large", "the request's headers are too large"),
    (500, "damaged", "stored data is damaged and is not served"),
    (500, "internal", "unexpected error"),
    (503, "disk_full", "the disk is full; running jobs can still finish"),
    (
        503,
        "overloaded",
        "too many requests wait for the store, a read took longer than 25 s, or too many large bodies are \
         in progress",
    ),
    (503, "stopped", "the store has stopped"),
    (503, "database", "database error"),
    (503, "starting", "the server is opening its store, as the message explains: retry"),
    (503, "draining", "the server is stopping: retry"),
];
