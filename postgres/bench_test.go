package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/storetest"
)

var benchArgs = []byte(`{"amount":129900,"capture":true,"currency":"eur","customer":"cus_8f3a9c0d21b7e645","description":"monthly plan for team seats, prorated from the 12th, invoice to be sent by e-mail to the billing contact","email":"billing@example.test","metadata":{"agent":"billing-assistant","trace":"5b1f0c7a9d3e48265b1f0c7a9d3e4826","turn":"17"},"order":"ord-00000017"}`)

var benchResult = []byte(`{"ok":true,"id":"ch_3PqX8y2eZvKYlo2C1mXk9aBd","amount":129900,"currency":"eur","status":"succeeded","receipt":"https://pay.example.test/receipts/acct_1032D82eZvKYlo2C/ch_3PqX8y2eZvKYlo2C","n":1}`)

// BenchmarkCalls measures Begin and Apply, both waited for, beside the bare grouped harness
// in the same run: one INSERT of the intent's columns and one UPDATE, by two batching
// writers with prepared statements. "ratio" is the store's share of the bare rate.
func BenchmarkCalls(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			url := pgtest.Database(b)
			db, bare := openTest(b, url, nil), openBare(b, url)
			b.ResetTimer()
			// Both run in turns, so that what disturbs one disturbs the other.
			var store, floor time.Duration
			for done := 0; done < b.N; {
				n := min(b.N-done, 4000)
				store += drive(b, callers, n, func(n int64) error { return storeCall(db, n) })
				floor += drive(b, callers, n, bare.call)
				done += n
			}
			b.ReportMetric(float64(b.N)/store.Seconds(), "calls/s")
			b.ReportMetric(float64(b.N)/floor.Seconds(), "bare-calls/s")
			b.ReportMetric(floor.Seconds()/store.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

var benchSequence atomic.Int64

// drive makes n calls from the given number of callers and returns how long they took.
func drive(b *testing.B, callers, n int, call func(n int64) error) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start := time.Now()
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
	return time.Since(start)
}

var (
	benchContract     = storetest.Contract("payments.charge")
	benchContractHash = benchContract.Hash()
)

// storeCall is what an executor makes of one call: intent, outcome, and their entries.
func storeCall(db *DB, n int64) error {
	ctx := context.Background()
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
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
	state.Result, state.Lease, state.Due, state.Updated = benchResult, time.Time{}, time.Time{}, now
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
type bare struct{ queue chan *bareWrite }

type bareWrite struct {
	key    []byte
	n      int64
	intent bool
	done   chan error
}

func openBare(b *testing.B, url string) *bare {
	ctx := context.Background()
	x := &bare{queue: make(chan *bareWrite, 4096)}
	var writers sync.WaitGroup
	for i := range 2 {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			_, err = c.Exec(ctx, `CREATE TABLE intents (key bytea PRIMARY KEY, run text NOT NULL, step bigint NOT NULL, tool text NOT NULL,
				args text NOT NULL, status smallint NOT NULL, created timestamptz NOT NULL DEFAULT now(), updated timestamptz, result text) WITH (fillfactor = 70);
				CREATE INDEX intents_open ON intents (created) WHERE status < 2`)
		}
		if err == nil {
			_, err = c.Exec(ctx, `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`)
		}
		if err != nil {
			b.Fatal(err)
		}
		writers.Go(func() { x.write(c) })
	}
	b.Cleanup(func() {
		close(x.queue)
		writers.Wait()
	})
	return x
}

const (
	bareInsert = `INSERT INTO intents (key, run, step, tool, args, status)
		SELECT k, r, s, t, a, 0 FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::text[], $5::text[]) AS x(k, r, s, t, a)`
	bareUpdate = `UPDATE intents i SET status = 2, result = x.r, updated = now() FROM unnest($1::bytea[], $2::text[]) AS x(k, r) WHERE i.key = x.k`
)

func (x *bare) write(c *pgx.Conn) {
	ctx := context.Background()
	defer c.Close(ctx)
	for first := range x.queue {
		batch := []*bareWrite{first}
	fill:
		for len(batch) < maxBatch {
			select {
			case w, open := <-x.queue:
				if !open {
					break fill
				}
				batch = append(batch, w)
			default:
				break fill
			}
		}
		var keys, settled [][]byte
		var runs, tools, args, results []string
		var steps []int64
		for _, w := range batch {
			if w.intent {
				keys, runs, steps = append(keys, w.key), append(runs, fmt.Sprintf("run-%d", w.n/10)), append(steps, w.n)
				tools, args = append(tools, "payments.charge"), append(args, string(benchArgs))
			} else {
				settled, results = append(settled, w.key), append(results, string(benchResult))
			}
		}
		q := &pgx.Batch{}
		if len(keys) > 0 {
			q.Queue(bareInsert, keys, runs, steps, tools, args)
		}
		if len(settled) > 0 {
			q.Queue(bareUpdate, settled, results)
		}
		err := c.SendBatch(ctx, q).Close()
		for _, w := range batch {
			w.done <- err
		}
	}
}

func (x *bare) call(n int64) error {
	w := &bareWrite{key: make([]byte, 16), n: n, intent: true, done: make(chan error, 1)}
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
