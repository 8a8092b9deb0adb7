package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	runColumns = `id, tenant, run, status, planned, version, due, record, sum`

	selectRun = `SELECT ` + runColumns + ` FROM runs WHERE id = ?1`
	insertRun = `INSERT INTO runs (` + runColumns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING`
	updateRun = `UPDATE runs SET status = ?4, planned = ?5, version = ?6, due = ?7, record = ?8, sum = ?9 WHERE id = ?1 AND version = ?6 - 1 AND tenant = ?2 AND run = ?3`
	selectDue = `SELECT ` + runColumns + ` FROM runs INDEXED BY runs_due WHERE due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2`
)

// runRow is the record of a run as its table holds it.
type runRow struct {
	id      pawl.Digest
	tenant  string
	run     string
	status  string
	planned bool
	version int64
	due     int64
	record  []byte
	sum     int64
}

func newRunRow(r *pawl.Run) (*runRow, error) {
	for name, s := range map[string]string{"tenant": r.Tenant, "run": r.ID} {
		if len(s) > maxName {
			return nil, fmt.Errorf("%s has %d bytes, at most %d are kept", name, len(s), maxName)
		}
	}
	x := &runRow{
		id: pawl.RunDigest(r.Tenant, r.ID), tenant: r.Tenant, run: r.ID, status: string(r.Status), planned: r.Plan != nil,
		version: r.Version, due: micros(r.Due),
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
	s.int(x.due)
	s.bytes(x.record)
	return int64(s.sum)
}

// decode checks the seal and reads the record.
func (x *runRow) decode() (*pawl.Run, error) {
	r := new(pawl.Run)
	if x.sum != x.seal() || x.id != pawl.RunDigest(x.tenant, x.run) {
		return nil, fmt.Errorf("sqlite: record of run %q failed its check: %w", x.run, pawl.ErrCorrupt)
	}
	if err := json.Unmarshal(x.record, r); err != nil {
		return nil, fmt.Errorf("sqlite: record of run %q: %w: %w", x.run, pawl.ErrCorrupt, err)
	}
	r.Tenant, r.ID = x.tenant, x.run // JSON keeps no bytes that are not UTF-8
	return r, nil
}

// bars reports whether the run keeps an operation from beginning. A record that failed its
// check keeps every one: nobody knows whether the run was called off.
func (x *runRow) bars(in *pawl.Intent) bool {
	r := &pawl.Run{Status: pawl.RunStatus(x.status)}
	if x.planned {
		r.Plan = new(pawl.Plan)
	}
	return r.Bars(in) || x.sum != x.seal()
}

// free reports whether the run keeps no operation from beginning.
func (x *runRow) free() bool {
	return pawl.RunStatus(x.status) == pawl.RunOpen && !x.planned && x.sum == x.seal()
}

func (p *params) runRow(x *runRow) {
	p.blob(x.id[:])
	p.text(x.tenant)
	p.text(x.run)
	p.text(x.status)
	p.bool(x.planned)
	p.int(x.version)
	p.time(x.due)
	p.raw(x.record)
	p.int(x.sum)
}

func scanRun(s *sqlite3.Stmt) *runRow { return viewRun(s).kept() }

// viewRun reads a row whose record is gone when the statement goes on.
func viewRun(s *sqlite3.Stmt) *runRow {
	x := new(runRow)
	copy(x.id[:], s.ColumnRawBlob(0))
	x.tenant, x.run, x.status, x.planned = s.ColumnText(1), s.ColumnText(2), s.ColumnText(3), s.ColumnInt64(4) != 0
	x.version, x.due, x.record, x.sum = s.ColumnInt64(5), s.ColumnInt64(6), s.ColumnRawText(7), s.ColumnInt64(8)
	return x
}

// kept is a row that outlives its statement.
func (x *runRow) kept() *runRow {
	x.record = bytes.Clone(x.record)
	return x
}

func (w *writer) insertRun(x *runRow) (bool, error) {
	p := params{s: w.stmt.insertRun}
	p.runRow(x)
	return p.exec()
}

// putting is the write of PutRun.
type putting struct {
	header
	row   *runRow
	stale bool
}

// PutRun writes the record of a run if the stored one has the version before it.
func (db *DB) PutRun(ctx context.Context, r *pawl.Run) error {
	if r.ID == "" || r.Version < 1 {
		return errors.New("sqlite: put run: want an id and a version from 1 on")
	}
	row, err := newRunRow(r)
	if err != nil {
		return fmt.Errorf("sqlite: put run: %w", err)
	}
	x := &putting{row: row}
	x.size = len(row.record)
	if err := db.submit(ctx, x); err != nil {
		return err
	}
	if x.stale {
		return fmt.Errorf("sqlite: put run %q: %w", r.ID, pawl.ErrStale)
	}
	return nil
}

func (x *putting) apply(w *writer) (err error) {
	delete(w.openRuns, x.row.id)
	var changed bool
	if x.row.version == 1 {
		changed, err = w.insertRun(x.row)
	} else {
		p := params{s: w.stmt.updateRun}
		p.runRow(x.row)
		changed, err = p.exec()
	}
	x.stale = !changed
	return err
}

// GetRun returns the record of one run of the tenant, or ErrNotFound.
func (db *DB) GetRun(ctx context.Context, tenant, run string) (*pawl.Run, error) {
	var x *runRow
	err := db.read(ctx, func(r *reader) error {
		id := pawl.RunDigest(tenant, run)
		return r.query(selectRun, func(p *params) { p.blob(id[:]) }, func(s *sqlite3.Stmt) { x = scanRun(s) })
	})
	switch {
	case err != nil:
		return nil, err
	case x == nil:
		return nil, fmt.Errorf("sqlite: get run %q: %w", run, pawl.ErrNotFound)
	}
	return x.decode()
}

// FindRuns lists runs, the one begun last first.
func (db *DB) FindRuns(ctx context.Context, q pawl.RunQuery) ([]*pawl.Run, error) {
	from, where, args := "runs", []string{"1"}, []any{}
	switch q.Status {
	case "":
	case pawl.RunOpen:
		where = append(where, "status = 'open'")
	case pawl.RunAborting, pawl.RunAborted:
		from = "runs INDEXED BY runs_ended"
		where = append(where, "status = '"+string(q.Status)+"'", "status <> 'open'")
	default:
		return nil, fmt.Errorf("sqlite: find runs: status: there is no %q", q.Status)
	}
	if !q.AllTenants {
		if from == "runs" {
			from = "runs INDEXED BY runs_tenant"
		}
		where, args = append(where, "tenant = ?"), append(args, q.Tenant)
	}
	if q.Before != "" {
		id := pawl.RunDigest(q.BeforeTenant, q.Before)
		where, args = append(where, "n < (SELECT n FROM runs WHERE id = ?)"), append(args, id[:])
	}
	limit := int64(q.Limit)
	if limit <= 0 {
		limit = defaultLimit
	}
	sql := "SELECT " + runColumns + " FROM " + from + " WHERE " + strings.Join(where, " AND ") + " ORDER BY n DESC LIMIT ?"
	var rows []*runRow
	err := db.read(ctx, func(r *reader) error {
		return r.query(sql, func(p *params) {
			for _, a := range args {
				switch a := a.(type) {
				case string:
					p.text(a)
				case []byte:
					p.blob(a)
				}
			}
			p.int(min(limit, maxLimit))
		}, func(s *sqlite3.Stmt) { rows = append(rows, scanRun(s)) })
	})
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
		return nil, fmt.Errorf("sqlite: claim runs: lease of %v is not positive", lease)
	}
	now := db.clock.now()
	var rows []*runRow
	err = db.read(ctx, func(r *reader) error {
		return r.query(selectDue, func(p *params) {
			p.int(micros(now))
			p.int(int64(max(0, min(limit, maxClaim))))
		}, func(s *sqlite3.Stmt) { rows = append(rows, scanRun(s)) })
	})
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
