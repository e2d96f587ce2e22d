-- Jobs that require a version of their worker are lanes of their own; an empty text is no version. `@.` stands for the
-- schema.
ALTER TABLE @.lanes ADD COLUMN version text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE @.lanes DROP CONSTRAINT lanes_tenant_queue_type_key;
ALTER TABLE @.lanes ADD UNIQUE (tenant, queue, type, version);

-- `submit` in SQL takes `requires_version`.
CREATE FUNCTION @.door_version(field text, given jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    value text := @.door_text(field, given, 255);
BEGIN
    IF value = '' THEN
        PERFORM @.door_refuse(field, 'is required');
    END IF;
    IF value COLLATE "C" !~ '^[A-Za-z0-9_.:+/@-]*$' OR value ~ '\n' THEN
        PERFORM @.door_refuse(field, pg_catalog.format('`%s` is not a version: letters, digits and `_ . : + / @ -`', value));
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
        'baggage', @.door_header('baggage', options -> 'baggage', 8192),
        'requires_version', @.door_version('requires_version', options -> 'requires_version')));
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
        'baggage', 'requires_version', 'content_type', 'strict']);
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
