-- The tables. A job is one row in `hot`, which changes over its life, and one in `jobs`, which is written once.

CREATE TABLE meta (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    store_id       BLOB    NOT NULL,
    commits        INTEGER NOT NULL,
    next_seq       INTEGER NOT NULL,
    next_record    INTEGER NOT NULL,
    config_version INTEGER NOT NULL
);
INSERT INTO meta VALUES (1, randomblob(16), 0, 1, 1, 0);

-- `check` is a CRC-32 over the rest of its row, here and below.
CREATE TABLE lanes (
    id      INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    queue   TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    "check" INTEGER NOT NULL,
    UNIQUE (tenant, queue, type)
);

CREATE TABLE policies (
    id      INTEGER PRIMARY KEY,
    body    TEXT    NOT NULL UNIQUE,
    "check" INTEGER NOT NULL
);

-- The job as submitted; no `content_type` means JSON. The payload is last, so that the other columns are read without
-- following its overflow pages.
CREATE TABLE jobs (
    seq             INTEGER PRIMARY KEY,
    owner           TEXT NOT NULL,
    content_type    TEXT,
    idempotency_key TEXT,
    unique_key      TEXT,
    concurrency_key TEXT,
    tags            TEXT,
    correlation_id  TEXT,
    callback_url    TEXT,
    traceparent     TEXT,
    after           BLOB,
    after_any       BLOB,
    "check"         INTEGER NOT NULL,
    payload         BLOB NOT NULL
);
CREATE INDEX jobs_correlation ON jobs (correlation_id) WHERE correlation_id IS NOT NULL;

CREATE TABLE tags (
    name  TEXT    NOT NULL,
    value TEXT    NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (name, value, seq)
) WITHOUT ROWID;

-- The current job. `record` holds all of it, encoded, with its CRC-32; a row of some 35 columns instead costs a third
-- of the claims per second. The other columns exist for indexes and filters, and are derived from it:
--   state      the state's code, or 12 for a scheduled job that is blocked on its concurrency key
--   order_key  the lane if scheduled, the concurrency key if blocked, else 0
--   rank       100 - effective priority if scheduled, else 0
--   at         when it became claimable if scheduled; 0 if final; else when its timer is due, 2^63-1 for never
CREATE TABLE hot (
    seq         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL,
    lane        INTEGER NOT NULL,
    policy      INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    order_key   INTEGER NOT NULL,
    rank        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    concurrency INTEGER,
    parent      BLOB,
    record      BLOB    NOT NULL
);
CREATE UNIQUE INDEX hot_id ON hot (id);
-- Claims, timers and lists by state; `seq` follows `at` implicitly as the row id.
CREATE INDEX hot_order ON hot (state, order_key, rank, at);
CREATE INDEX hot_lifetime ON hot (expires_at) WHERE state IN (3, 12);
CREATE INDEX hot_holders ON hot (concurrency) WHERE state = 4 AND concurrency IS NOT NULL;
CREATE INDEX hot_aside ON hot (concurrency, lane, rank, at) WHERE state = 12;
CREATE INDEX hot_children ON hot (parent) WHERE parent IS NOT NULL;

CREATE TABLE keys (
    kind       INTEGER NOT NULL,
    tenant     TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    "check"    INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant, type, key)
) WITHOUT ROWID;

CREATE TABLE edges (
    dependency INTEGER NOT NULL,
    dependent  INTEGER NOT NULL,
    need       INTEGER NOT NULL,
    PRIMARY KEY (dependency, dependent, need)
) WITHOUT ROWID;
CREATE INDEX edges_dependent ON edges (dependent, dependency, need);

CREATE TABLE facets (
    seq     INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    number  INTEGER NOT NULL,
    "check" INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (seq, kind, name, number)
) WITHOUT ROWID;

CREATE TABLE documents (
    kind    INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    "check" INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE audit (
    seq        INTEGER PRIMARY KEY,
    event      INTEGER NOT NULL,
    alias      TEXT,
    at         INTEGER NOT NULL,
    actor_type TEXT    NOT NULL,
    actor_id   TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    job        BLOB,
    trace_id   TEXT,
    context    TEXT    NOT NULL
);
CREATE INDEX audit_job ON audit (job) WHERE job IS NOT NULL;

CREATE TABLE counts (
    lane  INTEGER NOT NULL,
    state INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (lane, state)
) WITHOUT ROWID;
