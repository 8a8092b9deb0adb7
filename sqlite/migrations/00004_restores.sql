-- +goose Up

-- Each time that a person said that this copy is the one that lives. Times are microseconds
-- since 1970.
CREATE TABLE restores (
	at     INTEGER PRIMARY KEY,
	copied INTEGER NOT NULL,
	until  INTEGER NOT NULL,
	who    TEXT NOT NULL
) STRICT;
