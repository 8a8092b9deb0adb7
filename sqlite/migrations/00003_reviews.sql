-- +goose Up

-- What watched tools were called for. look is a digest of what look-alikes have in common.
CREATE TABLE sightings (
	look   BLOB NOT NULL,
	at     INTEGER NOT NULL,
	id     BLOB NOT NULL,
	tenant TEXT NOT NULL,
	PRIMARY KEY (look, at, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_id ON sightings (id);

-- What an operator is to be told: kind 1 that an operation waits for a person since a time,
-- kind 2 that it does so no longer. due is NULL once it is told or given up, told is the
-- time at which it was. open: the review that a notice of kind 1 is about is not over yet.
CREATE TABLE notices (
	n      INTEGER PRIMARY KEY,
	op     INTEGER NOT NULL,
	since  INTEGER NOT NULL,
	kind   INTEGER NOT NULL,
	open   INTEGER NOT NULL,
	tries  INTEGER NOT NULL,
	token  INTEGER NOT NULL,
	due    INTEGER,
	told   INTEGER
) STRICT;
CREATE UNIQUE INDEX notices_fact ON notices (op, since, kind);
CREATE INDEX notices_due ON notices (due) WHERE due IS NOT NULL;
CREATE INDEX notices_open ON notices (n) WHERE open;
