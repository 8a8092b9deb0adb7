-- +goose Up

-- Of two processes that migrate at once, the loser's transaction fails as a whole.
CREATE UNIQUE INDEX pawl_schema_version ON pawl_schema (version_id);

-- The one row says which store this is and in which file it was last confirmed to live.
CREATE TABLE store (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	id         BLOB NOT NULL,
	filesystem INTEGER NOT NULL,
	inode      INTEGER NOT NULL
) STRICT;

-- Contracts are kept once; intents name them by hash.
CREATE TABLE contracts (
	hash TEXT PRIMARY KEY,
	body TEXT NOT NULL
) STRICT;

-- A lane is what one tenant does with one tool. Sweepers serve lanes in turn.
CREATE TABLE lanes (
	lane   INTEGER PRIMARY KEY,
	tenant TEXT NOT NULL,
	tool   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX lanes_tenant ON lanes (tenant, tool);

-- The part of an operation that Begin writes and nothing changes, with the first entry of
-- its history and the state that came of it. The seals (CRC-32C) here and in states cover
-- what is written together.
CREATE TABLE intents (
	op             INTEGER PRIMARY KEY,
	id             BLOB NOT NULL,
	lane           INTEGER NOT NULL,
	run            TEXT NOT NULL,
	key            BLOB NOT NULL,
	gen            INTEGER NOT NULL,
	identity_claim BLOB,
	intent         TEXT NOT NULL,
	intent_sum     INTEGER NOT NULL,
	entry          TEXT NOT NULL,
	state          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX intents_id ON intents (id);
CREATE UNIQUE INDEX intents_key ON intents (key);
CREATE INDEX intents_lane ON intents (lane);

-- What is claimed for long, in one tree, because every page of a tree that a call writes to
-- costs as much as the call's own rows. claim is the identity's with n its generation, or the
-- once-claim while it is held, with n = -1. Those of one run and identity lie together. An
-- operation whose identity does not begin with the place of its run has that for a claim, with
-- n = op.
CREATE TABLE claims (
	claim BLOB NOT NULL,
	n     INTEGER NOT NULL,
	op    INTEGER NOT NULL,
	PRIMARY KEY (claim, n)
) STRICT, WITHOUT ROWID;

-- What is asked for and decided by. It keeps its size, so that a change rewrites little.
-- Times are microseconds since 1970; NULL is the zero time. Token, lease and due have a
-- seal of their own because claims write them alone.
CREATE TABLE states (
	op            INTEGER PRIMARY KEY,
	lane          INTEGER NOT NULL,
	step_claim    BLOB,
	once_claim    BLOB,
	subject_claim BLOB,
	held          INTEGER NOT NULL, -- 1 step, 2 once, 4 subject
	open          INTEGER NOT NULL,
	status        TEXT NOT NULL,
	version       INTEGER NOT NULL,
	review        INTEGER,
	ref           TEXT,
	state_sum     INTEGER NOT NULL,
	token         INTEGER NOT NULL,
	lease         INTEGER,
	due           INTEGER,
	claim_sum     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX states_step ON states (step_claim) WHERE step_claim IS NOT NULL AND held & 1;
CREATE UNIQUE INDEX states_subject ON states (subject_claim) WHERE subject_claim IS NOT NULL AND held & 4;
CREATE INDEX states_due ON states (lane, due) WHERE open OR due IS NOT NULL;
CREATE INDEX states_failed ON states (lane, status) WHERE status = 'FAILED_NO_EFFECT' OR status = 'COMPENSATED';
CREATE INDEX states_review ON states (lane) WHERE review IS NOT NULL;
CREATE INDEX states_ref ON states (ref) WHERE ref IS NOT NULL;

-- Every later entry of a history, chained by hash, and the state that came of it; line is
-- op * 2^20 + version.
CREATE TABLE changes (
	line  INTEGER PRIMARY KEY,
	entry TEXT NOT NULL,
	state TEXT NOT NULL
) STRICT;

-- For people with an SQL shell; pawl itself does not use them.
CREATE VIEW operations AS
SELECT i.op, 'op_' || lower(hex(i.id)) AS id, l.tenant, l.tool, i.run, i.intent ->> '$.step' AS step, i.gen,
	lower(hex(i.key)) AS key, s.status, coalesce(c.state, i.state) ->> '$.reason' AS reason, s.version,
	i.intent ->> '$.created' AS created, coalesce(c.state, i.state) ->> '$.updated' AS updated, s.ref,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.due / 1e6, 'unixepoch') AS due,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.review / 1e6, 'unixepoch') AS review, i.intent, coalesce(c.state, i.state) AS state
FROM intents i JOIN states s USING (op) JOIN lanes l ON l.lane = i.lane LEFT JOIN changes c ON c.line = i.op << 20 | s.version;

CREATE VIEW history AS
SELECT op, 1 AS version, entry FROM intents UNION ALL SELECT line >> 20, line & 1048575, entry FROM changes;
