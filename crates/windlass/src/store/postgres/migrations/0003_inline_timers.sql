-- An entry names up to a thousand jobs in 8 KB, which fits on its page: to pack it and put it elsewhere costs more than to
-- write it.
ALTER TABLE @.timers SET (toast_tuple_target = 8160);
