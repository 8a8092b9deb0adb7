-- Every name is written with {schema}, which the store replaces. Identifiers of operations,
-- keys and claims are 16 bytes and kept as uuid, the type that every engine compares fastest.

-- Of two processes that migrate at once, the loser's transaction fails as a whole.
CREATE UNIQUE INDEX pawl_schema_version ON {schema}.pawl_schema (version_id);

-- The one row says which store this is and in which cluster, timeline, database and schema
-- it was last confirmed to live.
CREATE TABLE {schema}.store (
	one      bigint PRIMARY KEY CHECK (one = 1),
	id       uuid NOT NULL,
	system   bigint NOT NULL,
	timeline bigint NOT NULL,
	database bigint NOT NULL,
	schema   bigint NOT NULL
);

-- Contracts are kept once; intents name them by hash.
CREATE TABLE {schema}.contracts (
	hash text PRIMARY KEY,
	body text NOT NULL
);

-- A lane is what one tenant does with one tool, named by the hash of both. Sweepers serve
-- lanes in turn.
CREATE TABLE {schema}.lanes (
	lane   uuid PRIMARY KEY,
	tenant text NOT NULL,
	tool   text NOT NULL
);
CREATE INDEX lanes_tenant ON {schema}.lanes (tenant);
CREATE INDEX lanes_tool ON {schema}.lanes (tool);

-- The part of an operation that Begin writes and nothing changes, with the first entry of
-- its history and the state that came of it. The seals (CRC-32C) here and in states cover
-- what is written together.
CREATE TABLE {schema}.intents (
	id             uuid PRIMARY KEY,
	lane           uuid NOT NULL,
	run            text NOT NULL,
	key            uuid NOT NULL,
	gen            bigint NOT NULL,
	identity_claim uuid,
	intent         text NOT NULL,
	intent_sum     bigint NOT NULL,
	entry          text NOT NULL,
	state          text NOT NULL
);
CREATE UNIQUE INDEX intents_key ON {schema}.intents (key);
CREATE UNIQUE INDEX intents_identity ON {schema}.intents (identity_claim, gen) WHERE identity_claim IS NOT NULL;
CREATE INDEX intents_lane ON {schema}.intents (lane, id);
CREATE INDEX intents_run ON {schema}.intents (run, id) WHERE run <> '';

-- What is asked for and decided by. It is narrow, because a change writes the row anew.
-- Times are microseconds since 1970; NULL is the zero time. Token, lease and due have a
-- seal of their own because claims write them alone.
CREATE TABLE {schema}.states (
	id            uuid PRIMARY KEY,
	lane          uuid NOT NULL,
	step_claim    uuid,
	once_claim    uuid,
	subject_claim uuid,
	held          bigint NOT NULL, -- 1 step, 2 once, 4 subject
	open          boolean NOT NULL,
	status        text NOT NULL,
	version       bigint NOT NULL,
	review        bigint,
	ref           text,
	state_sum     bigint NOT NULL,
	token         bigint NOT NULL,
	lease         bigint,
	due           bigint,
	claim_sum     bigint NOT NULL
);
CREATE UNIQUE INDEX states_step ON {schema}.states (step_claim) WHERE step_claim IS NOT NULL AND held & 1 <> 0;
CREATE UNIQUE INDEX states_once ON {schema}.states (once_claim) WHERE once_claim IS NOT NULL AND held & 2 <> 0;
CREATE UNIQUE INDEX states_subject ON {schema}.states (subject_claim) WHERE subject_claim IS NOT NULL AND held & 4 <> 0;
CREATE INDEX states_due ON {schema}.states (lane, due) WHERE open OR due IS NOT NULL;
CREATE INDEX states_failed ON {schema}.states (lane, status, id) WHERE status = 'FAILED_NO_EFFECT' OR status = 'COMPENSATED';
CREATE INDEX states_review ON {schema}.states (lane, id) WHERE review IS NOT NULL;
CREATE INDEX states_ref ON {schema}.states (left(ref, 200)) WHERE ref IS NOT NULL;

-- Every later entry of a history, chained by hash, and the state that came of it.
CREATE TABLE {schema}.changes (
	id      uuid NOT NULL,
	version bigint NOT NULL,
	entry   text NOT NULL,
	state   text NOT NULL,
	PRIMARY KEY (id, version)
);

-- For people with an SQL shell; pawl itself does not use them.
CREATE VIEW {schema}.operations AS
SELECT 'op_' || replace(CAST(i.id AS text), '-', '') AS id, l.tenant, l.tool, i.run, i.gen,
	replace(CAST(i.key AS text), '-', '') AS key, s.status, s.version, s.ref,
	to_timestamp(s.due / 1000000.0) AS due, to_timestamp(s.review / 1000000.0) AS review,
	i.intent, coalesce(c.state, i.state) AS state
FROM {schema}.intents i
JOIN {schema}.states s ON s.id = i.id
JOIN {schema}.lanes l ON l.lane = i.lane
LEFT JOIN {schema}.changes c ON c.id = s.id AND c.version = s.version;

CREATE VIEW {schema}.history AS
SELECT 'op_' || replace(CAST(id AS text), '-', '') AS id, 1 AS version, entry FROM {schema}.intents
UNION ALL SELECT 'op_' || replace(CAST(id AS text), '-', ''), version, entry FROM {schema}.changes;
