package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
)

// run is the goroutine of one writer. It takes all writes that wait, puts them into one
// transaction and releases their callers when it is committed, while the next ones gather.
// It ends when the queue is closed.
func (db *DB) run() {
	defer db.writers.Done()
	var batch []write
	for range db.queue.ready {
		for wait := firstPause; db.queue.wanted(); {
			c, err := db.acquire(context.Background())
			if err != nil {
				if !db.pause(context.Background(), wait) {
					return
				}
				wait = min(2*wait, lastPause)
				continue
			}
			// Writes are begun only now, so that until then their callers may leave.
			if batch = db.queue.begin(batch[:0]); len(batch) == 0 {
				c.Release()
				break
			}
			db.settle(c, batch)
			db.queue.release(batch)
			clear(batch)
		}
	}
}

// settle writes a batch until every write of it is decided or ConfirmTimeout is over. c is
// a connection for the first try.
func (db *DB) settle(c *pgxpool.Conn, batch []write) {
	end := time.Now().Add(db.opts.ConfirmTimeout)
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	doubtful := false
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		var err error
		if c == nil {
			c, err = db.acquire(ctx)
		}
		if c != nil {
			err = db.transact(ctx, c.Conn().PgConn(), batch, doubtful)
			c.Release() // which closes it if it is no good any more
			c = nil
		}
		v := verdictOf(err)
		if errors.Is(err, errMoved) {
			err = errors.Join(err, db.examine(ctx)) // whether the store may go on there
		}
		switch {
		case err == nil:
			finish(batch, nil)
			return
		case v == conflict && len(batch) == 1:
			batch[0].head().conflicted = true
			finish(batch, nil)
			return
		case v == conflict:
			for i := range batch { // so that one row does not fail the others
				db.mark(batch[i:i+1], doubtful)
				db.settle(nil, batch[i:i+1])
			}
			return
		case v == refused && !doubtful:
			finish(batch, db.tell(context.Background(), err))
			return
		case v == unknown:
			doubtful = true
			db.mark(batch, true)
		}
		if time.Now().Add(wait).Before(end) && !errors.Is(err, pawl.ErrStoreFailed) && db.pause(ctx, wait) {
			continue
		}
		if doubtful {
			err = db.undecided(err)
		} else {
			err = db.tell(context.Background(), err)
		}
		finish(batch, err)
		return
	}
}

func (db *DB) mark(batch []write, doubtful bool) {
	for _, w := range batch {
		w.head().doubtful = w.head().doubtful || doubtful
	}
}

func finish(batch []write, err error) {
	for _, w := range batch {
		w.head().finish(err)
	}
}

// parts are the writes of a batch by what they ask for.
type parts struct {
	begin, apply, renew, put                     part
	contracts, lanes, confirmBegun, confirmApply []*tuple
	runs, confirmPut                             []*tuple
	locks                                        [][16]byte // runs that something begins in
}

// part is the rows of one statement and who waits for each.
type part struct {
	rows []*tuple
	who  map[[16]byte]*header
}

func (p *part) add(id pawl.ID, h *header) {
	if p.who == nil {
		p.who = make(map[[16]byte]*header)
	}
	p.rows, p.who[id] = append(p.rows, h.params), h
}

// decide notes which of the writes had their effect.
func (p *part) decide(ids [][16]byte) {
	for _, id := range ids {
		if h := p.who[id]; h != nil {
			h.decided = true
		}
	}
}

// partsOf sorts a batch.
func partsOf(batch []write, doubtful bool) *parts {
	p := new(parts)
	for _, w := range batch {
		w.head().conflicted, w.head().decided = false, false
		switch w := w.(type) {
		case *beginning:
			p.begin.add(w.row.id, &w.header)
			if w.contract != nil {
				p.contracts = append(p.contracts, w.contract)
			}
			if w.lane != nil {
				p.lanes = append(p.lanes, w.lane)
			}
			if w.newRun != nil {
				p.runs = append(p.runs, w.newRun)
			}
			if claimed(w.runID) {
				p.locks = append(p.locks, w.runID)
			}
			if doubtful {
				t := newTuple(len(confirmFields))
				t.uuid(w.row.id)
				t.int(w.row.token)
				p.confirmBegun = append(p.confirmBegun, t)
			}
		case *application:
			p.apply.add(w.id, &w.header)
			if doubtful {
				t := newTuple(len(appliedFields))
				t.uuid(w.id)
				t.int(w.version + 1)
				t.document(w.entry)
				p.confirmApply = append(p.confirmApply, t)
			}
		case *renewal:
			p.renew.add(w.id, &w.header)
		case *putting:
			p.put.add(pawl.ID(w.row.id), &w.header)
			if doubtful {
				p.confirmPut = append(p.confirmPut, w.row.doubt())
			}
		}
	}
	return p
}

// transact writes a batch in one transaction and one round trip. In doubt it also confirms,
// by writes, what an earlier try may have committed.
func (db *DB) transact(ctx context.Context, c *pgconn.PgConn, batch []write, doubtful bool) error {
	p, expected := partsOf(batch, doubtful), db.footing.Load().witness
	all := []statement{begin, pinPlans}
	take := make([]func(result) error, 2, 8)
	var moved bool
	sent := time.Now()
	add := func(s statement, f func(result) error) { all, take = append(all, s), append(take, f) }
	// Where two processes store the same at once, the order keeps them from waiting for
	// each other.
	if len(p.lanes) > 0 {
		add(db.sql.lanes.over(distinct(p.lanes)), nil)
	}
	if len(p.contracts) > 0 {
		add(db.sql.contracts.over(distinct(p.contracts)), nil)
	}
	if len(p.runs) > 0 {
		add(db.sql.runs.over(distinct(p.runs)), nil)
	}
	if len(p.locks) > 0 {
		add(statement{sql: db.sql.lockRuns, params: [][]byte{uuids(p.locks)}, oids: []uint32{kindUUID.array}, kept: true}, nil)
	}
	for _, x := range []struct {
		form    *form
		part    *part
		confirm *form
		doubts  []*tuple
	}{
		{&db.sql.begin, &p.begin, &db.sql.confirmBegun, p.confirmBegun},
		{&db.sql.apply, &p.apply, &db.sql.confirmApplied, p.confirmApply},
		{&db.sql.renew, &p.renew, nil, nil},
		{&db.sql.putRun, &p.put, &db.sql.confirmRun, p.confirmPut},
	} {
		if len(x.part.rows) == 0 {
			continue
		}
		add(x.form.over(ordered(x.part.rows), []byte(expected)), func(r result) error {
			ids, as, err := db.witnessed(r, expected, sent)
			moved = moved || err == nil && !as
			x.part.decide(ids)
			return err
		})
		if len(x.doubts) > 0 {
			add(x.confirm.over(x.doubts), func(r result) error {
				ids := make([][16]byte, 0, len(r.rows))
				for _, row := range r.rows {
					v := values{row: row}
					ids = append(ids, v.uuid())
				}
				x.part.decide(ids)
				return nil
			})
		}
	}
	add(commit, nil)
	results, err := exchange(ctx, c, all...)
	if err != nil {
		return err
	}
	for i, r := range results {
		if take[i] != nil {
			if err := take[i](r); err != nil {
				return &exchangeError{unknown, err}
			}
		}
	}
	if moved {
		return &exchangeError{repeat, errMoved}
	}
	return nil
}

// errMoved: nothing was written, because the server is not the one expected.
var errMoved = errors.New("the server or its settings have changed")
