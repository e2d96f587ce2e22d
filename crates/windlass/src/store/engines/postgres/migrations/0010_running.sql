-- Running jobs that a commit changed, and that another node may have cached: their numbers; NULL if any may have changed. `@.`
-- stands for the schema.
ALTER TABLE @.commits ADD COLUMN running bytea;
