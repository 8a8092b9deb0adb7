-- What watched tools were called for. look is a digest of what look-alikes have in common.
CREATE TABLE {schema}.sightings (
	look   uuid NOT NULL,
	at     bigint NOT NULL,
	id     uuid NOT NULL,
	tenant text NOT NULL,
	PRIMARY KEY (look, at, id)
);
CREATE INDEX sightings_id ON {schema}.sightings (id);

-- What an operator is to be told: kind 1 that an operation waits for a person since a time,
-- kind 2 that it does so no longer. due is NULL once it is told or given up, told is the
-- time at which it was. open: the review that a notice of kind 1 is about is not over yet.
CREATE TABLE {schema}.notices (
	id     uuid NOT NULL,
	since  bigint NOT NULL,
	kind   bigint NOT NULL,
	open   boolean NOT NULL,
	tries  bigint NOT NULL,
	token  bigint NOT NULL,
	due    bigint,
	told   bigint,
	PRIMARY KEY (id, since, kind)
);
CREATE INDEX notices_due ON {schema}.notices (due) WHERE due IS NOT NULL;
CREATE INDEX notices_open ON {schema}.notices (id) WHERE open;
