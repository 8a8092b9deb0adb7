package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

// Interface guards.
var (
	_ pawl.Sighter = (*DB)(nil)
	_ pawl.Outbox  = (*DB)(nil)
)

const (
	insertSighting = `INSERT INTO {schema}.sightings (look, at, id, tenant) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	forgetSighting = `DELETE FROM {schema}.sightings WHERE look = $1 AND at < $2`
	selectSighting = `SELECT g.id FROM {schema}.sightings g WHERE g.look = $1 AND g.at >= $2 AND g.id <> $3 AND g.tenant = $4
		ORDER BY g.at DESC, g.id DESC LIMIT $5`

	selectOpened = `SELECT s.id, s.review AS since FROM {schema}.states s WHERE s.review IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM {schema}.notices n WHERE n.id = s.id AND n.since = s.review AND n.kind = 1)`
	selectClosed = `SELECT n.id, n.since FROM {schema}.notices n JOIN {schema}.states s ON s.id = n.id
		WHERE n.open AND (s.review IS NULL OR s.review <> n.since)`
	selectFacts  = `SELECT 1 WHERE EXISTS (` + selectOpened + `) OR EXISTS (` + selectClosed + `)`
	insertOpened = `INSERT INTO {schema}.notices (id, since, kind, open, tries, token, due)
		SELECT o.id, o.since, 1, true, 0, 0, $2 FROM (` + selectOpened + ` LIMIT $1) o ON CONFLICT DO NOTHING`
	insertClosed = `WITH c AS (` + selectClosed + ` LIMIT $1), over AS (
			UPDATE {schema}.notices n SET open = false, due = CASE WHEN n.tries > 0 THEN n.due END FROM c
			WHERE n.id = c.id AND n.since = c.since AND n.kind = 1 AND n.open RETURNING n.id, n.since, n.tries
		)
		INSERT INTO {schema}.notices (id, since, kind, open, tries, token, due)
		SELECT o.id, o.since, 2, false, 0, 0, $2 FROM over o WHERE o.tries > 0 ON CONFLICT DO NOTHING`
	takeNotices = `WITH d AS (SELECT n.id, n.since, n.kind FROM {schema}.notices n WHERE n.due IS NOT NULL AND n.due <= $1
			ORDER BY n.due LIMIT $2 FOR UPDATE SKIP LOCKED)
		UPDATE {schema}.notices n SET tries = n.tries + 1, token = $3, due = $4 FROM d, {schema}.intents i, {schema}.lanes l
		WHERE n.id = d.id AND n.since = d.since AND n.kind = d.kind AND i.id = n.id AND l.lane = i.lane
		RETURNING n.id, n.since, n.kind, n.tries, l.tenant`
	selectDueNotice = `SELECT 1 FROM {schema}.notices n WHERE n.due IS NOT NULL AND n.due <= $1 LIMIT 1`
	endNotice       = `UPDATE {schema}.notices SET due = $5, told = $6 WHERE id = $1 AND since = $2 AND kind = $3 AND token = $4 RETURNING 1`
	selectTold      = `SELECT 1 FROM {schema}.notices WHERE id = $1 AND since = $2 AND kind = 1 AND told IS NOT NULL`
)

// Kinds of notices in the table.
const (
	kindOpened = 1
	kindClosed = 2
)

// made makes a statement that is seldom sent. Its parameters are in the order of the kinds.
func (db *DB) made(sql string, t *tuple, kinds ...kind) statement {
	s := statement{sql: strings.ReplaceAll(sql, "{schema}", db.opts.Schema), params: t.values}
	for _, k := range kinds {
		s.oids = append(s.oids, k.oid)
	}
	return s
}

// change makes one transaction of its own, of what can be made again after any doubt.
func (db *DB) change(ctx context.Context, statements ...statement) (results []result, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := db.failure(ctx); err != nil {
		return nil, err
	}
	err = db.lend(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		results, err = query(ctx, c, statements...)
		return err
	})
	if err != nil {
		return nil, db.tell(ctx, err)
	}
	return results, nil
}

// Sight records a sighting and returns the look-alikes since a time, newest first. They are
// looked for once it is committed, so that of two at once one finds the other.
func (db *DB) Sight(ctx context.Context, s pawl.Sighting, since time.Time) ([]pawl.ID, error) {
	record, forget, look := newTuple(4), newTuple(2), newTuple(5)
	record.uuid(s.Look)
	record.int(micros(s.At))
	record.uuid(s.ID)
	record.name(s.Tenant)
	forget.uuid(s.Look)
	forget.int(micros(since))
	look.uuid(s.Look)
	look.int(micros(since))
	look.uuid(s.ID)
	look.name(s.Tenant)
	look.int(pawl.MaxSightings)
	if _, err := db.change(ctx, db.made(insertSighting, record, kindUUID, kindInt, kindUUID, kindText),
		db.made(forgetSighting, forget, kindUUID, kindInt)); err != nil {
		return nil, fmt.Errorf("postgres: sight: %w", err)
	}
	var ids []pawl.ID
	err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, db.made(selectSighting, look, kindUUID, kindInt, kindUUID, kindText, kindInt))
		if err != nil {
			return err
		}
		ids = ids[:0]
		for _, r := range found[0].rows {
			v := values{row: r}
			ids = append(ids, v.uuid())
		}
		return nil
	})
	return ids, err
}

// GatherNotices records the facts that have no notice yet. It looks first without writing.
func (db *DB) GatherNotices(ctx context.Context, limit int) (int, error) {
	some, err := db.any(ctx, db.made(selectFacts, newTuple(0)))
	if err != nil || !some {
		return 0, err
	}
	now, err := db.Now(ctx)
	if err != nil {
		return 0, err
	}
	t := newTuple(2)
	t.int(int64(limit))
	t.int(micros(now))
	results, err := db.change(ctx, db.made(insertOpened, t, kindInt, kindInt), db.made(insertClosed, t, kindInt, kindInt))
	if err != nil {
		return 0, fmt.Errorf("postgres: gather notices: %w", err)
	}
	made := 0
	for _, r := range results {
		var n int
		if _, err := fmt.Sscanf(r.tag, "INSERT 0 %d", &n); err == nil {
			made += n
		}
	}
	return made, nil
}

// any reports whether a statement selects a row.
func (db *DB) any(ctx context.Context, s statement) (some bool, err error) {
	err = db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, s)
		some = err == nil && len(found[0].rows) > 0
		return err
	})
	return some, err
}

// TakeNotices gives due notices to the caller for the time of a lease.
func (db *DB) TakeNotices(ctx context.Context, limit int, lease time.Duration) ([]*pawl.Notice, error) {
	now, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	due := newTuple(1)
	due.int(micros(now))
	some, err := db.any(ctx, db.made(selectDueNotice, due, kindInt))
	if err != nil || !some {
		return nil, err
	}
	var b [8]byte
	rand.Read(b[:])
	token := int64(binary.LittleEndian.Uint64(b[:])>>1 | 1)
	t := newTuple(4)
	t.int(micros(now))
	t.int(int64(limit))
	t.int(token)
	t.int(micros(now.Add(lease)))
	results, err := db.change(ctx, db.made(takeNotices, t, kindInt, kindInt, kindInt, kindInt))
	if err != nil {
		return nil, fmt.Errorf("postgres: take notices: %w", err)
	}
	var taken []*pawl.Notice
	for _, r := range results[0].rows {
		v := values{row: r}
		n := &pawl.Notice{Operation: v.uuid(), Since: instant(v.int()), Kind: pawl.ReviewOpened, Token: token}
		if v.int() == kindClosed {
			n.Kind = pawl.ReviewClosed
		}
		n.Tries, n.Tenant = int(v.int()), v.name()
		taken = append(taken, n)
	}
	return taken, nil
}

// EndNotice says what became of a notice.
func (db *DB) EndNotice(ctx context.Context, n *pawl.Notice, end pawl.NoticeEnd) (bool, error) {
	now, err := db.Now(ctx)
	if err != nil {
		return false, err
	}
	t := newTuple(6)
	t.uuid(n.Operation)
	t.int(micros(n.Since))
	t.int(kindOf(n))
	t.int(n.Token)
	t.time(micros(end.Again))
	if end.Told {
		t.int(micros(now))
	} else {
		t.null()
	}
	results, err := db.change(ctx, db.made(endNotice, t, kindUUID, kindInt, kindInt, kindInt, kindInt, kindInt))
	if err != nil {
		return false, fmt.Errorf("postgres: end notice: %w", err)
	}
	return len(results[0].rows) > 0, nil
}

func kindOf(n *pawl.Notice) int64 {
	if n.Kind == pawl.ReviewClosed {
		return kindClosed
	}
	return kindOpened
}

// Notified reports whether the operator was told that an operation waits for a person.
func (db *DB) Notified(ctx context.Context, op *pawl.Operation) (bool, error) {
	if op.Review.IsZero() {
		return false, nil
	}
	t := newTuple(2)
	t.uuid(op.ID)
	t.int(micros(op.Review))
	return db.any(ctx, db.made(selectTold, t, kindUUID, kindInt))
}
