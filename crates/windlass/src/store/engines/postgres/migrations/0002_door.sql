-- The SQL inbox: `submit` accepts a job inside any transaction. It checks what can be checked without the writers'
-- lock, and leaves the submission in `inbox`; the next writer turns it into a job, with the same rules as for every
-- other. `@.` stands for the schema.

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
CREATE TABLE @.door (
    is_only           boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    payload_bytes_max bigint  NOT NULL
);
INSERT INTO @.door (payload_bytes_max) VALUES (1048576);

-- The advisory lock of a key. Writers lock 64 sets of keys at once where no `submit` holds one of them, and single keys
-- otherwise: thousands of keys would not fit the server's table of locks.
CREATE FUNCTION @.key_lock(kind bigint, tenant text, type text, key bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.hashtextextended(pg_catalog.concat_ws(' ', '@.', kind, tenant, type, pg_catalog.encode(key, 'hex')), 0)
$$;

CREATE FUNCTION @.door_lock_key(kind bigint, tenant text, type text, key bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    lock bigint := @.key_lock(kind, tenant, type, key);
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtext('@.'), (lock & 63)::int);
    PERFORM pg_catalog.pg_advisory_xact_lock(lock);
END $$;

-- Ends the call with an error: the field in DETAIL and as the column's name, the problem in the message.
CREATE FUNCTION @.door_refuse(field text, problem text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = field || ' ' || problem,
        DETAIL = 'field: ' || field, COLUMN = field,
        HINT = 'Nothing was submitted. Correct the value, or leave it out for its default.';
END $$;

CREATE FUNCTION @.door_known(path text, given jsonb, fields text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    stray text;
BEGIN
    IF pg_catalog.jsonb_typeof(given) <> 'object' THEN
        PERFORM @.door_refuse(coalesce(path, 'options'), 'is not a JSON object');
    END IF;
    SELECT name INTO stray FROM pg_catalog.jsonb_object_keys(given) name WHERE name <> ALL (fields) LIMIT 1;
    IF stray IS NOT NULL THEN
        PERFORM @.door_refuse(pg_catalog.concat_ws('.', path, pg_catalog.left(stray, 64)),
            'is not known: known are ' || pg_catalog.array_to_string(fields, ', '));
    END IF;
END $$;

-- A text of at most so many characters; null if it is not given.
CREATE FUNCTION @.door_text(field text, given jsonb, length_max int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    value text := given #>> '{}';
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'string' THEN
        PERFORM @.door_refuse(field, 'is not a text');
    END IF;
    IF pg_catalog.char_length(value) > length_max THEN
        PERFORM @.door_refuse(field, pg_catalog.format('has length %s, the limit is %s', pg_catalog.char_length(value), length_max));
    END IF;
    RETURN value;
END $$;

CREATE FUNCTION @.door_name(field text, value text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(value, '') = '' THEN
        PERFORM @.door_refuse(field, 'is required');
    END IF;
    IF pg_catalog.char_length(value) > 255 THEN
        PERFORM @.door_refuse(field, pg_catalog.format('has length %s, the limit is 255', pg_catalog.char_length(value)));
    END IF;
    IF value COLLATE "C" !~ '^[A-Za-z][A-Za-z0-9_.:-]*$' OR value ~ '\n' THEN
        PERFORM @.door_refuse(field, pg_catalog.format('`%s` is not a name: letters, digits, `_ . : -`, starting with a letter', value));
    END IF;
    RETURN value;
END $$;

-- A duration in nanoseconds: `1h30m`, or a number of seconds.
CREATE FUNCTION @.door_span(field text, given jsonb, nanos_min bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    value text := given #>> '{}';
    parts text[];
    nanos numeric;
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) = 'number' THEN
        nanos := pg_catalog.trunc(value::numeric * 1000000000);
    ELSIF pg_catalog.jsonb_typeof(given) = 'string' THEN
        parts := pg_catalog.regexp_match(value, '^(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?$');
        IF parts IS NULL OR value = '' OR value ~ '\n' THEN
            PERFORM @.door_refuse(field, pg_catalog.format('`%s` is not a duration such as 250ms, 30s, 5m, 1h30m or 7d',
                pg_catalog.left(value, 64)));
        END IF;
        nanos := 1000000 * (coalesce(parts[1], '0')::numeric * 86400000 + coalesce(parts[2], '0')::numeric * 3600000
            + coalesce(parts[3], '0')::numeric * 60000 + coalesce(parts[4], '0')::numeric * 1000
            + coalesce(parts[5], '0')::numeric);
    ELSE
        PERFORM @.door_refuse(field, 'is not a duration such as "30s", or a number of seconds');
    END IF;
    IF nanos < nanos_min OR nanos > 3153600000000000000 THEN
        PERFORM @.door_refuse(field, pg_catalog.format('is %s, allowed is %s s to 100 years', pg_catalog.left(value, 64),
            pg_catalog.trim_scale(nanos_min::numeric / 1000000000)));
    END IF;
    RETURN nanos::bigint;
END $$;

CREATE FUNCTION @.door_priority(given jsonb) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    value text := given #>> '{}';
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) = 'number' AND value ~ '^[0-9]{1,3}$' AND value::int <= 100 THEN
        RETURN value::int;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'string' OR value NOT IN ('critical', 'high', 'normal', 'low', 'bulk') THEN
        PERFORM @.door_refuse('priority', pg_catalog.format('`%s` is not one of 0 to 100, critical, high, normal, low, bulk',
            pg_catalog.left(value, 64)));
    END IF;
    RETURN CASE value WHEN 'critical' THEN 100 WHEN 'high' THEN 80 WHEN 'normal' THEN 50 WHEN 'low' THEN 10 ELSE 0 END;
END $$;

-- A time in milliseconds since 1970.
CREATE FUNCTION @.door_moment(field text, given jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    value text := @.door_text(field, given, 64);
    at timestamptz;
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        IF value ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$' THEN
            at := value::timestamptz;
        END IF;
    EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
        at := NULL;
    END;
    IF at IS NULL THEN
        PERFORM @.door_refuse(field, pg_catalog.format('`%s` is not a time of RFC 3339, such as 2030-01-31T12:00:00Z', value));
    END IF;
    RETURN pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint;
END $$;

-- A complete retry policy: a preset, or a preset with overrides.
CREATE FUNCTION @.door_retry(given jsonb) RETURNS jsonb
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
        'max_attempts', 'max_retries', 'retry_on']);
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
            OR NOT given -> 'retry_on' <@ '["temporary", "timeout", "system"]' THEN
            PERFORM @.door_refuse('retry.retry_on', 'is not a list of temporary, timeout, system');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('retry_on', given -> 'retry_on');
    END IF;
    RETURN retry;
END $$;

CREATE FUNCTION @.door_tags(given jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    tag record;
BEGIN
    IF given IS NULL OR pg_catalog.jsonb_typeof(given) = 'null' THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'object' THEN
        PERFORM @.door_refuse('tags', 'is not a JSON object of texts');
    END IF;
    IF (SELECT count(*) FROM pg_catalog.jsonb_object_keys(given)) > 64 THEN
        PERFORM @.door_refuse('tags', 'has more than 64 entries');
    END IF;
    FOR tag IN SELECT name, value FROM pg_catalog.jsonb_each(given) entry(name, value) LOOP
        IF tag.name = '' OR pg_catalog.char_length(tag.name) > 64 THEN
            PERFORM @.door_refuse('tags', 'has a name that is empty or longer than 64 characters');
        END IF;
        IF pg_catalog.jsonb_typeof(tag.value) <> 'string' THEN
            PERFORM @.door_refuse('tags.' || tag.name, 'is not a text');
        END IF;
        PERFORM @.door_text('tags.' || tag.name, tag.value, 256);
    END LOOP;
    RETURN given;
END $$;

-- Dependencies; each must exist, or come from this transaction.
CREATE FUNCTION @.door_after(field text, given jsonb, of_tenant text) RETURNS jsonb
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
        ) THEN
            PERFORM @.door_refuse(field || '.' || place, pg_catalog.format('`%s` names no job', pg_catalog.left(value, 64)));
        END IF;
        others := others || pg_catalog.to_jsonb(other);
    END LOOP;
    RETURN others;
END $$;

-- The options as the writer reads them, validated: durations in nanoseconds, times in milliseconds.
CREATE FUNCTION @.door_body(options jsonb, of_tenant text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    timeouts jsonb := coalesce(pg_catalog.jsonb_strip_nulls(options -> 'timeouts'), '{}');
    body jsonb;
BEGIN
    IF pg_catalog.jsonb_typeof(timeouts) = 'null' THEN
        timeouts := '{}';
    END IF;
    PERFORM @.door_known('timeouts', timeouts, ARRAY['execution', 'lease', 'lifetime']);
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
        'after', @.door_after('after', options -> 'after', of_tenant),
        'after_any', @.door_after('after_any', options -> 'after_any', of_tenant),
        'tags', @.door_tags(options -> 'tags'),
        'correlation_id', @.door_text('correlation_id', options -> 'correlation_id', 256),
        'callback_url', @.door_text('callback_url', options -> 'callback_url', 2048),
        'traceparent', @.door_text('traceparent', options -> 'traceparent', 256)));
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

-- Submits a job with any bytes as its payload; the option `content_type` describes them.
CREATE FUNCTION @.submit(type text, payload bytea, options jsonb DEFAULT '{}') RETURNS uuid
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
        'correlation_id', 'callback_url', 'tenant', 'traceparent', 'content_type', 'strict']);
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
        -- Separate statements after the lock, so that they see what its last holder committed.
        SELECT h.id, j.payload = payload AND coalesce(j.content_type, 'application/json') = convert_to(content, 'UTF8')
            INTO found_id, is_same FROM @.keys k JOIN @.hot h ON h.seq = k.seq JOIN @.jobs j ON j.seq = k.seq
            WHERE k.kind = 0 AND k.tenant = of_tenant AND k.type = of_type AND k.key = key AND k.expires_at > now_ms;
        IF found_id IS NULL THEN
            SELECT i.id, i.payload = payload AND i.content_type = content INTO found_id, is_same FROM @.inbox i
                WHERE i.tenant = of_tenant AND i.type = of_type AND i.idempotency_key = key AND i.refusal IS NULL;
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
        SELECT h.id INTO found_id FROM @.keys k JOIN @.hot h ON h.seq = k.seq
            WHERE k.kind = 1 AND k.tenant = of_tenant AND k.type = of_type AND k.key = key
            AND h.state NOT IN (8, 9, 10, 11);
        IF found_id IS NULL THEN
            SELECT i.id INTO found_id FROM @.inbox i
                WHERE i.tenant = of_tenant AND i.type = of_type AND i.unique_key = key AND i.refusal IS NULL;
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

