-- The record of a run. It begins with the run's first operation, its plan or its abort. id
-- is a digest of tenant and run; what begins an operation looks at status and planned, under
-- a lock of the row that a change of the row waits for.
CREATE TABLE {schema}.runs (
	id      uuid PRIMARY KEY,
	tenant  text NOT NULL,
	run     text NOT NULL,
	status  text NOT NULL,
	planned boolean NOT NULL,
	version bigint NOT NULL,
	begun   bigint NOT NULL,
	due     bigint,
	record  text NOT NULL,
	sum     bigint NOT NULL
);
CREATE INDEX runs_begun ON {schema}.runs (begun, id);
CREATE INDEX runs_tenant ON {schema}.runs (tenant, begun, id);
CREATE INDEX runs_due ON {schema}.runs (due) WHERE due IS NOT NULL;
CREATE INDEX runs_ended ON {schema}.runs (status, begun, id) WHERE status <> 'open';
