-- The inbox: submissions by the SQL function `submit`, until a writer makes jobs of them. `@.` stands for the schema.

CREATE TABLE @.inbox (
    n               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid  NOT NULL,
    owner           text  NOT NULL,
    tenant          text COLLATE "C" NOT NULL,
    type            text COLLATE "C" NOT NULL,
    idempotency_key bytea,
    unique_key      bytea,
    content_type    text  NOT NULL,
    body            jsonb NOT NULL,
    -- Why no job can be made of it; it then stays for inspection, and `verify` reports it.
    refusal         text,
    payload         bytea NOT NULL
);
ALTER TABLE @.inbox ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE @.inbox SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX inbox_id ON @.inbox (id);
CREATE UNIQUE INDEX inbox_idempotency_key ON @.inbox (tenant, type, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND refusal IS NULL;
CREATE UNIQUE INDEX inbox_unique_key ON @.inbox (tenant, type, unique_key)
    WHERE unique_key IS NOT NULL AND refusal IS NULL;

-- The options of the nodes that `submit` needs; written by the node that started last.
CREATE TABLE @.inbox_options (
    is_only           boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    payload_bytes_max bigint  NOT NULL
);
INSERT INTO @.inbox_options (payload_bytes_max) VALUES (1048576);
