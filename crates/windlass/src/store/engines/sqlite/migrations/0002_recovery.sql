-- What a store needs to notice that it was put back to an earlier moment, and to keep its own time.

-- Changes with every restore; part of every fence.
ALTER TABLE meta ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;

-- The time of the last commit: store time goes on from it, whichever process commits next.
ALTER TABLE meta ADD COLUMN at INTEGER NOT NULL DEFAULT 0;

-- What an audit record is about, besides its job: found again after the job is gone. Records from before have neither.
ALTER TABLE audit ADD COLUMN queue TEXT;
ALTER TABLE audit ADD COLUMN type TEXT;
-- The same moment as the machine counts it: which start of it, and milliseconds since then. Other processes on the file go on
-- from there, whatever the wall clock shows.
ALTER TABLE meta ADD COLUMN boot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN uptime INTEGER NOT NULL DEFAULT 0;
-- Jobs that wait for their time (delayed, retrying, parked), by lane and urgency: when more become due at once than one
-- commit moves, claims find the most urgent ones here. `due_rank` is 100 - effective priority, NULL for all others.
ALTER TABLE hot ADD COLUMN due_rank INTEGER;
CREATE INDEX hot_due ON hot (lane, due_rank, at) WHERE due_rank IS NOT NULL;
-- Running jobs by the worker that they are leased to: the last eight bytes of its id, 0 for jobs that ran already.
ALTER TABLE hot ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;
CREATE INDEX hot_worker ON hot (worker) WHERE state = 4;
-- An idempotency key lives until its own end, also after its job was removed. It remembers the job's id and the SHA-256 of
-- its content type, a zero byte and its payload; `ended` is the state of a removed job, none while the job is stored.
ALTER TABLE keys ADD COLUMN job BLOB;
ALTER TABLE keys ADD COLUMN payload BLOB;
ALTER TABLE keys ADD COLUMN ended INTEGER;
CREATE INDEX keys_ended ON keys (expires_at) WHERE ended IS NOT NULL;
-- Final jobs that were redriven are listed apart: their `order_key` is 1. Event 10 of the audit trail says which they are.
UPDATE hot SET order_key = 1 WHERE state IN (8, 9, 10, 11) AND id IN (SELECT job FROM audit WHERE event = 10);
