package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// With PostgreSQL a request is worked on as long as its transaction holds the exclusive lock
// of its key. Before that one it takes a shared lock whose two numbers name the key and what
// is done: a fingerprint, or a fence. Whoever does not get the key's lock reads there what
// its holder does, and waits for nobody. The locks of a transaction do not end at one moment,
// so only a lock that is there says something. With SQLite the lock that a writer has on the
// whole database does all of this.

// fencing is what is done by whoever knows no body.
const fencing = "fence"

// lockOf is the number of a key's exclusive lock.
func lockOf(id string) int64 {
	sum := sha256.Sum256([]byte("pawl receiver key " + id))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// workOf are the numbers of the shared lock.
func workOf(id, what string) (key, work int32) {
	short := func(s string) int32 {
		sum := sha256.Sum256([]byte("pawl receiver work " + s))
		return int32(binary.BigEndian.Uint32(sum[:4]))
	}
	return short(id), short(what)
}

// locks are the advisory locks of this database at one moment: who has them (v), and their
// numbers, of which k holds both and a and b one each.
const locks = `WITH l AS MATERIALIZED (SELECT virtualtransaction AS v, objsubid AS form, mode,
		(classid::bigint << 32) | objid::bigint AS k, classid::bigint AS a, objid::bigint AS b
	FROM pg_locks WHERE locktype = 'advisory' AND granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
	holder AS (SELECT v FROM l WHERE form = 1 AND k = $1 AND mode = 'ExclusiveLock') `

// lock takes a key for the transaction, to do what it says. It returns ErrInFlight or
// ErrMismatch where another transaction has it, and ErrReplica where nobody can have it.
func lock(ctx context.Context, tx DB, id, what string) error {
	if tx.Dialect() == SQLite {
		return lockDatabase(ctx, tx, id)
	}
	var replica, got bool
	key, work := workOf(id, what)
	_, err := tx.QueryRow(ctx, `SELECT pg_is_in_recovery(), CASE WHEN pg_try_advisory_xact_lock_shared($1::int, $2::int) THEN pg_try_advisory_xact_lock($3) ELSE false END`,
		[]any{key, work, lockOf(id)}, &replica, &got)
	switch {
	case err != nil:
		return fmt.Errorf("receiver: lock the key: %w", err)
	case replica:
		return ErrReplica
	case got:
		return nil
	case what == fencing:
		return ErrInFlight // whatever the holder does
	}
	var other bool
	_, fence := workOf(id, fencing)
	_, err = tx.QueryRow(ctx, locks+`SELECT EXISTS (SELECT 1 FROM l JOIN holder USING (v) WHERE form = 2 AND a = $2 AND b NOT IN ($3, $4))`,
		[]any{lockOf(id), int64(uint32(key)), int64(uint32(work)), int64(uint32(fence))}, &other)
	if err != nil {
		return fmt.Errorf("receiver: find the key's holder: %w", err)
	}
	if other {
		return ErrMismatch
	}
	return ErrInFlight
}

// await takes a key whose holders are all brief, because they find it claimed.
func await(ctx context.Context, tx DB, id, what string) error {
	if tx.Dialect() == SQLite {
		return lockDatabase(ctx, tx, id)
	}
	key, work := workOf(id, what)
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1::int, $2::int)`, key, work); err != nil {
		return fmt.Errorf("receiver: lock the key: %w", err)
	}
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockOf(id)); err != nil {
		return fmt.Errorf("receiver: lock the key: %w", err)
	}
	return nil
}

// lockDatabase makes a transaction of SQLite a writer, if it is none yet.
func lockDatabase(ctx context.Context, tx DB, id string) error {
	if _, err := tx.Exec(ctx, `UPDATE pawl_receipts SET id = id WHERE id = ?1`, id); err != nil {
		return fmt.Errorf("receiver: begin to write: %w", err)
	}
	return nil
}

// held reports whether a key is being worked on, without taking it, and whether this is a
// replica, which cannot tell.
func held(ctx context.Context, tx DB, id string) (busy, replica bool, err error) {
	if tx.Dialect() == SQLite {
		return false, false, lockDatabase(ctx, tx, id) // whoever wrote has ended
	}
	var isolation string
	_, err = tx.QueryRow(ctx, locks+`SELECT pg_is_in_recovery(), EXISTS (SELECT 1 FROM holder), current_setting('transaction_isolation')`,
		[]any{lockOf(id)}, &replica, &busy, &isolation)
	if err != nil {
		return false, false, fmt.Errorf("receiver: find the key's holder: %w", err)
	}
	if isolation != "read committed" {
		return false, false, fmt.Errorf("receiver: the transaction is %s, and must be read committed", isolation)
	}
	return busy, replica, nil
}
