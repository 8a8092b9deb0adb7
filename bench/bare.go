package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// bare does the least that the job can be done with, on the driver and with the settings
// of pawl's store: one INSERT of the intent's columns and one UPDATE, both waited for. One
// goroutine commits whatever waits in one transaction.
type bare struct {
	conn    *sqlite3.Conn
	queue   chan *bareWrite
	stopped chan struct{}

	begin, commit, rollback, insert, update *sqlite3.Stmt
}

type bareWrite struct {
	job    *job
	intent bool
	done   chan error
}

// bareBatch is the greatest number of writes in one transaction.
const bareBatch = 512

const bareSchema = `
CREATE TABLE intents (
	id      INTEGER PRIMARY KEY,
	key     BLOB NOT NULL UNIQUE,
	run     TEXT NOT NULL,
	step    INTEGER NOT NULL,
	tool    TEXT NOT NULL,
	args    TEXT NOT NULL,
	status  INTEGER NOT NULL,
	created INTEGER NOT NULL,
	updated INTEGER,
	result  TEXT
) STRICT;
CREATE INDEX intents_open ON intents (created) WHERE status < 2;`

func openBare(_ context.Context, o *order) (_ contestant, err error) {
	c, err := sqlite3.Open("file:" + filepath.Join(o.Dir, "bare.db"))
	if err != nil {
		return nil, err
	}
	b := &bare{conn: c, queue: make(chan *bareWrite, 4096), stopped: make(chan struct{})}
	defer func() {
		if err != nil {
			b.closeConn()
		}
	}()
	for _, sql := range []string{
		`PRAGMA journal_mode = WAL`, `PRAGMA synchronous = FULL`, `PRAGMA cache_size = -8192`, `PRAGMA temp_store = MEMORY`,
		// The log is grown once, to the 64 MB that pawl's has.
		`CREATE TABLE pad (b BLOB); INSERT INTO pad VALUES (zeroblob(67108864)); DELETE FROM pad`,
		`PRAGMA wal_checkpoint(RESTART); PRAGMA wal_autocheckpoint = 16000`,
		bareSchema,
	} {
		if err := c.Exec(sql); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	for sql, s := range map[string]**sqlite3.Stmt{
		`BEGIN IMMEDIATE`: &b.begin, `COMMIT`: &b.commit, `ROLLBACK`: &b.rollback,
		`INSERT INTO intents (key, run, step, tool, args, status, created) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)`: &b.insert,
		`UPDATE intents SET status = 2, result = ?2, updated = ?3 WHERE key = ?1`:                              &b.update,
	} {
		if *s, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	go b.write()
	return b, nil
}

// write commits until the queue is closed.
func (b *bare) write() {
	defer close(b.stopped)
	batch := make([]*bareWrite, 0, bareBatch)
	for first := range b.queue {
		batch = append(batch[:0], first)
		for more := true; more && len(batch) < bareBatch; {
			select {
			case w, open := <-b.queue:
				if more = open; open {
					batch = append(batch, w)
				}
			default:
				more = false
			}
		}
		err := b.transact(batch)
		for _, w := range batch {
			w.done <- err
		}
	}
}

func (b *bare) transact(batch []*bareWrite) error {
	if err := b.begin.Exec(); err != nil {
		return err
	}
	now := time.Now().UnixMicro()
	for _, w := range batch {
		if err := b.apply(w, now); err != nil {
			return errors.Join(err, b.rollback.Exec())
		}
	}
	return b.commit.Exec()
}

func (b *bare) apply(w *bareWrite, now int64) error {
	s := b.update
	var errs [6]error
	if w.intent {
		s = b.insert
		errs = [6]error{
			s.BindBlob(1, w.job.key[:]), s.BindText(2, w.job.run), s.BindInt64(3, w.job.n), s.BindText(4, toolName),
			s.BindRawText(5, w.job.args), s.BindInt64(6, now),
		}
	} else {
		errs = [6]error{s.BindBlob(1, w.job.key[:]), s.BindText(2, toolResult), s.BindInt64(3, now)}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return s.Exec()
}

func (b *bare) call(_ context.Context, _ int, j *job) error {
	w := &bareWrite{job: j, intent: true, done: make(chan error, 1)}
	b.queue <- w
	if err := <-w.done; err != nil {
		return err
	}
	w.intent = false // between the two the tool does nothing
	b.queue <- w
	return <-w.done
}

func (b *bare) team() team { return team{} }

func (b *bare) close() error {
	close(b.queue)
	<-b.stopped
	return b.closeConn()
}

func (b *bare) closeConn() error {
	for _, s := range []*sqlite3.Stmt{b.begin, b.commit, b.rollback, b.insert, b.update} {
		if s != nil {
			s.Close() // repeats the error of its last step
		}
	}
	return b.conn.Close()
}