CREATE FUNCTION @.door_json(given text, options jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(options ->> 'content_type', 'application/json') <> 'application/json' THEN
        PERFORM @.door_refuse('content_type', 'is for a payload of type bytea; any other payload is JSON');
    END IF;
    BEGIN
        PERFORM given::json;
    EXCEPTION WHEN invalid_text_representation THEN
        PERFORM @.door_refuse('payload', 'is not JSON; give other content as bytea');
    END;
    RETURN coalesce(options, '{}') || '{"content_type": "application/json"}';
END $$;

-- Submits a job with a JSON payload: as text, stored byte for byte, or as a value.
CREATE FUNCTION @.submit(type text, payload text, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @.submit(type, convert_to(coalesce(payload, 'null'), 'UTF8'), @.door_json(coalesce(payload, 'null'), options));
END $$;
CREATE FUNCTION @.submit(type text, payload json, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT @.submit(type, payload::text, options)
$$;
CREATE FUNCTION @.submit(type text, payload jsonb, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT @.submit(type, payload::text, options)
$$;

-- No role may submit until it is granted.
REVOKE ALL ON FUNCTION @.submit(text, bytea, jsonb), @.submit(text, text, jsonb), @.submit(text, json, jsonb),
    @.submit(text, jsonb, jsonb) FROM PUBLIC;
