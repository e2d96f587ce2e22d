-- Submissions that need no lock. `@.` stands for the schema.

-- Appends jobs that were decided about with the version `config` of the configuration by a node that knows the commit
-- `known`. Returns no `head` if that is not the current version, or if the database lacks that commit or what the same
-- appender stored before, in the place `last` after the commit `last_since`; otherwise the last commit, and the place.
--
-- The lock is shared among appends. A commit that changes the configuration takes it alone: nothing that was decided about
-- with the old one can then follow. Each statement sees what was committed before it, in this isolation level alone.
--
-- Each statement costs as much as the insertion, so most calls run two: a node mostly knows the last commit, and what it
-- stored last is mostly not taken in yet. For the same reason it has no settings of its own: a node sets them for its
-- connections, unless a pooler shares these.
CREATE OR REPLACE FUNCTION @.append(known bigint, known_nonce bigint, config bigint, gate bigint, nonce bigint, body bytea,
    last bigint, last_nonce bigint, last_since bigint,
    OUT head bigint, OUT head_nonce bigint, OUT head_at bigint, OUT number bigint)
LANGUAGE plpgsql AS $$
DECLARE
    version bigint;
    is_same boolean;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF pg_catalog.current_setting('synchronous_commit') = 'off' THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
    IF pg_catalog.current_setting('plan_cache_mode') <> 'force_generic_plan'
            OR pg_catalog.current_setting('enable_seqscan') <> 'off' THEN
        PERFORM pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true),
            pg_catalog.set_config('enable_seqscan', 'off', true);
    END IF;
    -- An expression, which is no statement. It is never null.
    is_same := pg_catalog.pg_advisory_xact_lock_shared(gate) IS NOT NULL;
    SELECT c.config_version, c.n, c.nonce, c.at,
            last IS NULL OR EXISTS (SELECT 1 FROM @.appends a WHERE a.n = last AND a.nonce = last_nonce)
        INTO STRICT version, head, head_nonce, head_at, is_same
        FROM @.commits c ORDER BY c.n DESC LIMIT 1;
    IF NOT is_same OR known <> head OR known_nonce <> head_nonce THEN
        SELECT EXISTS (SELECT 1 FROM @.commits k WHERE k.n = known AND k.nonce = known_nonce)
                AND (last IS NULL OR EXISTS (SELECT 1 FROM @.appends a WHERE a.n = last AND a.nonce = last_nonce)
                    OR EXISTS (SELECT 1 FROM @.commits k WHERE k.n > last_since AND last_nonce = ANY (k.absorbed))
                    OR NOT EXISTS (SELECT 1 FROM @.commits k WHERE k.n = last_since))
            INTO is_same;
    END IF;
    IF version <> config OR NOT is_same THEN
        head := NULL;
        RETURN;
    END IF;
    INSERT INTO @.appends (nonce, body) VALUES (append.nonce, append.body) RETURNING n INTO number;
END $$;
