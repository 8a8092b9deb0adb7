// Package receiverpgx lets package receiver work in transactions of pgx:
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	res, err := receiver.Once(ctx, receiverpgx.TxOf(tx), req, do, nil)
//	// commit after a nil error
package receiverpgx

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/receiver"
)

// TxOf makes a transaction of pgx usable by package receiver.
func TxOf(tx pgx.Tx) receiver.DB { return pgxTx{tx} }

type pgxTx struct{ tx pgx.Tx }

func (pgxTx) Dialect() receiver.Dialect { return receiver.PostgreSQL }

func (t pgxTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (t pgxTx) QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	err := t.tx.QueryRow(ctx, query, args...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
