-- +goose Up

-- The record of a run. It begins with the run's first operation, its plan or its abort. id
-- is a digest of tenant and run; what begins an operation looks at status and planned.
CREATE TABLE runs (
	n       INTEGER PRIMARY KEY,
	id      BLOB NOT NULL,
	tenant  TEXT NOT NULL,
	run     TEXT NOT NULL,
	status  TEXT NOT NULL,
	planned INTEGER NOT NULL,
	version INTEGER NOT NULL,
	due     INTEGER,
	record  TEXT NOT NULL,
	sum     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX runs_id ON runs (id);
CREATE INDEX runs_tenant ON runs (tenant);
CREATE INDEX runs_due ON runs (due) WHERE due IS NOT NULL;
CREATE INDEX runs_ended ON runs (status) WHERE status <> 'open';
