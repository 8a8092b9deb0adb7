package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

var benchArgs = []byte(`{"amount":129900,"capture":true,"currency":"eur","customer":"cus_8f3a9c0d21b7e645","description":"monthly plan for team seats, prorated from the 12th, invoice to be sent by e-mail to the billing contact","email":"billing@example.test","metadata":{"agent":"billing-assistant","trace":"5b1f0c7a9d3e48265b1f0c7a9d3e4826","turn":"17"},"order":"ord-00000017"}`)

var benchResult = []byte(`{"ok":true,"id":"ch_3PqX8y2eZvKYlo2C1mXk9aBd","amount":129900,"currency":"eur","status":"succeeded","receipt":"https://pay.example.test/receipts/acct_1032D82eZvKYlo2C/ch_3PqX8y2eZvKYlo2C","n":1}`)

// BenchmarkCalls measures Begin and Apply, both waited for, beside the bare grouped
// harness in the same run: one INSERT of the intent's columns and one UPDATE, on the
// same driver with the same settings. "ratio" is the store's share of the bare rate.
func BenchmarkCalls(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			// Both run in turns, so that what disturbs one disturbs the other.
			db := openBench(b)
			bare := openBare(b)
			var store, floor cost
			for done := 0; done < b.N; {
				n := min(b.N-done, 4000)
				store.add(drive(b, callers, n, func(n int64) error { return storeCall(db, n) }))
				floor.add(drive(b, callers, n, bare.call))
				done += n
			}
			b.ReportMetric(float64(b.N)/store.wall.Seconds(), "calls/s")
			b.ReportMetric(float64(b.N)/floor.wall.Seconds(), "bare-calls/s")
			b.ReportMetric(floor.wall.Seconds()/store.wall.Seconds(), "ratio")
			b.ReportMetric(float64(store.cpu.Microseconds())/float64(b.N), "cpu-us/call")
			b.ReportMetric(store.cpu.Seconds()/floor.cpu.Seconds(), "cpu-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func openBench(b *testing.B) *DB {
	db, err := Open(filepath.Join(b.TempDir(), "pawl.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

var benchSequence atomic.Int64

// cost is what calls took.
type cost struct{ wall, cpu time.Duration }

func (c *cost) add(d cost) {
	c.wall += d.wall
	c.cpu += d.cpu
}

// drive makes n calls from the given number of callers and returns what they took.
func drive(b *testing.B, callers, n int, call func(n int64) error) cost {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start, cpu := time.Now(), cpuTime()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(benchSequence.Add(1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return cost{time.Since(start), cpuTime() - cpu}
}

var benchContract = storetest.Contract("payments.charge")
var benchContractHash = benchContract.Hash()

// storeCall is what an executor makes of one call: intent, outcome, and their entries.
func storeCall(db *DB, n int64) error {
	ctx := context.Background()
	now := db.clock.now()
	op := &pawl.Operation{
		Intent: pawl.Intent{
			ID: pawl.NewID(now), Tool: "payments.charge", Run: fmt.Sprintf("run-%d", n/10), Step: fmt.Sprint(n),
			Scope: pawl.ScopeStep, SecretID: "s1", Canonical: 1,
			Identity: []byte(`{"order":"ord-00000017","amount":"1299.00"}`),
			Args:     benchArgs, Effect: "charge of 1299.00 EUR on order ord-00000017",
			Request: benchArgs, Contract: benchContract, ContractHash: benchContractHash,
			Deadline: now.Add(30 * time.Second), Created: now,
			Attributes: map[string]string{"tool_call": "call_8f3a9c0d21b7"},
		},
		State: pawl.State{
			Status: pawl.Pending, Version: 1, Token: n, Lease: now.Add(time.Minute), Due: now.Add(time.Minute), Updated: now,
			Attempts: []pawl.Attempt{{N: 1, Kind: pawl.AttemptFirst, Permit: now, Worker: "w1"}},
		},
	}
	rand.Read(op.Key[:])
	rand.Read(op.IdentityClaim[:])
	rand.Read(op.StepClaim[:])
	first, err := pawl.EncodeEntry(&pawl.Entry{Seq: 1, At: now, Event: "begun", By: "worker w1", To: pawl.Pending, Attempt: 1})
	if err != nil {
		return err
	}
	op.Chain = pawl.ChainHash(nil, first)
	if standing, err := db.Begin(ctx, op, first); err != nil || standing != nil {
		return fmt.Errorf("begin: %v, %w", standing, err)
	}
	state := op.State
	state.Status, state.Version, state.Reason, state.SettledBy = pawl.Succeeded, 2, pawl.ReasonConfirmed, pawl.ByAnswer
	state.Result, state.Lease, state.Due, state.Updated = benchResult, time.Time{}, time.Time{}, db.clock.now()
	state.Attempts = []pawl.Attempt{{N: 1, Kind: pawl.AttemptFirst, Permit: now, Worker: "w1", Class: pawl.ClassSucceeded, Code: 200, Ended: state.Updated}}
	entry, err := pawl.EncodeEntry(&pawl.Entry{
		Seq: 2, At: state.Updated, Event: "answered", By: "worker w1", From: pawl.Pending, To: pawl.Succeeded, Reason: pawl.ReasonConfirmed,
		Attempt: 1, Evidence: &pawl.Evidence{Class: pawl.ClassSucceeded, Code: 200, Body: benchResult, BodySize: int64(len(benchResult))},
	})
	if err != nil {
		return err
	}
	state.Chain = pawl.ChainHash(op.Chain, entry)
	return db.Apply(ctx, &pawl.Change{ID: op.ID, Version: 1, Token: n, State: &state, Held: state.Status.Held(), Entry: entry})
}

// bare is the harness the store is measured against.
type bare struct {
	queue chan *bareWrite
	done  chan struct{}
}

type bareWrite struct {
	key    [16]byte
	n      int64
	intent bool
	done   chan error
}

func openBare(b *testing.B) *bare {
	c, err := sqlite3.Open("file:" + filepath.Join(b.TempDir(), "bare.db"))
	if err != nil {
		b.Fatal(err)
	}
	for _, sql := range []string{
		`PRAGMA journal_mode = WAL`, `PRAGMA synchronous = FULL`, `PRAGMA cache_size = -8192`, `PRAGMA temp_store = MEMORY`,
		`CREATE TABLE pad (b BLOB); INSERT INTO pad VALUES (zeroblob(83886080)); DELETE FROM pad; PRAGMA wal_checkpoint(RESTART); PRAGMA wal_autocheckpoint = 16000`,
		`CREATE TABLE intents (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, run TEXT NOT NULL, step INTEGER NOT NULL, tool TEXT NOT NULL,
			args TEXT NOT NULL, status INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER, result TEXT) STRICT`,
		`CREATE INDEX intents_open ON intents (created) WHERE status < 2`,
	} {
		if err := c.Exec(sql); err != nil {
			b.Fatal(err)
		}
	}
	x := &bare{queue: make(chan *bareWrite, 4096), done: make(chan struct{})}
	go x.write(c)
	b.Cleanup(func() {
		close(x.queue)
		<-x.done
		closeConn(c, false)
	})
	return x
}

func (x *bare) write(c *sqlite3.Conn) {
	defer close(x.done)
	prepare := func(sql string) *sqlite3.Stmt {
		s, _, err := c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			panic(err)
		}
		return s
	}
	begin, commit := prepare(`BEGIN IMMEDIATE`), prepare(`COMMIT`)
	insert := prepare(`INSERT INTO intents (key, run, step, tool, args, status, created) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)`)
	update := prepare(`UPDATE intents SET status = 2, result = ?2, updated = ?3 WHERE key = ?1`)
	for first := range x.queue {
		batch := []*bareWrite{first}
	fill:
		for len(batch) < maxBatch {
			select {
			case w := <-x.queue:
				batch = append(batch, w)
			default:
				break fill
			}
		}
		err := begin.Exec()
		now := time.Now().UnixMicro()
		for _, w := range batch {
			p := params{s: update}
			if w.intent {
				p.s = insert
			}
			p.blob(w.key[:])
			if w.intent {
				p.text(fmt.Sprintf("run-%d", w.n/10))
				p.int(w.n)
				p.text("payments.charge")
				p.raw(benchArgs)
			} else {
				p.raw(benchResult)
			}
			p.int(now)
			if _, failed := p.exec(); err == nil {
				err = failed
			}
		}
		if err == nil {
			err = commit.Exec()
		}
		for _, w := range batch {
			w.done <- err
		}
	}
}

func (x *bare) call(n int64) error {
	w := &bareWrite{n: n, intent: true, done: make(chan error, 1)}
	binary.BigEndian.PutUint64(w.key[8:], uint64(n))
	rand.Read(w.key[:8])
	x.queue <- w
	if err := <-w.done; err != nil {
		return err
	}
	w.intent = false
	x.queue <- w
	return <-w.done
}
