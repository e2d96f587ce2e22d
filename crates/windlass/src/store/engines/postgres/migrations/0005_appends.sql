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

-- Appends jobs that were decided about with the version `config` of the configuration by a node that knows the commit
-- `known`. Returns no row if that is not the current version, or if the database lacks that commit; otherwise the
-- last commit.
--
-- The lock is shared among appends. A commit that changes the configuration takes it alone: nothing that was decided about
-- with the old one can then follow. Each statement sees what was committed before it, in this isolation level alone.
CREATE FUNCTION @.append(known bigint, known_nonce bigint, config bigint, gate bigint, nonce bigint, body bytea,
    OUT head bigint, OUT head_nonce bigint, OUT head_at bigint)
LANGUAGE plpgsql AS $$
DECLARE
    version bigint;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF pg_catalog.current_setting('synchronous_commit') = 'off' THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(gate);
    IF NOT EXISTS (SELECT 1 FROM @.commits c WHERE c.n = known AND c.nonce = known_nonce) THEN
        RETURN;
    END IF;
    SELECT c.config_version, c.n, c.nonce, c.at INTO version, head, head_nonce, head_at
        FROM @.commits c ORDER BY c.n DESC LIMIT 1;
    IF version <> config THEN
        head := NULL;
        RETURN;
    END IF;
    INSERT INTO @.appends (nonce, body) VALUES (append.nonce, append.body);
END $$;

-- `submit` in SQL: dependencies may be among the appended jobs, whose ids are in the bytes. The writer looks at them more
-- closely.
CREATE OR REPLACE FUNCTION @.door_after(field text, given jsonb, of_tenant text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    value text;
    place bigint;
    other uuid;
    others jsonb := '[]';
BEGIN
    IF given IS NULL OR pg_catalog.jsonb_typeof(given) = 'null' THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'array' THEN
        PERFORM @.door_refuse(field, 'is not a list of ids');
    END IF;
    FOR value, place IN SELECT e.value #>> '{}', e.place - 1
        FROM pg_catalog.jsonb_array_elements(given) WITH ORDINALITY e(value, place) LOOP
        other := NULL;
        IF value ~* '^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$' THEN
            other := value::uuid;
        END IF;
        IF other IS NULL OR NOT (
            EXISTS (SELECT 1 FROM @.hot h JOIN @.lanes l ON l.id = h.lane WHERE h.id = other AND l.tenant = of_tenant)
            OR EXISTS (SELECT 1 FROM @.inbox i WHERE i.id = other AND i.tenant = of_tenant)
            OR EXISTS (SELECT 1 FROM @.appends a WHERE a.refusal IS NULL
                AND pg_catalog.position(a.body, pg_catalog.uuid_send(other)) > 0)
        ) THEN
            PERFORM @.door_refuse(field || '.' || place, pg_catalog.format('`%s` names no job', pg_catalog.left(value, 64)));
        END IF;
        others := others || pg_catalog.to_jsonb(other);
    END LOOP;
    RETURN others;
END $$;
