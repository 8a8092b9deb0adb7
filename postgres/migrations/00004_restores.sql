-- Each time that a person said that this copy is the one that lives. Times are microseconds
-- since 1970.
CREATE TABLE {schema}.restores (
	at     bigint PRIMARY KEY,
	copied bigint NOT NULL,
	until  bigint NOT NULL,
	who    text NOT NULL
);
