package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

// Errors that Recovery returns, for errors.Is.
var (
	// ErrOtherCluster: the store is in another cluster, database or schema than the one in
	// which it was last confirmed.
	ErrOtherCluster = errors.New("store was copied or restored")
	// ErrOtherTimeline: the server was promoted or restored since the store was last
	// confirmed, and nobody who saw it happen vouches for what it holds.
	ErrOtherTimeline = errors.New("store's server was promoted or restored")
)

// ErrRestored: a person has confirmed the store as restored since it was opened, which its
// executor does not know.
var ErrRestored = errors.New("store was restored while it was open: start this process again")

// errUnsafe: the server's settings let commits be lost that it acknowledges.
var errUnsafe = errors.New("commits would not be durable")

// nowMicros is the server's clock.
const nowMicros = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)`

// witnesses are the expressions that tell the timeline and the settings on which durability
// rests, in one text that every write compares. Engines that have no timeline of
// PostgreSQL's kind keep commits by means of their own.
var witnesses = []string{
	`SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
		|| ' ' || current_setting('synchronous_commit') || ' ' || current_setting('fsync') || ' ' || current_setting('full_page_writes')
		|| ' ' || CASE current_setting('synchronous_standby_names') WHEN '' THEN 'alone' ELSE 'standby' END AS witness, ` + nowMicros + ` AS now`,
	`SELECT '00000000 on on on alone' AS witness, ` + nowMicros + ` AS now`,
}

// identities are the expressions for the system identifier that go with the witnesses.
var identities = []string{`(SELECT system_identifier FROM pg_control_system())`, `0`}

const (
	identifyPlace = `SELECT w.witness, w.now, CAST({identity} AS bigint),
		(SELECT CAST(oid AS bigint) FROM pg_database WHERE datname = current_database()),
		(SELECT CAST(oid AS bigint) FROM pg_namespace WHERE nspname = $1),
		(SELECT p.system FROM {schema}.store p), (SELECT p.timeline FROM {schema}.store p),
		(SELECT p.database FROM {schema}.store p), (SELECT p.schema FROM {schema}.store p)
		FROM ({witness}) w`
	insertPlace   = `INSERT INTO {schema}.store (one, id, system, timeline, database, schema) VALUES (1, $1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	adoptTimeline = `UPDATE {schema}.store SET timeline = $2 WHERE timeline = $1`
	selectRestore = `SELECT copied, at, until, who FROM {schema}.restores ORDER BY at DESC LIMIT 1`
	insertRestore = `INSERT INTO {schema}.restores (copied, at, until, who) VALUES ($1, $2, $3, $4)`
	updatePlace   = `UPDATE {schema}.store SET system = $1, timeline = $2, database = $3, schema = $4`
)

// place says where a store lives.
type place struct{ system, timeline, database, schema int64 }

// footing is what the store expects of every transaction: that it runs in the place, and
// with the settings, that were found sound.
type footing struct {
	place
	witness     string
	synchronous bool // a standby has what is acknowledged
}

// readWitness takes a witness apart and refuses settings that are not safe.
func readWitness(text string) (timeline int64, synchronous bool, err error) {
	f := strings.Fields(text)
	if len(f) != 5 {
		return 0, false, fmt.Errorf("the server tells %q: %w", text, errUnsafe)
	}
	if timeline, err = strconv.ParseInt(f[0], 16, 64); err != nil {
		return 0, false, fmt.Errorf("the server tells %q: %w", text, errUnsafe)
	}
	synchronous = f[4] == "standby"
	for setting, value := range map[string]string{"fsync": f[2], "full_page_writes": f[3]} {
		if value != "on" {
			return 0, false, fmt.Errorf("%s is %s, want on: %w", setting, value, errUnsafe)
		}
	}
	switch level := f[1]; {
	case level == "on", level == "remote_apply":
	case (level == "local" || level == "remote_write") && !synchronous: // the same as on
	default:
		return 0, false, fmt.Errorf("synchronous_commit is %s, want on: %w", level, errUnsafe)
	}
	return timeline, synchronous, nil
}

