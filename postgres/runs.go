package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

const runColumns = `u.id, u.tenant, u.run, u.status, u.planned, u.version, u.begun, u.due, u.record, u.sum`

const (
	insertRuns = `INSERT INTO {schema}.runs (id, tenant, run, status, planned, version, begun, due, record, sum)
		SELECT r.id, r.tenant, r.run, r.status, r.planned, r.version, r.begun, r.due, r.record, r.sum FROM ({rows}) r ON CONFLICT DO NOTHING`

	// lockRuns makes whoever changes the record of a run wait for the operations that are
	// beginning in it, and those see what was changed before.
	lockRuns = `SELECT u.id FROM {schema}.runs u WHERE u.id = ANY($1::uuid[]) ORDER BY u.id FOR SHARE`

	// writeRun inserts version 1, or writes over the version before.
	writeRun = `WITH w AS ({witness}), r AS (SELECT q.* FROM ({rows}) q JOIN w ON w.witness = {expected}), i AS (
			INSERT INTO {schema}.runs (id, tenant, run, status, planned, version, begun, due, record, sum)
			SELECT r.id, r.tenant, r.run, r.status, r.planned, r.version, r.begun, r.due, r.record, r.sum FROM r WHERE r.version = 1
			ON CONFLICT DO NOTHING RETURNING id
		), u AS (
			UPDATE {schema}.runs u SET status = r.status, planned = r.planned, version = r.version, due = r.due, record = r.record, sum = r.sum
			FROM r WHERE u.id = r.id AND u.version = r.version - 1 RETURNING u.id
		)
		SELECT w.witness, w.now, x.id FROM w LEFT JOIN (SELECT id FROM i UNION ALL SELECT id FROM u) x ON true`
	confirmRun = `UPDATE {schema}.runs u SET version = u.version FROM ({rows}) r
		WHERE u.id = r.id AND u.version = r.version AND u.record = r.record RETURNING u.id`

	selectRun     = `SELECT ` + runColumns + ` FROM {schema}.runs u WHERE u.id = $1`
	selectDueRuns = `SELECT ` + runColumns + ` FROM {schema}.runs u WHERE u.due IS NOT NULL AND u.due <= $1 ORDER BY u.due LIMIT $2`
)

var (
	runFields = []field{
		{"id", kindUUID}, {"tenant", kindText}, {"run", kindText}, {"status", kindText}, {"planned", kindBool}, {"version", kindInt},
		{"begun", kindInt}, {"due", kindInt}, {"record", kindText}, {"sum", kindInt},
	}
	runDoubtFields = []field{{"id", kindUUID}, {"version", kindInt}, {"record", kindText}}
)

// runRow is the record of a run as its table holds it.
type runRow struct {
	id      pawl.Digest
	tenant  string
	run     string
	status  string
	planned bool
	version int64
	begun   int64
	due     int64
	record  []byte
	sum     int64
	broken  bool
}

func newRunRow(r *pawl.Run) (*runRow, error) {
	for name, s := range map[string]string{"tenant": r.Tenant, "run": r.ID} {
		if n := len(escape(s)); n > maxName {
			return nil, fmt.Errorf("%s has %d bytes, at most %d are kept", name, n, maxName)
		}
	}
	x := &runRow{
		id: pawl.RunDigest(r.Tenant, r.ID), tenant: r.Tenant, run: r.ID, status: string(r.Status), planned: r.Plan != nil,
		version: r.Version, begun: micros(r.Created), due: micros(r.Due),
	}
	var err error
	if x.record, err = encode(r); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	x.sum = x.seal()
	return x, nil
}

func (x *runRow) seal() int64 {
	var s seal
	s.bytes(x.id[:])
	s.string(x.tenant)
	s.string(x.run)
	s.string(x.status)
	if x.planned {
		s.int(1)
	}
	s.int(x.version)
	s.int(x.begun)
	s.int(x.due)
	s.bytes(x.record)
	return int64(s.sum)
}

// tuple is the row in the order of runFields.
func (x *runRow) tuple() *tuple {
	t := newTuple(len(runFields))
	t.uuid(x.id)
	t.name(x.tenant)
	t.name(x.run)
	t.document([]byte(x.status))
	t.bool(x.planned)
	t.int(x.version)
	t.int(x.begun)
	t.time(x.due)
	t.document(x.record)
	t.int(x.sum)
	return t
}

// doubt is the row in the order of runDoubtFields.
func (x *runRow) doubt() *tuple {
	t := newTuple(len(runDoubtFields))
	t.uuid(x.id)
	t.int(x.version)
	t.document(x.record)
	return t
}

func scanRun(v *values) *runRow {
	x := new(runRow)
	x.id, x.tenant, x.run, x.status, x.planned = v.uuid(), v.name(), v.name(), v.text(), v.bool()
	x.version, x.begun, x.due, x.record, x.sum = v.int(), v.int(), v.int(), v.document(), v.int()
	x.broken = v.broken
	return x
}

// decode checks the seal and reads the record.
func (x *runRow) decode() (*pawl.Run, error) {
	r := new(pawl.Run)
	if x.broken || x.sum != x.seal() || x.id != pawl.RunDigest(x.tenant, x.run) {
		return nil, fmt.Errorf("postgres: record of run %q failed its check: %w", x.run, pawl.ErrCorrupt)
	}
	if err := json.Unmarshal(x.record, r); err != nil {
		return nil, fmt.Errorf("postgres: record of run %q: %w: %w", x.run, pawl.ErrCorrupt, err)
	}
	r.Tenant, r.ID = x.tenant, x.run // JSON keeps no bytes that are not UTF-8
	return r, nil
}

