-- Jobs that require a version of their worker are lanes of their own; an empty text is no version. `@.` stands for the
-- schema.
ALTER TABLE @.lanes ADD COLUMN version text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE @.lanes DROP CONSTRAINT lanes_tenant_queue_type_key;
ALTER TABLE @.lanes ADD UNIQUE (tenant, queue, type, version);
