-- Plain names. `@.` stands for the schema.

ALTER TABLE IF EXISTS @.door RENAME TO inbox_options;
ALTER INDEX IF EXISTS @.door_pkey RENAME TO inbox_options_pkey;
DROP FUNCTION IF EXISTS @.door_lock_key, @.door_refuse, @.door_known, @.door_text, @.door_name, @.door_span, @.door_priority,
    @.door_moment, @.door_retry, @.door_tags, @.door_after, @.door_body, @.door_json, @.door_header,
    @.door_version;
DROP FUNCTION IF EXISTS @.append(bigint, bigint, bigint, bigint, bigint, bytea);
-- The inbox of a store that was moved stays closed.
DO $$ BEGIN
    IF to_regprocedure('@.door_is_shut()') IS NOT NULL THEN
        ALTER FUNCTION @.door_is_shut() RENAME TO inbox_is_paused;
        ALTER TRIGGER door_is_shut ON @.inbox RENAME TO inbox_is_paused;
    END IF;
END $$;
