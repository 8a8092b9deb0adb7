package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

// Get returns one operation of the tenant, or ErrNotFound.
func (db *DB) Get(ctx context.Context, tenant string, id pawl.ID) (*pawl.Operation, error) {
	var found *row
	err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) (err error) {
		found, err = db.find(ctx, c, tenant, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("postgres: get %s: %w", id, pawl.ErrNotFound)
	}
	return db.operation(ctx, found)
}

func (db *DB) find(ctx context.Context, c *pgconn.PgConn, tenant string, id pawl.ID) (*row, error) {
	t := newTuple(2)
	t.uuid(id)
	t.name(tenant)
	found, err := query(ctx, c, ask(db.sql.operation, []field{{"id", kindUUID}, {"tenant", kindText}}, t))
	if err != nil || len(found[0].rows) == 0 {
		return nil, err
	}
	return scan(&values{row: found[0].rows[0]}), nil
}

// History returns the entries of one operation, oldest first, after verifying them.
func (db *DB) History(ctx context.Context, tenant string, id pawl.ID) ([]pawl.Entry, error) {
	var found *row
	var stored [][]byte
	err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) (err error) {
		stored = nil
		if found, err = db.find(ctx, c, tenant, id); found == nil || err != nil {
			return err
		}
		t := newTuple(2)
		t.uuid(id)
		t.int(found.version) // entries that came since belong to a later state
		lines, err := query(ctx, c, ask(db.sql.history, []field{{"id", kindUUID}, {"version", kindInt}}, t))
		if err != nil {
			return err
		}
		for _, r := range lines[0].rows {
			stored = append(stored, r[0])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("postgres: history of %s: %w", id, pawl.ErrNotFound)
	}
	op, err := db.operation(ctx, found)
	if err != nil {
		return nil, err
	}
	entries, err := pawl.DecodeHistory(stored, op.Chain)
	if err != nil {
		return nil, fmt.Errorf("postgres: history of %s: %w", id, err)
	}
	return entries, nil
}

// operation decodes a row and joins its contract.
func (db *DB) operation(ctx context.Context, r *row) (*pawl.Operation, error) {
	op, err := r.operation()
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if op.ContractHash != "" {
		if op.Contract, err = db.contract(ctx, op.ContractHash); err != nil {
			return nil, err
		}
	}
	return op, nil
}
