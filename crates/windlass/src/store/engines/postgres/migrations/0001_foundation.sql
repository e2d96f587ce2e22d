-- The tables. `@.` stands for the schema. A job is one row in `hot`, which changes over its life, and one in `jobs`,
-- which is written once. Free text from callers is stored as bytes: it may contain any character, and bytes have one
-- order everywhere. No foreign keys: the writer maintains the references, and `verify` checks them.

-- One row per commit, never changed: the current numbers after it, and what other nodes need to update their caches. A
-- row updated by every commit would leave a chain of dead versions that every commit has to skip.
CREATE TABLE @.commits (
    n              bigint PRIMARY KEY,
    nonce          bigint NOT NULL,
    at             bigint NOT NULL,
    next_seq       bigint NOT NULL,
    next_record    bigint NOT NULL,
    config_version bigint NOT NULL,
    counts_base    bigint NOT NULL,
    -- The first position that was added to each lane of `ready`; NULL if none was, empty if there were too many to
    -- list.
    lowered        bytea,
    -- The earliest time that was added to `timers`.
    timer_at       bigint,
    -- Whether entries of `timers` were replaced.
    has_swept      boolean NOT NULL
);
INSERT INTO @.commits VALUES (0, 0, 0, 1, 1, 0, 0, NULL, NULL, false);

-- `check` is a CRC-32 over the rest of its row, here and below.
CREATE TABLE @.lanes (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    type    text COLLATE "C" NOT NULL,
    "check" bigint NOT NULL,
    UNIQUE (tenant, queue, type)
);

CREATE TABLE @.policies (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body    text COLLATE "C" NOT NULL,
    "check" bigint NOT NULL
);
CREATE UNIQUE INDEX policies_body ON @.policies (md5(body));

-- The job as submitted; no `content_type` means JSON.
CREATE TABLE @.jobs (
    seq             bigint PRIMARY KEY,
    owner           bytea NOT NULL,
    content_type    bytea,
    idempotency_key bytea,
    unique_key      bytea,
    concurrency_key bytea,
    tags            bytea,
    correlation_id  bytea,
    callback_url    bytea,
    traceparent     bytea,
    after           bytea,
    after_any       bytea,
    "check"         bigint NOT NULL,
    payload         bytea NOT NULL
);
ALTER TABLE @.jobs ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX jobs_correlation ON @.jobs (correlation_id, seq) WHERE correlation_id IS NOT NULL;

CREATE TABLE @.tags (
    name  bytea  NOT NULL,
    value bytea  NOT NULL,
    seq   bigint NOT NULL,
    PRIMARY KEY (name, value, seq)
);

-- The current job, encoded, with its CRC-32. There is no index on anything that changes, so that a change stays on its
-- page and touches no index; the positions of a job are derived from it and stored in the narrow tables below.
CREATE TABLE @.hot (
    seq        bigint   PRIMARY KEY,
    id         uuid     NOT NULL,
    lane       bigint   NOT NULL,
    policy     bigint   NOT NULL,
    created_at bigint   NOT NULL,
    parent     uuid,
    state      smallint NOT NULL,
    record     bytea    NOT NULL
) WITH (fillfactor = 45);
CREATE UNIQUE INDEX hot_id ON @.hot (id);
CREATE INDEX hot_children ON @.hot (parent, seq) WHERE parent IS NOT NULL;

-- Claimable jobs that are not blocked, in claim order.
CREATE TABLE @.ready (
    lane bigint   NOT NULL,
    rank smallint NOT NULL,
    at   bigint   NOT NULL,
    seq  bigint   NOT NULL,
    PRIMARY KEY (lane, rank, at, seq)
);

-- Jobs with a concurrency key that run (state 4) or are blocked on it (12).
CREATE TABLE @.slots (
    key   bigint   NOT NULL,
    state smallint NOT NULL,
    lane  bigint   NOT NULL,
    rank  smallint NOT NULL,
    at    bigint   NOT NULL,
    seq   bigint   NOT NULL,
    PRIMARY KEY (key, state, lane, rank, at, seq)
);

-- Jobs that neither run nor can be claimed, by state: for lists.
CREATE TABLE @.states (
    state smallint NOT NULL,
    seq   bigint   NOT NULL,
    PRIMARY KEY (state, seq)
);

-- Sets of jobs without timers due before `at`. An entry is a lower bound: a job that has moved on since is read once,
-- when the entry's time has come. Every open job with a timer is in an entry that is early enough, and every running
-- job is in one with `is_running`.
CREATE TABLE @.timers (
    at         bigint  NOT NULL,
    first      bigint  NOT NULL,
    n          bigint  NOT NULL,
    part       bigint  NOT NULL,
    is_running boolean NOT NULL,
    seqs       bytea   NOT NULL,
    PRIMARY KEY (at, first, n, part)
);

CREATE INDEX timers_running ON @.timers (n, part) WHERE is_running;

CREATE TABLE @.keys (
    kind       smallint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    type       text COLLATE "C" NOT NULL,
    key        bytea    NOT NULL,
    seq        bigint   NOT NULL,
    expires_at bigint   NOT NULL,
    "check"    bigint   NOT NULL,
    PRIMARY KEY (kind, tenant, type, key)
);

CREATE TABLE @.edges (
    dependency bigint   NOT NULL,
    dependent  bigint   NOT NULL,
    need       smallint NOT NULL,
    PRIMARY KEY (dependency, dependent, need)
);
CREATE INDEX edges_dependent ON @.edges (dependent, dependency, need);

CREATE TABLE @.facets (
    seq     bigint   NOT NULL,
    kind    smallint NOT NULL,
    name    bytea    NOT NULL,
    number  bigint   NOT NULL,
    "check" bigint   NOT NULL,
    body    bytea    NOT NULL,
    PRIMARY KEY (seq, kind, name, number)
);

CREATE TABLE @.documents (
    kind    smallint NOT NULL,
    key     bytea    NOT NULL,
    "check" bigint   NOT NULL,
    body    bytea    NOT NULL,
    PRIMARY KEY (kind, key)
);

CREATE TABLE @.audit (
    seq        bigint   PRIMARY KEY,
    event      smallint NOT NULL,
    alias      bytea,
    at         bigint   NOT NULL,
    actor_type bytea    NOT NULL,
    actor_id   bytea    NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    job        uuid,
    trace_id   bytea,
    context    bytea    NOT NULL
);
CREATE INDEX audit_job ON @.audit (job, seq) WHERE job IS NOT NULL;

-- Changes of the counts by lane and state, per commit; periodically added up under the commit that does so.
CREATE TABLE @.counts (
    n     bigint   NOT NULL,
    lane  bigint   NOT NULL,
    state smallint NOT NULL,
    by    bigint   NOT NULL,
    PRIMARY KEY (n, lane, state)
);

-- Tables whose rows come and go are vacuumed early and often; append-only tables need it rarely.
ALTER TABLE @.ready SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE @.timers SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE @.slots SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
ALTER TABLE @.counts SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 10000);
ALTER TABLE @.commits SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 10000);
ALTER TABLE @.hot SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000);
