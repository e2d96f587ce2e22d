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

-- `submit` in SQL: names of priorities are case-insensitive.
CREATE OR REPLACE FUNCTION @.door_priority(given jsonb) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    value text := given #>> '{}';
    name text := pg_catalog.lower(value);
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) = 'number' AND value ~ '^[0-9]{1,3}$' AND value::int <= 100 THEN
        RETURN value::int;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'string' OR name NOT IN ('critical', 'high', 'normal', 'low', 'bulk') THEN
        PERFORM @.door_refuse('priority', pg_catalog.format('`%s` is not one of 0 to 100, critical, high, normal, low, bulk',
            pg_catalog.left(value, 64)));
    END IF;
    RETURN CASE name WHEN 'critical' THEN 100 WHEN 'high' THEN 80 WHEN 'normal' THEN 50 WHEN 'low' THEN 10 ELSE 0 END;
END $$;
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

-- As before, but also honours the key of a removed job.
CREATE OR REPLACE FUNCTION @.submit(type text, payload bytea, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    of_type text := @.door_name('type', type);
    of_tenant text;
    content text;
    body jsonb;
    size_max bigint;
    key bytea;
    found_id uuid;
    is_same boolean;
    now_ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    new_id uuid := encode(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(now_ms) FROM 3) FROM 1 FOR 6),
        'hex')::uuid;
BEGIN
    options := coalesce(options, '{}');
    PERFORM @.door_known(NULL, options, ARRAY['queue', 'priority', 'delay', 'run_at', 'hold', 'idempotency_key',
        'idempotency_window', 'unique_key', 'concurrency_key', 'retry', 'timeouts', 'after', 'after_any', 'name', 'tags',
        'correlation_id', 'callback_url', 'tenant', 'traceparent', 'tracestate',
        'baggage', 'content_type', 'strict']);
    IF of_type = 'windlass.callback' THEN
        PERFORM @.door_refuse('type', 'is the system''s own; set `callback_url` instead');
    END IF;
    IF coalesce(jsonb_typeof(options -> 'strict'), 'null') NOT IN ('boolean', 'null') THEN
        PERFORM @.door_refuse('strict', 'is not true or false');
    END IF;
    of_tenant := @.door_name('tenant', coalesce(@.door_text('tenant', options -> 'tenant', 100000), 'default'));
    content := coalesce(@.door_text('content_type', options -> 'content_type', 255), 'application/octet-stream');
    SELECT d.payload_bytes_max INTO size_max FROM @.door d;
    IF payload IS NULL THEN
        PERFORM @.door_refuse('payload', 'is required');
    ELSIF octet_length(payload) > size_max THEN
        PERFORM @.door_refuse('payload', format('is %s bytes, the limit is %s', octet_length(payload), size_max));
    END IF;
    body := @.door_body(options, of_tenant);
    IF body ? 'idempotency_key' THEN
        key := convert_to(body ->> 'idempotency_key', 'UTF8');
        PERFORM @.door_lock_key(0, of_tenant, of_type, key);
        -- Separate statements after the lock, so that they see what its last holder committed. A node that makes a job of
        -- a submission moves its keys from `inbox` to `keys`, without the lock: looked at in this order, it is found in one.
        SELECT i.id, i.payload = payload AND i.content_type = content INTO found_id, is_same FROM @.inbox i
            WHERE i.tenant = of_tenant AND i.type = of_type AND i.idempotency_key = key AND i.refusal IS NULL;
        IF found_id IS NULL THEN
            -- The key of a removed job provides the id and a digest of the payload.
            SELECT coalesce(h.id, k.job), CASE WHEN h.id IS NULL
                    THEN k.payload = sha256(convert_to(content, 'UTF8') || '\x00'::bytea || payload)
                    ELSE j.payload = payload AND coalesce(j.content_type, 'application/json') = convert_to(content, 'UTF8') END
                INTO found_id, is_same FROM @.keys k LEFT JOIN @.hot h ON h.seq = k.seq LEFT JOIN @.jobs j ON j.seq = k.seq
                WHERE k.kind = 0 AND k.tenant = of_tenant AND k.type = of_type AND k.key = key AND k.expires_at > now_ms;
        END IF;
        IF found_id IS NOT NULL THEN
            IF NOT is_same AND coalesce((options -> 'strict')::boolean, false) THEN
                RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'idempotency_key',
                    MESSAGE = format('idempotency_key belongs with another payload to job %s', found_id),
                    DETAIL = 'field: idempotency_key', HINT = 'Choose another key, or leave out `strict` to be given that job.';
            END IF;
            RETURN found_id;
        END IF;
    END IF;
    IF body ? 'unique_key' THEN
        key := convert_to(body ->> 'unique_key', 'UTF8');
        PERFORM @.door_lock_key(1, of_tenant, of_type, key);
        SELECT i.id INTO found_id FROM @.inbox i
            WHERE i.tenant = of_tenant AND i.type = of_type AND i.unique_key = key AND i.refusal IS NULL;
        IF found_id IS NULL THEN
            SELECT h.id INTO found_id FROM @.keys k JOIN @.hot h ON h.seq = k.seq
                WHERE k.kind = 1 AND k.tenant = of_tenant AND k.type = of_type AND k.key = key
                AND h.state NOT IN (8, 9, 10, 11);
        END IF;
        IF found_id IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation', COLUMN = 'unique_key',
                MESSAGE = format('unique_key is held by job %s', found_id), DETAIL = 'field: unique_key',
                HINT = 'Submit again once that job has ended, or cancel it.';
        END IF;
    END IF;
    INSERT INTO @.inbox (id, owner, tenant, type, idempotency_key, unique_key, content_type, body, payload)
        VALUES (new_id, session_user, of_tenant, of_type, convert_to(body ->> 'idempotency_key', 'UTF8'),
            convert_to(body ->> 'unique_key', 'UTF8'), content, body, payload);
    IF lower(coalesce(nullif(current_setting('windlass.notify', true), ''), 'on')) NOT IN ('off', 'false', 'no', '0') THEN
        -- Several submissions in one transaction are one notification.
        PERFORM pg_notify('windlass:' || btrim('@.', '".'), 'door');
    END IF;
    RETURN new_id;
