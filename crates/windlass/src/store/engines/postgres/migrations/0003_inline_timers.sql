-- An entry names up to a thousand jobs in 8 KB, which fits on its page: compressing it and moving it out of line costs
-- more than writing it. The maximum per page depends on how the server was built.
DO $$ BEGIN
    EXECUTE format('ALTER TABLE @.timers SET (toast_tuple_target = %s)', current_setting('block_size')::int - 32);
END $$;
