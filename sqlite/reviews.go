package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

// Interface guards.
var (
	_ pawl.Sighter = (*DB)(nil)
	_ pawl.Outbox  = (*DB)(nil)
)

const (
	insertSighting = `INSERT INTO sightings (look, at, id, tenant) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING`
	forgetSighting = `DELETE FROM sightings WHERE look = ?1 AND at < ?2`
	selectSighting = `SELECT id FROM sightings WHERE look = ?1 AND at >= ?2 AND id <> ?3 AND tenant = ?4 ORDER BY at DESC, id DESC LIMIT ?5`

	selectOpened = `SELECT s.op, s.review FROM states s WHERE s.review IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.op = s.op AND n.since = s.review AND n.kind = 1) LIMIT ?1`
	selectClosed = `SELECT n.n, n.op, n.since, n.tries FROM notices n INDEXED BY notices_open JOIN states s ON s.op = n.op
		WHERE n.open AND (s.review IS NULL OR s.review <> n.since) LIMIT ?1`
	insertNotice     = `INSERT INTO notices (op, since, kind, open, tries, token, due) VALUES (?1, ?2, ?3, ?4, 0, 0, ?5) ON CONFLICT DO NOTHING`
	closeNotice      = `UPDATE notices SET open = 0, due = CASE WHEN ?2 THEN due END WHERE n = ?1`
	selectDueNotices = `SELECT n.n, n.op, n.since, n.kind, n.tries, i.id, l.tenant FROM notices n JOIN intents i ON i.op = n.op JOIN lanes l ON l.lane = i.lane
		WHERE n.due IS NOT NULL AND n.due <= ?1 ORDER BY n.due LIMIT ?2`
	takeNotice = `UPDATE notices SET tries = tries + 1, token = ?2, due = ?3 WHERE n = ?1`
	endNotice  = `UPDATE notices SET due = ?5, told = ?6 WHERE op = (SELECT op FROM intents WHERE id = ?1) AND since = ?2 AND kind = ?3 AND token = ?4`
	selectTold = `SELECT 1 FROM notices n WHERE n.op = (SELECT op FROM intents WHERE id = ?1) AND n.since = ?2 AND n.kind = 1 AND n.told IS NOT NULL`
)

// Kinds of notices in the table.
const (
	kindOpened = 1
	kindClosed = 2
)

// seldom is a write of statements that are made for it: of what is seldom written.
type seldom struct {
	header
	do func(w *writer) error
}

func (c *seldom) apply(w *writer) error { return c.do(w) }

// once runs a statement that is not kept prepared.
func (w *writer) once(sql string, bind func(*params), each func(*sqlite3.Stmt)) error {
	s, _, err := w.conn.Prepare(sql)
	if err != nil {
		return err
	}
	p := params{s: s}
	bind(&p)
	_, err = p.query(each)
	return errors.Join(err, s.Close())
}

func none(*sqlite3.Stmt) {}

// Sight records a sighting and returns the look-alikes since a time, newest first.
func (db *DB) Sight(ctx context.Context, s pawl.Sighting, since time.Time) (ids []pawl.ID, err error) {
	c := &seldom{do: func(w *writer) error {
		ids = ids[:0]
		err := w.once(insertSighting, func(p *params) {
			p.blob(s.Look[:])
			p.int(micros(s.At))
			p.blob(s.ID[:])
			p.text(s.Tenant)
		}, none)
		if err != nil {
			return err
		}
		if err := w.once(forgetSighting, func(p *params) { p.blob(s.Look[:]); p.int(micros(since)) }, none); err != nil {
			return err
		}
		return w.once(selectSighting, func(p *params) {
			p.blob(s.Look[:])
			p.int(micros(since))
			p.blob(s.ID[:])
			p.text(s.Tenant)
			p.int(pawl.MaxSightings)
		}, func(s *sqlite3.Stmt) {
			var id pawl.ID
			copy(id[:], s.ColumnRawBlob(0))
			ids = append(ids, id)
		})
	}}
	if err := db.submit(ctx, c); err != nil {
		return nil, err
	}
	return ids, nil
}

