-- `submit` accepts a job inside any transaction. It checks what can be checked without the writers' lock, and leaves the
-- submission in `inbox`; the next writer turns it into a job, with the same rules as for every other. `@.` stands for the
-- schema.

-- The advisory lock of a key. Writers lock 64 sets of keys at once where no `submit` holds one of them, and single keys
-- otherwise: thousands of keys would not fit the server's table of locks.
CREATE OR REPLACE FUNCTION @.key_lock(kind bigint, tenant text, type text, key bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.hashtextextended(pg_catalog.concat_ws(' ', '@.', kind, tenant, type, pg_catalog.encode(key, 'hex')), 0)
$$;

-- Locks a key for a `submit`, until its transaction ends.
CREATE OR REPLACE FUNCTION @.submit_lock_key(kind bigint, tenant text, type text, key bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    lock bigint := @.key_lock(kind, tenant, type, key);
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtext('@.'), (lock & 63)::int);
    PERFORM pg_catalog.pg_advisory_xact_lock(lock);
END $$;

-- Submits a job with any bytes as its payload; the option `content_type` describes them.
-- Plans are kept: one that was made while a table was nearly empty would read all of it later.
CREATE OR REPLACE FUNCTION @.submit(type text, payload bytea, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_variable
DECLARE
    of_type text := @.submit_name('type', type);
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
    PERFORM @.submit_check_fields(NULL, options, ARRAY['queue', 'priority', 'delay', 'run_at', 'hold', 'idempotency_key',
        'idempotency_window', 'unique_key', 'concurrency_key', 'retry', 'timeouts', 'after', 'after_any', 'name', 'tags',
        'correlation_id', 'callback_url', 'tenant', 'traceparent', 'tracestate',
        'baggage', 'requires_version', 'content_type', 'strict']);
    IF of_type = 'windlass.callback' THEN
        PERFORM @.submit_refuse('type', 'is the system''s own; set `callback_url` instead');
    END IF;
    IF coalesce(jsonb_typeof(options -> 'strict'), 'null') NOT IN ('boolean', 'null') THEN
        PERFORM @.submit_refuse('strict', 'is not true or false');
    END IF;
    of_tenant := @.submit_name('tenant', coalesce(@.submit_text('tenant', options -> 'tenant', 100000), 'default'));
    content := coalesce(@.submit_text('content_type', options -> 'content_type', 255), 'application/octet-stream');
    SELECT d.payload_bytes_max INTO size_max FROM @.inbox_options d;
    IF payload IS NULL THEN
        PERFORM @.submit_refuse('payload', 'is required');
    ELSIF octet_length(payload) > size_max THEN
        PERFORM @.submit_refuse('payload', format('is %s bytes, the limit is %s', octet_length(payload), size_max));
    END IF;
    body := @.submit_body(options, of_tenant);
    IF body ? 'idempotency_key' THEN
        key := convert_to(body ->> 'idempotency_key', 'UTF8');
        PERFORM @.submit_lock_key(0, of_tenant, of_type, key);
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
        PERFORM @.submit_lock_key(1, of_tenant, of_type, key);
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
        PERFORM pg_notify('windlass:' || btrim('@.', '".'), 'inbox');
    END IF;
    RETURN new_id;
END $$;

-- The options of a job with a JSON payload, if it is one.
CREATE OR REPLACE FUNCTION @.submit_json_options(given text, options jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(options ->> 'content_type', 'application/json') <> 'application/json' THEN
        PERFORM @.submit_refuse('content_type', 'is for a payload of type bytea; any other payload is JSON');
    END IF;
    BEGIN
        PERFORM given::json;
    EXCEPTION WHEN invalid_text_representation THEN
        PERFORM @.submit_refuse('payload', 'is not JSON; give other content as bytea');
    END;
    RETURN coalesce(options, '{}') || '{"content_type": "application/json"}';
END $$;

-- Submits a job with a JSON payload: as text, stored byte for byte, or as a value.
CREATE OR REPLACE FUNCTION @.submit(type text, payload text, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @.submit(type, convert_to(coalesce(payload, 'null'), 'UTF8'), @.submit_json_options(coalesce(payload, 'null'), options));
END $$;
CREATE OR REPLACE FUNCTION @.submit(type text, payload json, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT @.submit(type, payload::text, options)
$$;
CREATE OR REPLACE FUNCTION @.submit(type text, payload jsonb, options jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT @.submit(type, payload::text, options)
$$;

-- No role may submit until it is granted.
REVOKE ALL ON FUNCTION @.submit(text, bytea, jsonb), @.submit(text, text, jsonb), @.submit(text, json, jsonb),
    @.submit(text, jsonb, jsonb) FROM PUBLIC;