END $$;

-- `submit` in SQL: `retry` takes `jitter_mode` and the category `resource`, `timeouts` takes `start` and `visibility`.
CREATE OR REPLACE FUNCTION @.door_retry(given jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    preset text;
    retry jsonb := '{"strategy": "exponential", "initial_delay": 1000000000, "max_delay": 3600000000000, "multiplier": 2.0,
        "jitter": 0.1, "max_attempts": 3, "retry_on": ["timeout", "system"]}';
    field text;
    value text;
    attempts numeric;
    retries numeric;
BEGIN
    IF given IS NULL OR pg_catalog.jsonb_typeof(given) = 'null' THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) = 'string' THEN
        given := pg_catalog.jsonb_build_object('preset', given);
    END IF;
    PERFORM @.door_known('retry', given, ARRAY['preset', 'strategy', 'initial_delay', 'max_delay', 'multiplier', 'jitter',
        'jitter_mode', 'max_attempts', 'max_retries', 'retry_on']);
    given := pg_catalog.jsonb_strip_nulls(given);
    preset := coalesce(@.door_text('retry.preset', given -> 'preset', 255), 'standard');
    CASE preset
        WHEN 'standard' THEN NULL;
        WHEN 'fixed' THEN retry := retry || '{"strategy": "constant", "jitter": 0.0, "max_attempts": 4}';
        WHEN 'backoff' THEN retry := retry || '{"initial_delay": 10000000000, "jitter": 0.0, "max_attempts": 4}';
        ELSE PERFORM @.door_refuse('retry.preset', pg_catalog.format('`%s` is not one of standard, fixed, backoff', preset));
    END CASE;
    IF given ? 'strategy' THEN
        IF given -> 'strategy' NOT IN ('"constant"', '"linear"', '"exponential"', '"custom"') THEN
            PERFORM @.door_refuse('retry.strategy', 'is not one of constant, linear, exponential, custom');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('strategy', given -> 'strategy');
    END IF;
    IF given ? 'jitter_mode' THEN
        IF given -> 'jitter_mode' NOT IN ('"random"', '"hashed"') THEN
            PERFORM @.door_refuse('retry.jitter_mode', 'is not one of random, hashed');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('jitter_mode', given -> 'jitter_mode');
    END IF;
    FOREACH field IN ARRAY ARRAY['initial_delay', 'max_delay'] LOOP
        IF given ? field THEN
            retry := retry || pg_catalog.jsonb_build_object(field, @.door_span('retry.' || field, given -> field));
        END IF;
    END LOOP;
    FOREACH field IN ARRAY ARRAY['multiplier', 'jitter'] LOOP
        IF given ? field THEN
            value := given ->> field;
            IF pg_catalog.jsonb_typeof(given -> field) <> 'number'
                OR field = 'jitter' AND value::numeric NOT BETWEEN 0 AND 1
                OR field = 'multiplier' AND value::numeric NOT BETWEEN 1 AND 1000 THEN
                PERFORM @.door_refuse('retry.' || field, pg_catalog.format('is %s, allowed is %s', pg_catalog.left(value, 64),
                    CASE field WHEN 'jitter' THEN '0 to 1' ELSE '1 to 1000' END));
            END IF;
            retry := retry || pg_catalog.jsonb_build_object(field, given -> field);
        END IF;
    END LOOP;
    FOREACH field IN ARRAY ARRAY['max_attempts', 'max_retries'] LOOP
        value := given ->> field;
        IF value IS NOT NULL AND (pg_catalog.jsonb_typeof(given -> field) <> 'number' OR value !~ '^[0-9]{1,9}$'
            OR value::int NOT BETWEEN (field = 'max_attempts')::int AND 99 + (field = 'max_attempts')::int) THEN
            PERFORM @.door_refuse('retry.' || field, pg_catalog.format('is %s, allowed is %s', pg_catalog.left(value, 64),
                CASE field WHEN 'max_attempts' THEN '1 to 100' ELSE '0 to 99' END));
        END IF;
    END LOOP;
    attempts := (given ->> 'max_attempts')::int;
    retries := (given ->> 'max_retries')::int;
    IF attempts <> retries + 1 THEN
        PERFORM @.door_refuse('retry.max_retries', pg_catalog.format('is %s, which contradicts max_attempts %s', retries, attempts));
    END IF;
    IF coalesce(attempts, retries) IS NOT NULL THEN
        retry := retry || pg_catalog.jsonb_build_object('max_attempts', coalesce(attempts, retries + 1));
    END IF;
    IF given ? 'retry_on' THEN
        IF pg_catalog.jsonb_typeof(given -> 'retry_on') <> 'array'
            OR NOT given -> 'retry_on' <@ '["temporary", "timeout", "system", "resource"]' THEN
            PERFORM @.door_refuse('retry.retry_on', 'is not a list of temporary, timeout, system, resource');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('retry_on', given -> 'retry_on');
    END IF;
    RETURN retry;
