-- Submissions that need no shared decision: stored without the writers' lock, taken in by the next commit. `@.` stands
-- for the schema.

-- Jobs as they were answered, in the order in which they are to be taken in. Rows that cannot be read are kept aside.
CREATE TABLE @.appends (
    n       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME @.appends_n),
    nonce   bigint NOT NULL,
    body    bytea NOT NULL,
    refusal text
);
ALTER TABLE @.appends ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE @.appends SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

-- The nonces of the rows that a commit took in, for a node that did not receive the answer to one of them; and a number
-- before which nothing is left to be taken in, now or later.
ALTER TABLE @.commits ADD COLUMN absorbed bigint[];
ALTER TABLE @.commits ADD COLUMN appends_from bigint NOT NULL DEFAULT 0;
