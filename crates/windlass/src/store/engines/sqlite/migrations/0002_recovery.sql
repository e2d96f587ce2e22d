-- What a store needs to detect that it was restored to an earlier state, and to keep its own time.

-- Changes with every restore; part of every fence.
ALTER TABLE meta ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;

-- The time of the last commit: store time continues from it, whichever process commits next.
ALTER TABLE meta ADD COLUMN at INTEGER NOT NULL DEFAULT 0;

-- The subject of an audit record besides its job: searchable after the job was removed. Older records have neither.
ALTER TABLE audit ADD COLUMN queue TEXT;
ALTER TABLE audit ADD COLUMN type TEXT;
-- The same time on the machine's clock: the boot id, and milliseconds since boot. Other processes on the file continue
-- from there, whatever the wall clock shows.
ALTER TABLE meta ADD COLUMN boot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN uptime INTEGER NOT NULL DEFAULT 0;
-- Jobs that wait for a time (delayed, retrying, parked), by lane and urgency: when more become due at once than one
-- commit moves, claims find the most urgent ones here. `due_rank` is 100 - effective priority, NULL for all others.
ALTER TABLE hot ADD COLUMN due_rank INTEGER;
CREATE INDEX hot_due ON hot (lane, due_rank, at) WHERE due_rank IS NOT NULL;
-- Running jobs by the worker that they are leased to: the last eight bytes of its id, 0 for jobs that were already
-- running.
ALTER TABLE hot ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;
CREATE INDEX hot_worker ON hot (worker) WHERE state = 4;
-- An idempotency key stays until it expires, even after its job was removed. It stores the job's id and the SHA-256 of
-- its content type, a zero byte and its payload; `ended` is the state of a removed job, NULL while the job is stored.
ALTER TABLE keys ADD COLUMN job BLOB;
ALTER TABLE keys ADD COLUMN payload BLOB;
ALTER TABLE keys ADD COLUMN ended INTEGER;
CREATE INDEX keys_ended ON keys (expires_at) WHERE ended IS NOT NULL;
-- Final jobs that were redriven are listed separately: their `order_key` is 1. Event 10 of the audit trail identifies
-- them.
UPDATE hot SET order_key = 1 WHERE state IN (8, 9, 10, 11) AND id IN (SELECT job FROM audit WHERE event = 10);
-- How many open jobs have each concurrency key, and how many keys are in use per tenant: for the limit on keys. Jobs of
-- the system itself do not count.
CREATE TABLE concurrency_keys (
    tenant TEXT    NOT NULL,
    key    INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE TABLE concurrency_key_totals (
    tenant TEXT    NOT NULL PRIMARY KEY,
    n      INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO concurrency_keys SELECT lanes.tenant, hot.concurrency, count(*) FROM hot JOIN lanes ON lanes.id = hot.lane
    WHERE hot.concurrency IS NOT NULL AND hot.state NOT IN (8, 9, 10, 11) AND lanes.type <> 'windlass.callback'
    GROUP BY lanes.tenant, hot.concurrency;
INSERT INTO concurrency_key_totals SELECT tenant, count(*) FROM concurrency_keys GROUP BY tenant;