// look finds out where the store lives now and where it was last confirmed; the latter is
// zero where the store is new.
func (db *DB) look(ctx context.Context, c *pgconn.PgConn) (now footing, recorded place, err error) {
	t := newTuple(1)
	t.name(db.opts.Schema)
	sent := time.Now()
	found, err := exchange(ctx, c, ask(db.sql.identify, []field{{"schema", kindText}}, t))
	if err != nil {
		return now, recorded, err
	}
	if len(found[0].rows) != 1 {
		return now, recorded, fmt.Errorf("the place of the store: got %d rows, want 1", len(found[0].rows))
	}
	v := values{row: found[0].rows[0]}
	now.witness = v.text()
	db.clock.observe(v.int(), sent, time.Now())
	now.system, now.database, now.schema = v.int(), v.int(), v.int()
	recorded = place{v.int(), v.int(), v.int(), v.int()}
	now.timeline, now.synchronous, err = readWitness(now.witness)
	return now, recorded, err
}

// witness compares the place with the recorded one when the store is opened.
func (db *DB) witness(ctx context.Context, c *pgconn.PgConn) error {
	now, recorded, err := db.look(ctx, c)
	if err != nil {
		return err
	}
	if recorded == (place{}) {
		var id [16]byte
		rand.Read(id[:]) // never fails
		t := newTuple(5)
		t.uuid(id)
		now.add(t)
		if _, err := exchange(ctx, c, ask(db.sql.record, append([]field{{"id", kindUUID}}, placeFields...), t)); err != nil {
			return err
		}
		if now, recorded, err = db.look(ctx, c); err != nil { // another process may have been first
			return err
		}
	}
	if db.restored, err = db.readRestore(ctx, c); err != nil {
		return err
	}
	db.recovery = differs(now.place, recorded)
	db.expect(now)
	return nil
}

var placeFields = []field{{"system", kindInt}, {"timeline", kindInt}, {"database", kindInt}, {"schema", kindInt}}

func (p place) add(t *tuple) {
	t.int(p.system)
	t.int(p.timeline)
	t.int(p.database)
	t.int(p.schema)
}

// differs says how a place is not the recorded one.
func differs(now, recorded place) error {
	switch {
	case now == recorded:
		return nil
	case now.system != recorded.system || now.database != recorded.database || now.schema != recorded.schema:
		return ErrOtherCluster
	}
	return fmt.Errorf("timeline is %d, was %d: %w", now.timeline, recorded.timeline, ErrOtherTimeline)
}

// expect makes every later write hold the server to a footing. What was known to be stored
// is looked at anew.
func (db *DB) expect(now footing) {
	db.footing.Store(&now)
	db.catalog.forget()
}

// examine finds out whether the store may go on after its server was seen to have changed:
// the settings are safe, and the place is the confirmed one. A server that was promoted is
// confirmed by this process itself if it saw all that was acknowledged go to a standby.
func (db *DB) examine(ctx context.Context) error {
	db.examining.Lock()
	defer db.examining.Unlock()
	var fresh footing
	err := db.lend(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		now, recorded, err := db.look(ctx, c)
		if err != nil {
			return err
		}
		last, err := db.readRestore(ctx, c)
		if err != nil {
			return err
		}
		if last != nil && (db.restored == nil || last.At.After(db.restored.At)) {
			return ErrRestored
		}
		was := db.footing.Load()
		if now.system == was.system && now.timeline < was.timeline {
			return fmt.Errorf("timeline is %d after %d, so this is an old primary: %w", now.timeline, was.timeline, ErrOtherTimeline)
		}
		if why := differs(now.place, recorded); why != nil && (db.recovery == nil || now.place != was.place) {
			onward := recorded == was.place && was.synchronous && now.timeline > was.timeline &&
				now.place == place{was.system, now.timeline, was.database, was.schema}
			if !onward {
				return why
			}
			t := newTuple(2)
			t.int(recorded.timeline)
			t.int(now.timeline)
			if _, err := exchange(ctx, c, begin, ask(db.sql.adopt, placeFields[:2], t), commit); err != nil {
				return err
			}
			db.opts.Log.Warn("the store goes on at a server that was promoted", "timeline", now.timeline, "was", recorded.timeline)
		}
		fresh = now
		return nil
	})
	if errors.Is(err, errUnsafe) || errors.Is(err, ErrOtherCluster) || errors.Is(err, ErrOtherTimeline) || errors.Is(err, ErrRestored) {
		return db.fail(err)
	}
	if err != nil {
		return err
	}
	db.expect(fresh)
	db.failed.Store(nil)
	return nil
}

