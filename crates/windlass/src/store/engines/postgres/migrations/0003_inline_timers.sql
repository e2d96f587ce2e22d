-- An entry names up to a thousand jobs in 8 KB, which fits on its page: to pack it and put it elsewhere costs more than to
-- write it. The most that a page allows depends on how the server was built.
DO $$ BEGIN
    EXECUTE format('ALTER TABLE @.timers SET (toast_tuple_target = %s)', current_setting('block_size')::int - 32);
END $$;