// GatherNotices records the facts that have no notice yet. It looks first without writing.
func (db *DB) GatherNotices(ctx context.Context, limit int) (made int, err error) {
	var found bool
	err = db.read(ctx, func(r *reader) error {
		for _, sql := range []string{selectOpened, selectClosed} {
			if err := r.query(sql, func(p *params) { p.int(1) }, func(*sqlite3.Stmt) { found = true }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !found {
		return 0, err
	}
	type fact struct{ n, op, since, tries int64 }
	now := micros(db.clock.now())
	c := &seldom{do: func(w *writer) error {
		made = 0
		var opened, closed []fact
		limited := func(p *params) { p.int(int64(limit)) }
		if err := w.once(selectOpened, limited, func(s *sqlite3.Stmt) {
			opened = append(opened, fact{op: s.ColumnInt64(0), since: s.ColumnInt64(1)})
		}); err != nil {
			return err
		}
		if err := w.once(selectClosed, limited, func(s *sqlite3.Stmt) {
			closed = append(closed, fact{s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2), s.ColumnInt64(3)})
		}); err != nil {
			return err
		}
		insert := func(f fact, kind int64) error {
			made++
			return w.once(insertNotice, func(p *params) { p.int(f.op); p.int(f.since); p.int(kind); p.bool(kind == kindOpened); p.int(now) }, none)
		}
		for _, f := range opened {
			if err := insert(f, kindOpened); err != nil {
				return err
			}
		}
		for _, f := range closed {
			tried := f.tries > 0
			if err := w.once(closeNotice, func(p *params) { p.int(f.n); p.bool(tried) }, none); err != nil {
				return err
			}
			if !tried {
				continue // nobody was told that it began
			}
			if err := insert(f, kindClosed); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := db.submit(ctx, c); err != nil {
		return 0, err
	}
	return made, nil
}

// TakeNotices gives due notices to the caller for the time of a lease.
func (db *DB) TakeNotices(ctx context.Context, limit int, lease time.Duration) (taken []*pawl.Notice, err error) {
	now := db.clock.now()
	due := func(p *params) { p.int(micros(now)); p.int(int64(limit)) }
	var some bool
	if err := db.read(ctx, func(r *reader) error {
		return r.query(selectDueNotices, due, func(*sqlite3.Stmt) { some = true })
	}); err != nil || !some {
		return nil, err
	}
	c := &seldom{do: func(w *writer) error {
		taken = nil
		var rows []int64
		if err := w.once(selectDueNotices, due, func(s *sqlite3.Stmt) {
			n := &pawl.Notice{Tenant: s.ColumnText(6), Kind: pawl.ReviewOpened, Since: instant(s.ColumnInt64(2)), Tries: int(s.ColumnInt64(4)) + 1, Token: noticeToken()}
			if s.ColumnInt64(3) == kindClosed {
				n.Kind = pawl.ReviewClosed
			}
			copy(n.Operation[:], s.ColumnRawBlob(5))
			taken, rows = append(taken, n), append(rows, s.ColumnInt64(0))
		}); err != nil {
			return err
		}
		for i, row := range rows {
			if err := w.once(takeNotice, func(p *params) { p.int(row); p.int(taken[i].Token); p.int(micros(now.Add(lease))) }, none); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := db.submit(ctx, c); err != nil {
		return nil, err
	}
	return taken, nil
}

func noticeToken() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:])>>1 | 1)
}

// EndNotice says what became of a notice.
func (db *DB) EndNotice(ctx context.Context, n *pawl.Notice, end pawl.NoticeEnd) (held bool, err error) {
	now := db.clock.now()
	c := &seldom{do: func(w *writer) error {
		err := w.once(endNotice, func(p *params) {
			p.blob(n.Operation[:])
			p.int(micros(n.Since))
			p.int(kindOf(n))
			p.int(n.Token)
			p.time(micros(end.Again))
			if end.Told {
				p.int(micros(now))
			} else {
				p.null()
			}
		}, none)
		held = err == nil && w.conn.Changes() > 0
		return err
	}}
	if err := db.submit(ctx, c); err != nil {
		return false, err
	}
	return held, nil
}

func kindOf(n *pawl.Notice) int64 {
	if n.Kind == pawl.ReviewClosed {
		return kindClosed
	}
	return kindOpened
}

// Notified reports whether the operator was told that an operation waits for a person.
func (db *DB) Notified(ctx context.Context, op *pawl.Operation) (told bool, err error) {
	if op.Review.IsZero() {
		return false, nil
	}
	err = db.read(ctx, func(r *reader) error {
		return r.query(selectTold, func(p *params) { p.blob(op.ID[:]); p.int(micros(op.Review)) }, func(*sqlite3.Stmt) { told = true })
	})
	return told, err
}
