-- Every SQL function of the schema is in this folder, and installed again after each migration: a build that changes one
-- adds a step, which also drops what it no longer needs. No `submit` is dropped: users have granted rights on it.
--
-- These read the fields of a submission, and refuse what is wrong. `@.` stands for the schema.

-- Ends the call with an error: the field in DETAIL and as the column's name, the problem in the message.
CREATE OR REPLACE FUNCTION @.submit_refuse(field text, problem text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = field || ' ' || problem,
        DETAIL = 'field: ' || field, COLUMN = field,
        HINT = 'Nothing was submitted. Correct the value, or leave it out for its default.';
END $$;

-- Refuses fields that are not among these.
CREATE OR REPLACE FUNCTION @.submit_check_fields(path text, given jsonb, fields text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    stray text;
BEGIN
    IF pg_catalog.jsonb_typeof(given) <> 'object' THEN
        PERFORM @.submit_refuse(coalesce(path, 'options'), 'is not a JSON object');
    END IF;
    SELECT name INTO stray FROM pg_catalog.jsonb_object_keys(given) name WHERE name <> ALL (fields) LIMIT 1;
    IF stray IS NOT NULL THEN
        PERFORM @.submit_refuse(pg_catalog.concat_ws('.', path, pg_catalog.left(stray, 64)),
            'is not known: known are ' || pg_catalog.array_to_string(fields, ', '));
    END IF;
END $$;

-- A text of at most so many characters; null if it is not given.
CREATE OR REPLACE FUNCTION @.submit_text(field text, given jsonb, length_max int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    value text := given #>> '{}';
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'string' THEN
        PERFORM @.submit_refuse(field, 'is not a text');
    END IF;
    IF pg_catalog.char_length(value) > length_max THEN
        PERFORM @.submit_refuse(field, pg_catalog.format('has length %s, the limit is %s', pg_catalog.char_length(value), length_max));
    END IF;
    RETURN value;
END $$;

-- A name of a type, queue or tenant.
CREATE OR REPLACE FUNCTION @.submit_name(field text, value text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(value, '') = '' THEN
        PERFORM @.submit_refuse(field, 'is required');
    END IF;
    IF pg_catalog.char_length(value) > 255 THEN
        PERFORM @.submit_refuse(field, pg_catalog.format('has length %s, the limit is 255', pg_catalog.char_length(value)));
    END IF;
    IF value COLLATE "C" !~ '^[A-Za-z][A-Za-z0-9_.:-]*$' OR value ~ '\n' THEN
        PERFORM @.submit_refuse(field, pg_catalog.format('`%s` is not a name: letters, digits, `_ . : -`, starting with a letter', value));
    END IF;
    RETURN value;
END $$;

-- A version that the worker must have.
CREATE OR REPLACE FUNCTION @.submit_version(field text, given jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    value text := @.submit_text(field, given, 255);
BEGIN
    IF value = '' THEN
        PERFORM @.submit_refuse(field, 'is required');
    END IF;
    IF value COLLATE "C" !~ '^[A-Za-z0-9_.:+/@-]*$' OR value ~ '\n' THEN
        PERFORM @.submit_refuse(field, pg_catalog.format('`%s` is not a version: letters, digits and `_ . : + / @ -`', value));
    END IF;
    RETURN value;
END $$;

-- A text that is passed on in a header line.
CREATE OR REPLACE FUNCTION @.submit_header(field text, given jsonb, length_max int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    value text := @.submit_text(field, given, length_max);
BEGIN
    IF value ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        PERFORM @.submit_refuse(field, 'contains a control character');
    END IF;
    RETURN value;
END $$;

-- A duration in nanoseconds: `1h30m`, or a number of seconds.
CREATE OR REPLACE FUNCTION @.submit_duration(field text, given jsonb, nanos_min bigint DEFAULT 0) RETURNS bigint
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
            PERFORM @.submit_refuse(field, pg_catalog.format('`%s` is not a duration such as 250ms, 30s, 5m, 1h30m or 7d',
                pg_catalog.left(value, 64)));
        END IF;
        nanos := 1000000 * (coalesce(parts[1], '0')::numeric * 86400000 + coalesce(parts[2], '0')::numeric * 3600000
            + coalesce(parts[3], '0')::numeric * 60000 + coalesce(parts[4], '0')::numeric * 1000
            + coalesce(parts[5], '0')::numeric);
    ELSE
        PERFORM @.submit_refuse(field, 'is not a duration such as "30s", or a number of seconds');
    END IF;
    IF nanos < nanos_min OR nanos > 3153600000000000000 THEN
        PERFORM @.submit_refuse(field, pg_catalog.format('is %s, allowed is %s s to 100 years', pg_catalog.left(value, 64),
            pg_catalog.trim_scale(nanos_min::numeric / 1000000000)));
    END IF;
    RETURN nanos::bigint;
END $$;

-- A number, or the name of a priority in any case.
CREATE OR REPLACE FUNCTION @.submit_priority(given jsonb) RETURNS int
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
        PERFORM @.submit_refuse('priority', pg_catalog.format('`%s` is not one of 0 to 100, critical, high, normal, low, bulk',
            pg_catalog.left(value, 64)));
    END IF;
    RETURN CASE name WHEN 'critical' THEN 100 WHEN 'high' THEN 80 WHEN 'normal' THEN 50 WHEN 'low' THEN 10 ELSE 0 END;
END $$;

-- A time in milliseconds since 1970.
CREATE OR REPLACE FUNCTION @.submit_time(field text, given jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    value text := @.submit_text(field, given, 64);
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
        PERFORM @.submit_refuse(field, pg_catalog.format('`%s` is not a time of RFC 3339, such as 2030-01-31T12:00:00Z', value));
    END IF;
    RETURN pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint;
END $$;

-- A complete retry policy: a preset, or a preset with overrides.
CREATE OR REPLACE FUNCTION @.submit_retry(given jsonb) RETURNS jsonb
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
    PERFORM @.submit_check_fields('retry', given, ARRAY['preset', 'strategy', 'initial_delay', 'max_delay', 'multiplier', 'jitter',
        'jitter_mode', 'max_attempts', 'max_retries', 'retry_on']);
    given := pg_catalog.jsonb_strip_nulls(given);
    preset := coalesce(@.submit_text('retry.preset', given -> 'preset', 255), 'standard');
    CASE preset
        WHEN 'standard' THEN NULL;
        WHEN 'fixed' THEN retry := retry || '{"strategy": "constant", "jitter": 0.0, "max_attempts": 4}';
        WHEN 'backoff' THEN retry := retry || '{"initial_delay": 10000000000, "jitter": 0.0, "max_attempts": 4}';
        ELSE PERFORM @.submit_refuse('retry.preset', pg_catalog.format('`%s` is not one of standard, fixed, backoff', preset));
    END CASE;
    IF given ? 'strategy' THEN
        IF given -> 'strategy' NOT IN ('"constant"', '"linear"', '"exponential"', '"custom"') THEN
            PERFORM @.submit_refuse('retry.strategy', 'is not one of constant, linear, exponential, custom');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('strategy', given -> 'strategy');
    END IF;
    IF given ? 'jitter_mode' THEN
        IF given -> 'jitter_mode' NOT IN ('"random"', '"hashed"') THEN
            PERFORM @.submit_refuse('retry.jitter_mode', 'is not one of random, hashed');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('jitter_mode', given -> 'jitter_mode');
    END IF;
    FOREACH field IN ARRAY ARRAY['initial_delay', 'max_delay'] LOOP
        IF given ? field THEN
            retry := retry || pg_catalog.jsonb_build_object(field, @.submit_duration('retry.' || field, given -> field));
        END IF;
    END LOOP;
    FOREACH field IN ARRAY ARRAY['multiplier', 'jitter'] LOOP
        IF given ? field THEN
            value := given ->> field;
            IF pg_catalog.jsonb_typeof(given -> field) <> 'number'
                OR field = 'jitter' AND value::numeric NOT BETWEEN 0 AND 1
                OR field = 'multiplier' AND value::numeric NOT BETWEEN 1 AND 1000 THEN
                PERFORM @.submit_refuse('retry.' || field, pg_catalog.format('is %s, allowed is %s', pg_catalog.left(value, 64),
                    CASE field WHEN 'jitter' THEN '0 to 1' ELSE '1 to 1000' END));
            END IF;
            retry := retry || pg_catalog.jsonb_build_object(field, given -> field);
        END IF;
    END LOOP;
    FOREACH field IN ARRAY ARRAY['max_attempts', 'max_retries'] LOOP
        value := given ->> field;
        IF value IS NOT NULL AND (pg_catalog.jsonb_typeof(given -> field) <> 'number' OR value !~ '^[0-9]{1,9}$'
            OR value::int NOT BETWEEN (field = 'max_attempts')::int AND 99 + (field = 'max_attempts')::int) THEN
            PERFORM @.submit_refuse('retry.' || field, pg_catalog.format('is %s, allowed is %s', pg_catalog.left(value, 64),
                CASE field WHEN 'max_attempts' THEN '1 to 100' ELSE '0 to 99' END));
        END IF;
    END LOOP;
    attempts := (given ->> 'max_attempts')::int;
    retries := (given ->> 'max_retries')::int;
    IF attempts <> retries + 1 THEN
        PERFORM @.submit_refuse('retry.max_retries', pg_catalog.format('is %s, which contradicts max_attempts %s', retries, attempts));
    END IF;
    IF coalesce(attempts, retries) IS NOT NULL THEN
        retry := retry || pg_catalog.jsonb_build_object('max_attempts', coalesce(attempts, retries + 1));
    END IF;
    IF given ? 'retry_on' THEN
        IF pg_catalog.jsonb_typeof(given -> 'retry_on') <> 'array'
            OR NOT given -> 'retry_on' <@ '["temporary", "timeout", "system", "resource"]' THEN
            PERFORM @.submit_refuse('retry.retry_on', 'is not a list of temporary, timeout, system, resource');
        END IF;
        retry := retry || pg_catalog.jsonb_build_object('retry_on', given -> 'retry_on');
    END IF;
    RETURN retry;
END $$;

-- Tags: short texts by name.
CREATE OR REPLACE FUNCTION @.submit_tags(given jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    tag record;
BEGIN
    IF given IS NULL OR pg_catalog.jsonb_typeof(given) = 'null' THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.jsonb_typeof(given) <> 'object' THEN
        PERFORM @.submit_refuse('tags', 'is not a JSON object of texts');
    END IF;
    IF (SELECT count(*) FROM pg_catalog.jsonb_object_keys(given)) > 64 THEN
        PERFORM @.submit_refuse('tags', 'has more than 64 entries');
    END IF;
    FOR tag IN SELECT name, value FROM pg_catalog.jsonb_each(given) entry(name, value) LOOP
        IF tag.name = '' OR pg_catalog.char_length(tag.name) > 64 THEN
            PERFORM @.submit_refuse('tags', 'has a name that is empty or longer than 64 characters');
        END IF;
        IF pg_catalog.jsonb_typeof(tag.value) <> 'string' THEN
            PERFORM @.submit_refuse('tags.' || tag.name, 'is not a text');
        END IF;
        PERFORM @.submit_text('tags.' || tag.name, tag.value, 256);
    END LOOP;
    RETURN given;
END $$;

-- Dependencies; each must exist, or come from this transaction. They may be among the appended jobs, whose ids are in the
-- bytes: the writer looks at them more closely.
CREATE OR REPLACE FUNCTION @.submit_dependencies(field text, given jsonb, of_tenant text) RETURNS jsonb
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
        PERFORM @.submit_refuse(field, 'is not a list of ids');
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
            PERFORM @.submit_refuse(field || '.' || place, pg_catalog.format('`%s` names no job', pg_catalog.left(value, 64)));
        END IF;
        others := others || pg_catalog.to_jsonb(other);
    END LOOP;
    RETURN others;
END $$;

-- The options as the writer reads them, validated: durations in nanoseconds, times in milliseconds.
CREATE OR REPLACE FUNCTION @.submit_body(options jsonb, of_tenant text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    timeouts jsonb := coalesce(pg_catalog.jsonb_strip_nulls(options -> 'timeouts'), '{}');
    body jsonb;
BEGIN
    IF pg_catalog.jsonb_typeof(timeouts) = 'null' THEN
        timeouts := '{}';
    END IF;
    PERFORM @.submit_check_fields('timeouts', timeouts, ARRAY['execution', 'lease', 'lifetime', 'start', 'visibility']);
    -- Two names for one limit.
    IF timeouts ? 'visibility' THEN
        IF @.submit_duration('timeouts.visibility', timeouts -> 'visibility', 1000000000)
            <> @.submit_duration('timeouts.lease', coalesce(timeouts -> 'lease', timeouts -> 'visibility'), 1000000000) THEN
            PERFORM @.submit_refuse('timeouts.visibility', 'contradicts `timeouts.lease`: they are two names for one limit');
        END IF;
        timeouts := timeouts || pg_catalog.jsonb_build_object('lease', timeouts -> 'visibility');
    END IF;
    IF coalesce(pg_catalog.jsonb_typeof(options -> 'hold'), 'null') NOT IN ('boolean', 'null') THEN
        PERFORM @.submit_refuse('hold', 'is not true or false');
    END IF;
    PERFORM @.submit_text('name', options -> 'name', 255);
    body := pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'queue', @.submit_name('queue', coalesce(@.submit_text('queue', options -> 'queue', 100000), 'default')),
        'priority', @.submit_priority(options -> 'priority'),
        'delay', @.submit_duration('delay', options -> 'delay'),
        'run_at', @.submit_time('run_at', options -> 'run_at'),
        'hold', options -> 'hold',
        'idempotency_key', @.submit_text('idempotency_key', options -> 'idempotency_key', 256),
        'idempotency_window', @.submit_duration('idempotency_window', options -> 'idempotency_window'),
        'unique_key', @.submit_text('unique_key', options -> 'unique_key', 256),
        'concurrency_key', @.submit_text('concurrency_key', options -> 'concurrency_key', 256),
        'retry', @.submit_retry(options -> 'retry'),
        'execution', @.submit_duration('timeouts.execution', timeouts -> 'execution', 1000000),
        'lease', @.submit_duration('timeouts.lease', timeouts -> 'lease', 1000000000),
        'lifetime', @.submit_duration('timeouts.lifetime', timeouts -> 'lifetime', 1000000),
        'start', @.submit_duration('timeouts.start', timeouts -> 'start', 1000000),
        'after', @.submit_dependencies('after', options -> 'after', of_tenant),
        'after_any', @.submit_dependencies('after_any', options -> 'after_any', of_tenant),
        'tags', @.submit_tags(options -> 'tags'),
        'correlation_id', @.submit_text('correlation_id', options -> 'correlation_id', 256),
        'callback_url', @.submit_text('callback_url', options -> 'callback_url', 2048),
        'traceparent', @.submit_header('traceparent', options -> 'traceparent', 256),
        'tracestate', @.submit_header('tracestate', options -> 'tracestate', 512),
        'baggage', @.submit_header('baggage', options -> 'baggage', 8192),
        'requires_version', @.submit_version('requires_version', options -> 'requires_version')));
    IF body ? 'delay' AND body ? 'run_at' THEN
        PERFORM @.submit_refuse('run_at', 'contradicts `delay`: give one of them');
    END IF;
    IF coalesce(pg_catalog.jsonb_array_length(body -> 'after'), 0)
        + coalesce(pg_catalog.jsonb_array_length(body -> 'after_any'), 0) > 1000 THEN
        PERFORM @.submit_refuse('after', 'names more than 1000 jobs, `after_any` included');
    END IF;
    IF body ->> 'queue' = 'windlass.callbacks' THEN
        PERFORM @.submit_refuse('queue', 'is the system''s own: choose another');
    END IF;
    RETURN body;
END $$;