// putting is the write of PutRun.
type putting struct {
	header
	row *runRow
}

// PutRun writes the record of a run if the stored one has the version before it.
func (db *DB) PutRun(ctx context.Context, r *pawl.Run) error {
	if r.ID == "" || r.Version < 1 {
		return errors.New("postgres: put run: want an id and a version from 1 on")
	}
	row, err := newRunRow(r)
	if err != nil {
		return fmt.Errorf("postgres: put run: %w", err)
	}
	x := &putting{row: row}
	x.params, x.size, x.claims = row.tuple(), len(row.record), []pawl.Digest{row.id}
	if err := db.submit(ctx, x, time.Now().Add(db.opts.BusyTimeout)); err != nil {
		return err
	}
	if !x.decided {
		return fmt.Errorf("postgres: put run %q: %w", r.ID, pawl.ErrStale)
	}
	return nil
}

// barring finds the run that kept an operation from beginning; nil means that none did.
func (db *DB) barring(ctx context.Context, b *beginning) (*pawl.Standing, error) {
	if !claimed(b.runID) {
		return nil, nil
	}
	run, err := db.getRun(ctx, b.runID)
	if err != nil || run == nil || !run.Bars(b.intent) {
		return nil, err
	}
	return &pawl.Standing{Kind: pawl.ClaimRun, Run: run}, nil
}

// GetRun returns the record of one run of the tenant, or ErrNotFound.
func (db *DB) GetRun(ctx context.Context, tenant, run string) (*pawl.Run, error) {
	r, err := db.getRun(ctx, pawl.RunDigest(tenant, run))
	if err == nil && r == nil {
		err = fmt.Errorf("postgres: get run %q: %w", run, pawl.ErrNotFound)
	}
	return r, err
}

// getRun returns nil where there is no record.
func (db *DB) getRun(ctx context.Context, id pawl.Digest) (*pawl.Run, error) {
	t := newTuple(1)
	t.uuid(id)
	runs, err := db.queryRuns(ctx, ask(db.sql.run, runFields[:1], t))
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return runs[0].decode()
}

func (db *DB) queryRuns(ctx context.Context, s statement) (runs []*runRow, err error) {
	err = db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, s)
		if err != nil {
			return err
		}
		runs = runs[:0]
		for _, r := range found[0].rows {
			runs = append(runs, scanRun(&values{row: r}))
		}
		return nil
	})
	return runs, err
}

// FindRuns lists runs, the one begun last first.
func (db *DB) FindRuns(ctx context.Context, q pawl.RunQuery) ([]*pawl.Run, error) {
	l := &listing{limit: int64(q.Limit), params: newTuple(4)}
	where := []string{"true"}
	switch q.Status {
	case "":
	case pawl.RunOpen:
		where = append(where, "u.status = 'open'")
	case pawl.RunAborting, pawl.RunAborted:
		where = append(where, "u.status <> 'open'", "u.status = '"+string(q.Status)+"'")
	default:
		return nil, fmt.Errorf("postgres: find runs: status: there is no %q", q.Status)
	}
	if !q.AllTenants {
		where = append(where, "u.tenant = "+l.text(q.Tenant))
	}
	if q.Before != "" {
		where = append(where, "(u.begun, u.id) < (SELECT p.begun, p.id FROM {schema}.runs p WHERE p.id = "+l.uuid(pawl.RunDigest(q.BeforeTenant, q.Before))+")")
	}
	if l.limit <= 0 {
		l.limit = defaultLimit
	}
	sql := "SELECT " + runColumns + " FROM {schema}.runs u WHERE " + strings.Join(where, " AND ") +
		" ORDER BY u.begun DESC, u.id DESC LIMIT " + strconv.FormatInt(min(l.limit, maxLimit), 10)
	rows, err := db.queryRuns(ctx, statement{sql: strings.ReplaceAll(sql, "{schema}", db.opts.Schema), params: l.params.values, oids: l.oids})
	if err != nil {
		return nil, err
	}
	runs := make([]*pawl.Run, len(rows))
	for i, x := range rows {
		if runs[i], err = x.decode(); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// ClaimRuns gives due runs to the caller, oldest due first. A record that fails its check
// is passed over and told as an error where nothing else was claimed.
func (db *DB) ClaimRuns(ctx context.Context, limit int, lease time.Duration) (runs []*pawl.Run, err error) {
	if lease <= 0 {
		return nil, fmt.Errorf("postgres: claim runs: lease of %v is not positive", lease)
	}
	now, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	t := newTuple(2)
	t.int(micros(now))
	t.int(int64(max(0, min(limit, maxClaim))))
	rows, err := db.queryRuns(ctx, ask(db.sql.dueRuns, []field{{"now", kindInt}, {"most", kindInt}}, t))
	if err != nil {
		return nil, err
	}
	var corrupt error
	for _, x := range rows {
		r, err := x.decode()
		if err != nil {
			corrupt = errors.Join(corrupt, err)
			continue
		}
		r.Version++
		r.Lease, r.Due = now.Add(lease), now.Add(lease)
		switch err := db.PutRun(ctx, r); {
		case err == nil:
			runs = append(runs, r)
		case !errors.Is(err, pawl.ErrStale): // who was faster has it
			return runs, err
		}
	}
	if len(runs) > 0 {
		return runs, nil
	}
	return nil, corrupt
}
