-- What a store needs to detect that it was restored to an earlier state, and to keep its own time. `@.` stands for the
-- schema.

-- Changes with every restore or loss of acknowledged commits; part of every fence.
ALTER TABLE @.commits ADD COLUMN generation bigint NOT NULL DEFAULT 1;
-- Whether others can see the commit before it is on disk.
ALTER TABLE @.commits ADD COLUMN is_early boolean NOT NULL DEFAULT false;

-- The subject of an audit record besides its job: searchable after the job was removed. Older records have neither.
ALTER TABLE @.audit ADD COLUMN queue text COLLATE "C";
ALTER TABLE @.audit ADD COLUMN type text COLLATE "C";

-- Entries of running jobs belong to one worker: the last eight bytes of its id, 0 where it is unknown.
ALTER TABLE @.timers ADD COLUMN worker bigint NOT NULL DEFAULT 0;
DROP INDEX @.timers_running;
CREATE INDEX timers_worker ON @.timers (worker) WHERE is_running;

-- The identity of this database, as found by the last node that connected. A different one means a restore or a
-- promotion.
CREATE TABLE @.cluster (
    is_only           boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    system_identifier bigint,
    timeline          bigint,
    relation          bigint
);
-- An idempotency key stays until it expires, even after its job was removed. It stores the job's id and the SHA-256 of
-- its content type, a zero byte and its payload; `ended` is the state of a removed job, NULL while the job is stored.
ALTER TABLE @.keys ADD COLUMN job uuid, ADD COLUMN payload bytea, ADD COLUMN ended smallint;
CREATE INDEX keys_ended ON @.keys (expires_at) WHERE ended IS NOT NULL;

-- Final jobs that were redriven are listed separately: their state is 20 higher in `states`, and those that completed
-- are there too. Event 10 of the audit trail identifies them.
DELETE FROM @.states s USING @.hot h, @.audit a
    WHERE h.seq = s.seq AND s.state IN (9, 10, 11) AND a.job = h.id AND a.event = 10;
INSERT INTO @.states (state, seq) SELECT h.state + 20, h.seq FROM @.hot h
    WHERE h.state IN (8, 9, 10, 11) AND EXISTS (SELECT FROM @.audit a WHERE a.job = h.id AND a.event = 10);

-- How many open jobs have each concurrency key, and how many keys are in use per tenant: for the limit on keys. Jobs of
-- the system itself do not count. Space is left on each page, so that a changed number stays on its page.
CREATE TABLE @.concurrency_keys (
    tenant text COLLATE "C" NOT NULL,
    key    bigint NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 70);
CREATE TABLE @.concurrency_key_totals (
    tenant text COLLATE "C" PRIMARY KEY,
    n      bigint NOT NULL
) WITH (fillfactor = 45);
ALTER TABLE @.concurrency_keys SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
ALTER TABLE @.concurrency_key_totals SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
-- A key is the first 63 bits after the sign of the SHA-256 of the JSON array of tenant and key, as the writer computes
-- it. It is escaped byte by byte: a key may contain a zero byte, which text cannot.
INSERT INTO @.concurrency_keys (tenant, key, n)
    SELECT l.tenant, ('x' || encode(substring(sha256(convert_to('["' || l.tenant || '","', 'UTF8') || e.escaped
            || convert_to('"]', 'UTF8')) FOR 8), 'hex'))::bit(64)::bigint & 9223372036854775807 AS digest, count(*)
    FROM @.hot h JOIN @.lanes l ON l.id = h.lane JOIN @.jobs j ON j.seq = h.seq
    CROSS JOIN LATERAL (
        SELECT coalesce(decode(string_agg(CASE WHEN b IN (34, 92) THEN '5c' || to_hex(b) WHEN b = 8 THEN '5c62'
            WHEN b = 9 THEN '5c74' WHEN b = 10 THEN '5c6e' WHEN b = 12 THEN '5c66' WHEN b = 13 THEN '5c72'
            WHEN b < 32 THEN '5c753030' || encode(convert_to(lpad(to_hex(b), 2, '0'), 'UTF8'), 'hex')
            ELSE lpad(to_hex(b), 2, '0') END, '' ORDER BY i), 'hex'), '') AS escaped
        FROM generate_series(0, octet_length(j.concurrency_key) - 1) i
        CROSS JOIN LATERAL (SELECT get_byte(j.concurrency_key, i) AS b) one) e
    WHERE j.concurrency_key IS NOT NULL AND h.state NOT IN (8, 9, 10, 11) AND l.type <> 'windlass.callback'
    GROUP BY l.tenant, digest;
INSERT INTO @.concurrency_key_totals (tenant, n) SELECT tenant, count(*) FROM @.concurrency_keys GROUP BY tenant;
