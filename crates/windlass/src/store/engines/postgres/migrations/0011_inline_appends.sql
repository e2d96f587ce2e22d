-- Submissions of a few callers together are larger than 2 KB. A row that fits on its page stays there: out of line, it is written,
-- read and deleted in two tables. `@.` stands for the schema.
DO $$ BEGIN
    EXECUTE format('ALTER TABLE @.appends SET (toast_tuple_target = %s)', current_setting('block_size')::int - 32);
END $$;
