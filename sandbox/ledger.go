package sandbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/receiver"
)

//go:embed schema.sql
var schema string

// schemaVersion is the user_version of a ledger, applicationID its application_id.
const (
	schemaVersion = 1
	applicationID = 0x7061776c // "pawl"
)

// ErrNotALedger says that a file is an SQLite database of another kind or version.
var ErrNotALedger = errors.New("not a ledger of this sandbox")

// ledger is the sandbox's own database.
type ledger struct {
	// writing is held by the one transaction that writes.
	writing sync.Mutex
	// durable commits are on stable storage when they return: effects and keys.
	durable *sql.DB
	// noted commits survive the death of the process, not of the machine: requests.
	noted *sql.DB
	reads *sql.DB
}

func openLedger(path string) (l *ledger, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	l = &ledger{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	open := func(conns int, pragmas string) (*sql.DB, error) {
		db, err := driver.Open(abs, func(c *sqlite3.Conn) error {
			return c.Exec(`PRAGMA busy_timeout = 10000; PRAGMA foreign_keys = ON; PRAGMA journal_mode = WAL; ` + pragmas)
		})
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		return db, nil
	}
	if l.durable, err = open(1, `PRAGMA synchronous = FULL`); err != nil {
		return l, err
	}
	if err := l.migrate(); err != nil {
		return l, err
	}
	if l.noted, err = open(1, `PRAGMA synchronous = NORMAL`); err != nil {
		return l, err
	}
	l.reads, err = open(4, `PRAGMA query_only = ON`)
	return l, err
}

func (l *ledger) migrate() error {
	return l.write(l.durable, func(tx *sql.Tx) error {
		var id, version, tables int
		if err := tx.QueryRow(`PRAGMA application_id`).Scan(&id); err != nil {
			return err
		}
		if err := tx.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
			return err
		}
		switch {
		case id == applicationID && version == schemaVersion:
			return nil
		case id != 0 || version != 0 || tables != 0:
			return ErrNotALedger
		}
		_, err := tx.Exec(schema + receiver.SQLite.Schema() + fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d;`, applicationID, schemaVersion))
		return err
	})
}

func (l *ledger) close() error {
	var errs []error
	for _, db := range []*sql.DB{l.reads, l.noted, l.durable} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// write runs fn in one transaction of db, which is l.durable or l.noted. An error of fn
// undoes everything.
func (l *ledger) write(db *sql.DB, fn func(*sql.Tx) error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Effect is one row of the ledger: one thing that happened in the pretend world.
type Effect struct {
	Seq int64 `json:"seq"`
	// At is when the work was done or accepted, LandAt when it takes hold.
	At      time.Time `json:"at"`
	LandAt  time.Time `json:"land_at"`
	Service string    `json:"service"`
	// Kind is what happened, such as refund.create; doc.go lists them.
	Kind     string `json:"kind"`
	ObjectID string `json:"object_id"`
	// Subject is what it happened to: an order, an address, a stock item.
	Subject string `json:"subject"`
	// Amount is in minor units of Currency; without a currency it is a number of pieces.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Key is the key as received, whether it was honoured or not.
	Key string `json:"key"`
	// Request is the seq of the request that caused it.
	Request int64 `json:"request"`
	// Fingerprint is the hex SHA-256 of method, path and canonical body without the key.
	Fingerprint string `json:"fingerprint"`
	// Run and Step are the headers Pawl-Run and Pawl-Step.
	Run  string `json:"run"`
	Step string `json:"step"`
	// ReversedBy is the seq of the effect that undid this one wholly, or 0.
	ReversedBy int64 `json:"reversed_by"`
}

// Request is one request as it was received.
type Request struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Service string    `json:"service"`
	// Via is "duplicate" for the second delivery that a fault made of one request.
	Via         string `json:"via"`
	Run         string `json:"run"`
	Step        string `json:"step"`
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
	Bytes       int64  `json:"bytes"`
	// Fault is the fault line that was applied.
	Fault string `json:"fault"`
	// Outcome is what the service decided: done, failed (202 that will fail), replayed,
	// latest, conflict, mismatch, in_flight, cancelled, rejected, read or absent. It is empty
	// where it decided nothing: not reached, or the request was cut off.
	Outcome string `json:"outcome"`
	// Effect is the seq of the effect this request caused, or 0.
	Effect int64 `json:"effect"`
	// Answer is what was put on the wire in the end: a status, or a fault in its place
	// such as reset, fin, refused, cut; unread where the body did not arrive whole. It is
	// written just before the first byte leaves; empty while the request is worked on.
	Answer string `json:"answer"`
	// Status is the status line that was sent, or 0.
	Status int `json:"status"`
}

// Filter selects effects or requests; zero fields select all.
type Filter struct {
	Service string
	Key     string
	Run     string
	Step    string
	// Kind, Subject and ObjectID concern effects only, Method requests only.
	Kind     string
	Subject  string
	ObjectID string
	Method   string
	// Pending includes effects that are accepted and have not landed yet.
	Pending bool
	// After continues behind the row with this seq.
	After int64
	// Limit is the largest number of rows; 0 means all.
	Limit int
}

// conditions gives the WHERE clause for the columns that the table has.
func (f Filter) conditions(columns map[string]string) (string, []any) {
	where, args := "seq > ?", []any{f.After}
	for _, name := range []string{"service", "key", "run", "step", "kind", "subject", "object_id", "method"} {
		if v := columns[name]; v != "" {
			where += " AND " + name + " = ?"
			args = append(args, v)
		}
	}
	return where, args
}

func (f Filter) limit() string {
	if f.Limit > 0 {
		return " LIMIT " + strconv.Itoa(f.Limit)
	}
	return ""
}

// Effects returns the effects that f selects, in order.
func (s *Sandbox) Effects(f Filter) ([]Effect, error) {
	where, args := f.conditions(map[string]string{
		"service": f.Service, "key": f.Key, "run": f.Run, "step": f.Step,
		"kind": f.Kind, "subject": f.Subject, "object_id": f.ObjectID,
	})
	if !f.Pending {
		where += " AND land_at <= ?"
		args = append(args, micros(s.Now()))
	}
	rows, err := s.ledger.reads.Query(`SELECT seq, at, land_at, service, kind, object_id, subject, amount, currency, key,
		request, fingerprint, run, step, reversed_by FROM effects WHERE `+where+` ORDER BY seq`+f.limit(), args...)
	return collect(rows, err, func(e *Effect, scan func(...any) error) error {
		var at, landAt int64
		err := scan(&e.Seq, &at, &landAt, &e.Service, &e.Kind, &e.ObjectID, &e.Subject, &e.Amount, &e.Currency, &e.Key,
			&e.Request, &e.Fingerprint, &e.Run, &e.Step, &e.ReversedBy)
		e.At, e.LandAt = instant(at), instant(landAt)
		return err
	})
}

// Requests returns the requests that f selects, in order.
func (s *Sandbox) Requests(f Filter) ([]Request, error) {
	where, args := f.conditions(map[string]string{
		"service": f.Service, "key": f.Key, "run": f.Run, "step": f.Step, "method": f.Method,
	})
	rows, err := s.ledger.reads.Query(`SELECT seq, at, method, path, service, via, run, step, key, fingerprint, bytes,
		fault, outcome, effect, answer, status FROM requests WHERE `+where+` ORDER BY seq`+f.limit(), args...)
	return collect(rows, err, func(q *Request, scan func(...any) error) error {
		var at int64
		err := scan(&q.Seq, &at, &q.Method, &q.Path, &q.Service, &q.Via, &q.Run, &q.Step, &q.Key, &q.Fingerprint, &q.Bytes,
			&q.Fault, &q.Outcome, &q.Effect, &q.Answer, &q.Status)
		q.At = instant(at)
		return err
	})
}

// collect reads all rows.
func collect[T any](rows *sql.Rows, err error, read func(*T, func(...any) error) error) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	defer rows.Close()
	list := []T{}
	for rows.Next() {
		var v T
		if err := read(&v, rows.Scan); err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return list, nil
}

func insertEffect(tx *sql.Tx, e *Effect) error {
	r, err := tx.Exec(`INSERT INTO effects (at, land_at, service, kind, object_id, subject, amount, currency, key, request,
		fingerprint, run, step) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		micros(e.At), micros(e.LandAt), e.Service, e.Kind, e.ObjectID, e.Subject, e.Amount, e.Currency, e.Key, e.Request,
		e.Fingerprint, e.Run, e.Step)
	if err != nil {
		return err
	}
	e.Seq, err = r.LastInsertId()
	return err
}

func micros(t time.Time) int64 { return t.UnixMicro() }

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }
