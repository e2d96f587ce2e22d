-- Jobs that require a version of their worker are lanes of their own; an empty text is no version. Replaced, because a
-- table's UNIQUE cannot be changed.
CREATE TABLE versioned_lanes (
    id      INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    queue   TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    "check" INTEGER NOT NULL,
    version TEXT    NOT NULL DEFAULT '',
    UNIQUE (tenant, queue, type, version)
);
INSERT INTO versioned_lanes (id, tenant, queue, type, "check") SELECT id, tenant, queue, type, "check" FROM lanes;
DROP TABLE lanes;
ALTER TABLE versioned_lanes RENAME TO lanes;
