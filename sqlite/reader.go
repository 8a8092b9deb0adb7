package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	selectOperation = `SELECT ` + columns + ` FROM ` + joined + ` WHERE i.id = ?1 AND l.tenant = ?2`
	selectFirst     = `SELECT entry FROM intents WHERE op = ?1`
	selectLater     = `SELECT entry FROM changes WHERE line > ?1 << 20 AND line < (?1 + 1) << 20 ORDER BY line`
	selectContract  = `SELECT body FROM contracts WHERE hash = ?1`
)

// reader is one connection that only reads. It belongs to one caller at a time.
type reader struct {
	conn  *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

// maxStatements bounds the statements a reader keeps; listings come in a few hundred forms.
const maxStatements = 64

func (r *reader) prepare(sql string) (*sqlite3.Stmt, error) {
	if s := r.stmts[sql]; s != nil {
		return s, nil
	}
	if len(r.stmts) == maxStatements {
		for old, s := range r.stmts {
			delete(r.stmts, old)
			if err := s.Close(); err != nil {
				return nil, err
			}
			break
		}
	}
	s, _, err := r.conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	r.stmts[sql] = s
	return s, nil
}

// query runs a statement and calls each for every row.
func (r *reader) query(sql string, bind func(*params), each func(*sqlite3.Stmt)) error {
	s, err := r.prepare(sql)
	if err != nil {
		return err
	}
	p := params{s: s}
	bind(&p)
	_, err = p.query(each)
	return err
}

func (r *reader) close() error {
	errs := make([]error, 0, len(r.stmts)+1)
	for _, s := range r.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, r.conn.Close())...)
}

// read lends a reader to f, inside one view of the database. It opens readers as they
// are needed, up to Options.Readers, and waits for one while ctx lasts.
func (db *DB) read(ctx context.Context, f func(*reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.gate.enter(ctx, db.stop); err != nil {
		return err
	}
	defer db.gate.leave()
	r, err := db.takeReader()
	if errors.Is(err, errClosed) {
		return err
	} else if err != nil {
		return db.readFailed(ctx, err)
	}
	r.conn.SetInterrupt(ctx)
	err = r.conn.Exec(`BEGIN`)
	if err == nil {
		err = f(r)
		r.conn.SetInterrupt(context.Background())
		err = errors.Join(err, r.conn.Exec(`COMMIT`))
	}
	r.conn.SetInterrupt(context.Background())
	if err != nil {
		return errors.Join(db.readFailed(ctx, err), r.close())
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.idle = append(db.idle, r)
	return nil
}

// takeReader takes an idle reader or opens one.
func (db *DB) takeReader() (*reader, error) {
	if db.closing() {
		return nil, errClosed
	}
	db.mu.Lock()
	if n := len(db.idle); n > 0 {
		r := db.idle[n-1]
		db.idle = db.idle[:n-1]
		db.mu.Unlock()
		return r, nil
	}
	db.mu.Unlock()
	c, err := db.connect(db.opts.vfs)
	if err != nil {
		return nil, err
	}
	if err := c.Exec(`PRAGMA query_only = ON`); err != nil {
		return nil, errors.Join(err, closeConn(c, true))
	}
	return &reader{conn: c, stmts: map[string]*sqlite3.Stmt{}}, nil
}

// readFailed explains an error of a reader. What is fatal closes the store to writes: a
// store that cannot be read must not go on to tell anything. A file that could not be
// opened once more, as when the process has no descriptors left, says nothing of the store.
func (db *DB) readFailed(ctx context.Context, err error) error {
	if errors.Is(err, sqlite3.INTERRUPT) && ctx.Err() != nil {
		return ctx.Err()
	}
	told, fatal := explain(err)
	if fatal && !errors.Is(err, sqlite3.CANTOPEN) && !errors.Is(err, sqlite3.IOERR_SHMOPEN) {
		return db.fail(told)
	}
	return fmt.Errorf("sqlite: %s: %w", db.path, told)
}

// Get returns one operation of the tenant, or ErrNotFound.
func (db *DB) Get(ctx context.Context, tenant string, id pawl.ID) (*pawl.Operation, error) {
	var found *row
	err := db.read(ctx, func(r *reader) (err error) {
		found, err = r.operation(tenant, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("sqlite: get %s: %w", id, pawl.ErrNotFound)
	}
	return db.operation(ctx, found)
}

func (r *reader) operation(tenant string, id pawl.ID) (found *row, err error) {
	err = r.query(selectOperation, func(p *params) {
		p.blob(id[:])
		p.text(tenant)
	}, func(s *sqlite3.Stmt) { found = scan(s) })
	return found, err
}

// History returns the entries of one operation, oldest first, after verifying them.
func (db *DB) History(ctx context.Context, tenant string, id pawl.ID) ([]pawl.Entry, error) {
	var found *row
	var stored [][]byte
	err := db.read(ctx, func(r *reader) (err error) {
		if found, err = r.operation(tenant, id); found == nil || err != nil {
			return err
		}
		bind := func(p *params) { p.int(found.op) }
		keep := func(s *sqlite3.Stmt) { stored = append(stored, []byte(s.ColumnText(0))) }
		if err := r.query(selectFirst, bind, keep); err != nil {
			return err
		}
		return r.query(selectLater, bind, keep)
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("sqlite: history of %s: %w", id, pawl.ErrNotFound)
	}
	op, err := db.operation(ctx, found)
	if err != nil {
		return nil, err
	}
	entries, err := pawl.DecodeHistory(stored, op.Chain)
	if err != nil {
		return nil, fmt.Errorf("sqlite: history of %s: %w", id, err)
	}
	return entries, nil
}

// operation decodes a row and joins its contract.
func (db *DB) operation(ctx context.Context, r *row) (*pawl.Operation, error) {
	op, err := r.operation()
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if op.ContractHash != "" {
		if op.Contract, err = db.contract(ctx, op.ContractHash); err != nil {
			return nil, err
		}
	}
	return op, nil
}

func (db *DB) contract(ctx context.Context, hash string) (*pawl.Contract, error) {
	if c := db.contracts.get(hash); c != nil {
		return c, nil
	}
	var body []byte
	err := db.read(ctx, func(r *reader) error {
		return r.query(selectContract, func(p *params) { p.text(hash) }, func(s *sqlite3.Stmt) {
			body = []byte(s.ColumnText(0))
		})
	})
	if err != nil {
		return nil, err
	}
	c := new(pawl.Contract)
	if contractHash(body) != hash {
		return nil, fmt.Errorf("sqlite: contract %s: %w", hash, pawl.ErrCorrupt)
	}
	if err := json.Unmarshal(body, c); err != nil {
		return nil, fmt.Errorf("sqlite: contract %s: %w: %w", hash, pawl.ErrCorrupt, err)
	}
	db.contracts.put(hash, c)
	return c, nil
}