// Recovery says why the store may not hold everything that was acknowledged, or may have a
// living twin; nil means that it is where it was last used. It is found out at Open and
// stays until the store is opened again after Confirm.
func (db *DB) Recovery() error {
	if db.recovery == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", db.name, db.recovery)
}

// Restored is the last restore that Confirm recorded before the store was opened; nil where
// there was none. An executor has to know of it.
func (db *DB) Restored() *pawl.Restore { return db.restored }

var restoreFields = []field{{"copied", kindInt}, {"at", kindInt}, {"until", kindInt}, {"who", kindText}}

// readRestore reads the last restore that was recorded; nil where there was none.
func (db *DB) readRestore(ctx context.Context, c *pgconn.PgConn) (*pawl.Restore, error) {
	found, err := exchange(ctx, c, ask(db.sql.restored, nil, nil))
	if err != nil || len(found[0].rows) == 0 {
		return nil, err
	}
	v := values{row: found[0].rows[0]}
	r := &pawl.Restore{Copied: instant(v.int()), At: instant(v.int()), Until: instant(v.int()), By: v.text()}
	if v.broken {
		return nil, fmt.Errorf("the last restore cannot be read: %w", pawl.ErrCorrupt)
	}
	return r, nil
}

// Confirm records that the store lives where it is now, and since when.
func (db *DB) Confirm(ctx context.Context, r *pawl.Restore) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("postgres: confirm: %w", err)
	}
	err := db.lend(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		now, _, err := db.look(ctx, c)
		if err != nil {
			return err
		}
		t := newTuple(4)
		now.add(t)
		said := newTuple(4)
		said.int(micros(r.Copied))
		said.int(micros(r.At))
		said.int(micros(r.Until))
		said.name(r.By)
		_, err = exchange(ctx, c, begin, ask(db.sql.confirm, placeFields, t), ask(db.sql.restore, restoreFields, said), commit)
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: confirm: %w", db.tell(ctx, err))
	}
	return nil
}

// fail refuses writes until examine finds the server sound again, and returns what callers
// are told.
func (db *DB) fail(cause error) error {
	err := fmt.Errorf("postgres: %s: %w: %w", db.name, pawl.ErrStoreFailed, cause)
	db.failed.Store(&failed{err, time.Now()})
	return err
}

// failed is why writes are refused.
type failed struct {
	err  error
	seen time.Time // when the server was last looked at
}

// failure returns why writes are refused. The server is looked at again now and then: the
// store goes on by itself when somebody has put right what was wrong.
func (db *DB) failure(ctx context.Context) error {
	f := db.failed.Load()
	if f == nil {
		return nil
	}
	if time.Since(f.seen) >= reexamine && db.failed.CompareAndSwap(f, &failed{f.err, time.Now()}) {
		if err := db.examine(ctx); err == nil {
			return nil
		}
	}
	return f.err
}

// reexamine is the least time between two looks at a server that was found wanting.
const reexamine = time.Second

var errNoAnswer = errors.New("the server's answer has an unexpected form")

// witnessed reads the rows of a statement that tells its witness. It returns the ids, and
// whether the server was the expected one: otherwise the statement has written nothing.
func (db *DB) witnessed(r result, expected string, sent time.Time) (ids [][16]byte, as bool, err error) {
	for i, row := range r.rows {
		v := values{row: row}
		found, at := v.text(), v.int()
		if i == 0 {
			db.clock.observe(at, sent, time.Now())
		}
		if found != expected {
			return nil, false, nil
		}
		if id := v.next(); len(id) == 16 {
			ids = append(ids, [16]byte(id))
		}
	}
	if len(r.rows) == 0 {
		return nil, false, errNoAnswer
	}
	return ids, true, nil
}

// bigEndian is how a number is sent.
func bigEndian(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
