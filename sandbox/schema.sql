-- The ledger of a sandbox. Times are Unix microseconds of the sandbox's clock.

CREATE TABLE settings (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO settings (name, value) VALUES ('clock_offset', 0), ('next_id', 1000);

CREATE TABLE modes (
	service TEXT PRIMARY KEY,
	mode    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for every effect. Only reversed_by is ever changed.
CREATE TABLE effects (
	seq         INTEGER PRIMARY KEY AUTOINCREMENT,
	at          INTEGER NOT NULL,
	land_at     INTEGER NOT NULL,
	service     TEXT NOT NULL,
	kind        TEXT NOT NULL,
	object_id   TEXT NOT NULL,
	subject     TEXT NOT NULL,
	amount      INTEGER NOT NULL,
	currency    TEXT NOT NULL,
	key         TEXT NOT NULL,
	request     INTEGER NOT NULL,
	fingerprint TEXT NOT NULL,
	run         TEXT NOT NULL,
	step        TEXT NOT NULL,
	reversed_by INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX effects_key ON effects (key);
CREATE INDEX effects_subject ON effects (subject);
CREATE INDEX effects_object ON effects (service, object_id);

-- One row for every request received, written before anything is done for it.
CREATE TABLE requests (
	seq         INTEGER PRIMARY KEY AUTOINCREMENT,
	at          INTEGER NOT NULL,
	method      TEXT NOT NULL,
	path        TEXT NOT NULL,
	service     TEXT NOT NULL,
	via         TEXT NOT NULL,
	run         TEXT NOT NULL,
	step        TEXT NOT NULL,
	key         TEXT NOT NULL DEFAULT '',
	fingerprint TEXT NOT NULL DEFAULT '',
	bytes       INTEGER NOT NULL DEFAULT 0,
	fault       TEXT NOT NULL DEFAULT '',
	outcome     TEXT NOT NULL DEFAULT '',
	effect      INTEGER NOT NULL DEFAULT 0,
	answer      TEXT NOT NULL DEFAULT '',
	status      INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX requests_key ON requests (key);

-- What a service remembers under a key: the answer, and until when it works on it.
CREATE TABLE keys (
	service     TEXT NOT NULL,
	key         TEXT NOT NULL,
	at          INTEGER NOT NULL,
	busy_until  INTEGER NOT NULL,
	fingerprint TEXT NOT NULL,
	object_service TEXT NOT NULL,
	object_id   TEXT NOT NULL,
	effect      INTEGER NOT NULL,
	status      INTEGER NOT NULL,
	body        TEXT NOT NULL,
	PRIMARY KEY (service, key)
) STRICT, WITHOUT ROWID;

-- Keys whose later arrival is refused.
CREATE TABLE tombstones (
	service TEXT NOT NULL,
	key     TEXT NOT NULL,
	until   INTEGER NOT NULL,
	PRIMARY KEY (service, key)
) STRICT, WITHOUT ROWID;

-- An object is hidden while it is still being worked on, then pending until it lands.
CREATE TABLE objects (
	seq          INTEGER PRIMARY KEY,
	service      TEXT NOT NULL,
	id           TEXT NOT NULL,
	at           INTEGER NOT NULL,
	hidden_until INTEGER NOT NULL,
	land_at      INTEGER NOT NULL,
	fails        INTEGER NOT NULL,
	UNIQUE (service, id)
) STRICT;

-- The states of an object: the newest one that has begun is what readers see, the
-- newest of all is what the next change builds on.
CREATE TABLE versions (
	seq    INTEGER PRIMARY KEY,
	object INTEGER NOT NULL REFERENCES objects (seq) ON DELETE CASCADE,
	begins INTEGER NOT NULL,
	data   TEXT NOT NULL
) STRICT;

CREATE INDEX versions_object ON versions (object, seq);

-- What an object can be listed by.
CREATE TABLE terms (
	service TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	object  INTEGER NOT NULL REFERENCES objects (seq) ON DELETE CASCADE,
	PRIMARY KEY (service, name, value, object)
) STRICT, WITHOUT ROWID;

CREATE INDEX terms_object ON terms (object);

CREATE TABLE faults (
	seq   INTEGER PRIMARY KEY,
	match TEXT NOT NULL,
	line  TEXT NOT NULL,
	times INTEGER NOT NULL
) STRICT;

CREATE TABLE lies (
	service TEXT PRIMARY KEY,
	reads   INTEGER NOT NULL,
	until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