END $$;

-- A text that is passed on in a header line.
CREATE FUNCTION @.door_header(field text, given jsonb, length_max int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    value text := @.door_text(field, given, length_max);
BEGIN
    IF value ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        PERFORM @.door_refuse(field, 'contains a control character');
    END IF;
    RETURN value;
END $$;

CREATE OR REPLACE FUNCTION @.door_body(options jsonb, of_tenant text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    timeouts jsonb := coalesce(pg_catalog.jsonb_strip_nulls(options -> 'timeouts'), '{}');
    body jsonb;
BEGIN
    IF pg_catalog.jsonb_typeof(timeouts) = 'null' THEN
        timeouts := '{}';
    END IF;
    PERFORM @.door_known('timeouts', timeouts, ARRAY['execution', 'lease', 'lifetime', 'start', 'visibility']);
    -- Two names for one limit.
    IF timeouts ? 'visibility' THEN
        IF @.door_span('timeouts.visibility', timeouts -> 'visibility', 1000000000)
            <> @.door_span('timeouts.lease', coalesce(timeouts -> 'lease', timeouts -> 'visibility'), 1000000000) THEN
            PERFORM @.door_refuse('timeouts.visibility', 'contradicts `timeouts.lease`: they are two names for one limit');
        END IF;
        timeouts := timeouts || pg_catalog.jsonb_build_object('lease', timeouts -> 'visibility');
    END IF;
    IF coalesce(pg_catalog.jsonb_typeof(options -> 'hold'), 'null') NOT IN ('boolean', 'null') THEN
        PERFORM @.door_refuse('hold', 'is not true or false');
    END IF;
    PERFORM @.door_text('name', options -> 'name', 255);
    body := pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'queue', @.door_name('queue', coalesce(@.door_text('queue', options -> 'queue', 100000), 'default')),
        'priority', @.door_priority(options -> 'priority'),
        'delay', @.door_span('delay', options -> 'delay'),
        'run_at', @.door_moment('run_at', options -> 'run_at'),
        'hold', options -> 'hold',
        'idempotency_key', @.door_text('idempotency_key', options -> 'idempotency_key', 256),
        'idempotency_window', @.door_span('idempotency_window', options -> 'idempotency_window'),
        'unique_key', @.door_text('unique_key', options -> 'unique_key', 256),
        'concurrency_key', @.door_text('concurrency_key', options -> 'concurrency_key', 256),
        'retry', @.door_retry(options -> 'retry'),
        'execution', @.door_span('timeouts.execution', timeouts -> 'execution', 1000000),
        'lease', @.door_span('timeouts.lease', timeouts -> 'lease', 1000000000),
        'lifetime', @.door_span('timeouts.lifetime', timeouts -> 'lifetime', 1000000),
        'start', @.door_span('timeouts.start', timeouts -> 'start', 1000000),
        'after', @.door_after('after', options -> 'after', of_tenant),
        'after_any', @.door_after('after_any', options -> 'after_any', of_tenant),
        'tags', @.door_tags(options -> 'tags'),
        'correlation_id', @.door_text('correlation_id', options -> 'correlation_id', 256),
        'callback_url', @.door_text('callback_url', options -> 'callback_url', 2048),
        'traceparent', @.door_header('traceparent', options -> 'traceparent', 256),
        'tracestate', @.door_header('tracestate', options -> 'tracestate', 512),
        'baggage', @.door_header('baggage', options -> 'baggage', 8192)));
    IF body ? 'delay' AND body ? 'run_at' THEN
        PERFORM @.door_refuse('run_at', 'contradicts `delay`: give one of them');
    END IF;
    IF coalesce(pg_catalog.jsonb_array_length(body -> 'after'), 0)
        + coalesce(pg_catalog.jsonb_array_length(body -> 'after_any'), 0) > 1000 THEN
        PERFORM @.door_refuse('after', 'names more than 1000 jobs, `after_any` included');
    END IF;
    IF body ->> 'queue' = 'windlass.callbacks' THEN
        PERFORM @.door_refuse('queue', 'is the system''s own: choose another');
    END IF;
    RETURN body;
END $$;

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
