package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/storetest"
)

// raise makes writes of states fail with a code while a sequence has not reached its end.
func raise(t *testing.T, url, schema, code string, times int) {
	t.Helper()
	run(t, url, fmt.Sprintf(`CREATE SEQUENCE %s.raised`, schema))
	run(t, url, fmt.Sprintf(`CREATE FUNCTION %[1]s.raise() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('%[1]s.raised') <= %[3]d THEN RAISE EXCEPTION 'as the test wants it' USING ERRCODE = '%[2]s'; END IF;
			RETURN NEW;
		END $$`, schema, code, times))
	run(t, url, fmt.Sprintf(`CREATE TRIGGER raise BEFORE INSERT OR UPDATE ON %[1]s.states FOR EACH ROW EXECUTE FUNCTION %[1]s.raise()`, schema))
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for _, c := range []struct {
		code string
		// is the answer to Begin; nil means that it succeeds in the end.
		is  error
		not error
	}{
		{"40001", nil, nil}, {"40P01", nil, nil}, // the transaction is repeated
		{"53100", pawl.ErrFull, pawl.ErrStoreFailed}, {"53200", pawl.ErrBusy, pawl.ErrStoreFailed},
		{"25006", pawl.ErrReadOnly, pawl.ErrStoreFailed}, {"57014", pawl.ErrBusy, pawl.ErrStoreFailed},
		{"42501", pawl.ErrReadOnly, pawl.ErrStoreFailed}, {"58030", pawl.ErrStoreFailed, pawl.ErrBusy},
		{"XX001", pawl.ErrCorrupt, pawl.ErrBusy}, {"40003", nil, nil}, // doubt, until it is confirmed
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, url, nil)
			op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
			raise(t, url, s.opts.Schema, c.code, 2)
			_, err := s.Begin(t.Context(), op, first)
			if c.is == nil && err != nil || c.is != nil && !errors.Is(err, c.is) || c.not != nil && errors.Is(err, c.not) {
				t.Errorf("begin: got %v, want %v", err, c.is)
			}
			want := int64(0)
			if c.is == nil {
				want = 1
			}
			if got := run(t, url, `SELECT count(*) FROM `+s.opts.Schema+`.intents`); got != want {
				t.Errorf("intents: got %d, want %d", got, want)
			}
			for end := time.Now().Add(patience); c.is != nil; { // it works again by itself
				if _, err := s.Begin(t.Context(), op, first); err == nil {
					break
				} else if time.Now().After(end) {
					t.Fatal(err)
				}
			}
			sole(t, s, op, 1)
		})
	}
}

// TestOneRowDoesNotFailOthers has one write of a batch break the statement.
func TestOneRowDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	s := openTest(t, pgtest.Database(t), nil)
	held, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "held"})
	if _, err := s.Begin(t.Context(), held, first); err != nil {
		t.Fatal(err)
	}
	reopened, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "r", Step: "1", Identity: "A"})
	if _, err := s.Begin(t.Context(), reopened, first); err != nil {
		t.Fatal(err)
	}
	settled := storetest.Move(reopened, pawl.FailedNoEffect, nil)
	if err := s.Apply(t.Context(), settled); err != nil {
		t.Fatal(err)
	}
	reopened.State = *settled.State
	inTheWay, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "r", Step: "2", Identity: "A"})
	if _, err := s.Begin(t.Context(), inTheWay, first); err != nil {
		t.Fatal(err)
	}

	var batch []write
	add := func(w write) { w.head().done = make(chan struct{}); batch = append(batch, w) }
	for i := range 20 {
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(i)})
		if i == 7 {
			op.Key = held.Key // another identity with a key that is taken
		}
		b, err := s.newBeginning(op, first)
		if err != nil {
			t.Fatal(err)
		}
		add(b)
	}
	a, err := newApplication(storetest.Move(reopened, pawl.Pending, nil)) // its step is held now
	if err != nil {
		t.Fatal(err)
	}
	add(a)
	s.settle(nil, batch)
	for i, w := range batch {
		want := i != 7 && i != 20
		if h := w.head(); h.err != nil || h.decided != want || h.conflicted == want {
			t.Errorf("write %d: got decided %t, conflicted %t, %v; want decided %t", i, h.decided, h.conflicted, h.err, want)
		}
	}
}

// What is no JSON is refused before it reaches the server.
func TestNaN(t *testing.T) {
	t.Parallel()
	s := openTest(t, pgtest.Database(t), nil)
	for _, args := range []string{"NaN", `{"amount":NaN}`, `{"amount":Infinity}`, "", "{"} {
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
		op.Args = []byte(args)
		if args == "" {
			op.Args = nil // nothing at all is null
		}
		_, err := s.Begin(t.Context(), op, first)
		if (err == nil) != (args == "") {
			t.Errorf("begin with %q: got %v", args, err)
		}
	}
	if found, err := s.Find(t.Context(), pawl.Query{}); err != nil || len(found) != 1 {
		t.Errorf("find: got %d operations, %v; want 1", len(found), err)
	}
}

// TestSessionsAreKilled ends every session again and again while callers begin and settle.
func TestSessionsAreKilled(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, nil)
	url := c.URL("postgres")
	s := openTest(t, url, &Options{ConfirmTimeout: 2 * time.Second})
	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	var killed atomic.Int64
	killer.Go(func() {
		for ctx.Err() == nil {
			n := run(t, url, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
			killed.Add(n)
			time.Sleep(10 * time.Millisecond) // time to connect in
		}
	})
	told := make([]map[pawl.ID]int, 16)
	var all sync.WaitGroup
	var begun atomic.Int64
	end := time.Now().Add(3 * time.Second)
	last := end.Add(time.Minute) // of a slow machine
	for caller := range told {
		told[caller] = map[pawl.ID]int{}
		all.Go(func() {
			for i := 0; time.Now().Before(end) || begun.Load() < 100 && time.Now().Before(last); i++ {
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: fmt.Sprint(caller), Step: fmt.Sprint(i), Identity: fmt.Sprint(i)})
				standing, err := s.Begin(t.Context(), op, first)
				if standing != nil {
					t.Errorf("begin: got %s in the way by %s", standing.Op.ID, standing.Kind)
				}
				if err != nil {
					continue
				}
				begun.Add(1)
				told[caller][op.ID] = 1
				if err := s.Apply(t.Context(), storetest.Move(op, pawl.Succeeded, nil)); err == nil {
					told[caller][op.ID] = 2
				} else if errors.Is(err, pawl.ErrStale) {
					t.Errorf("apply: %v", err)
				}
			}
		})
	}
	all.Wait()
	stop()
	killer.Wait()
	n := 0
	for _, ops := range told {
		for id, entries := range ops {
			n++
			if got, err := s.History(t.Context(), "", id); err != nil || len(got) < entries {
				t.Errorf("acknowledged %s with %d entries: got %d, %v", id, entries, len(got), err)
			}
		}
	}
	if n < 50 || killed.Load() < 20 {
		t.Errorf("got %d operations and %d sessions killed, want many of both", n, killed.Load())
	}
}

// TestStatementTimeout: the server ends what takes it too long, and nothing is written.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	schema := newSchema()
	openTest(t, url, &Options{Schema: schema})
	run(t, url, fmt.Sprintf(`ALTER DATABASE %s SET statement_timeout = '300ms'`, databaseOf(t, url)))
	s := openTest(t, url, &Options{Schema: schema})
	run(t, url, fmt.Sprintf(`CREATE SEQUENCE %s.slow`, schema))
	run(t, url, fmt.Sprintf(`CREATE FUNCTION %[1]s.slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF nextval('%[1]s.slow') = 1 THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END $$`, schema))
	run(t, url, fmt.Sprintf(`CREATE TRIGGER slow BEFORE INSERT ON %[1]s.states FOR EACH ROW EXECUTE FUNCTION %[1]s.slow()`, schema))
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	if _, err := s.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrBusy) || errors.Is(err, pawl.ErrStoreFailed) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrBusy)
	}
	if _, err := s.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("get: got %v, want %v", err, pawl.ErrNotFound)
	}
	if _, err := s.Begin(t.Context(), op, first); err != nil {
		t.Errorf("begin again: %v", err)
	}
}

// TestPoolIsExhausted: the host uses all connections of its pool.
func TestPoolIsExhausted(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	Hook(config.ConnConfig)
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := OpenPool(t.Context(), pool, &Options{BusyTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var taken []*pgxpool.Conn
	for range config.MaxConns {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, c)
	}
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	if _, err := s.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrBusy) || errors.Is(err, pawl.ErrStoreFailed) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrBusy)
	}
	if _, err := s.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrBusy) {
		t.Errorf("get: got %v, want %v", err, pawl.ErrBusy)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Begin(ctx, op, first); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("begin with little time: got %v, want %v", err, context.DeadlineExceeded)
	}
	for _, c := range taken {
		c.Release()
	}
	if _, err := s.Begin(t.Context(), op, first); err != nil {
		t.Errorf("begin with a free pool: %v", err)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("connections that the store keeps: got %d, want 0", n)
	}
}

// TestManyCallsFewIdentities has two stores make 2,000 calls on 200 identities.
func TestManyCallsFewIdentities(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	a := openTest(t, url, nil)
	stores := []*DB{a, openTest(t, url, &Options{Schema: a.opts.Schema})}
	const calls, identities = 2000, 200
	began := make([]atomic.Int64, identities)
	ids := make([]atomic.Pointer[pawl.ID], identities)
	var all sync.WaitGroup
	next := make(chan int)
	for range 64 {
		all.Go(func() {
			for i := range next {
				who := i % identities
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "run", Step: fmt.Sprint(who), Identity: fmt.Sprint(who), Subject: fmt.Sprint(who)})
				standing, err := stores[i/identities%2].Begin(t.Context(), op, first)
				switch {
				case err != nil:
					t.Errorf("begin: %v", err)
				case standing == nil:
					began[who].Add(1)
					ids[who].Store(&op.ID)
					if err := stores[i%2].Apply(t.Context(), storetest.Move(op, pawl.Succeeded, nil)); err != nil {
						t.Errorf("apply: %v", err)
					}
				case standing.Kind != pawl.ClaimIdentity:
					t.Errorf("standing by %s, want identity", standing.Kind)
				}
			}
		})
	}
	for i := range calls {
		next <- i
	}
	close(next)
	all.Wait()
	for who := range began {
		if n := began[who].Load(); n != 1 {
			t.Errorf("identity %d: begun %d times, want once", who, n)
		}
	}
	found, err := a.Find(t.Context(), pawl.Query{Run: "run", Status: pawl.Succeeded, Limit: 1000})
	if err != nil || len(found) != identities {
		t.Errorf("find: got %d operations, %v; want %d", len(found), err, identities)
	}
}

// TestDeadlock: two writers that meet in the opposite order lose time and nothing else.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	a := openTest(t, url, nil)
	b := openTest(t, url, &Options{Schema: a.opts.Schema})
	// Subjects are locked in the order of the operations' ids, which runs against that of
	// the other store.
	seeds := func(store string, i int) storetest.Seed {
		subject := i
		if store == "b" {
			subject = 99 - i
		}
		return storetest.Seed{Tool: "refund", Run: store, Step: fmt.Sprint(i), Identity: fmt.Sprint(i), Subject: fmt.Sprint(subject), At: time.Now().Add(time.Duration(i) * time.Millisecond)}
	}
	for range 3 {
		var all sync.WaitGroup
		begun := map[string]int{}
		var mu sync.Mutex
		for name, s := range map[string]*DB{"a": a, "b": b} {
			all.Go(func() {
				var batch []write
				for i := range 100 {
					op, first := storetest.Op(seeds(name+fmt.Sprint(time.Now().UnixNano()), i))
					op.SubjectClaim = pawl.Digest{byte(i + 1)}
					if name == "b" {
						op.SubjectClaim = pawl.Digest{byte(100 - i)}
					}
					w, err := s.newBeginning(op, first)
					if err != nil {
						t.Error(err)
						return
					}
					w.done = make(chan struct{})
					batch = append(batch, w)
				}
				s.settle(nil, batch)
				for _, w := range batch {
					if w.head().err != nil {
						t.Errorf("%s: %v", name, w.head().err)
					}
					if w.head().decided {
						mu.Lock()
						begun[name]++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		if n := begun["a"] + begun["b"]; n != 100 {
			t.Errorf("begun: got %d of 100 subjects, want all, once: %v", n, slices.Sorted(maps.Values(begun)))
		}
		run(t, url, `UPDATE `+a.opts.Schema+`.states SET held = 0`)
	}
}

// TestLongTexts: the longest names and references are kept, whatever is in them, and found.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	s := openTest(t, pgtest.Database(t), nil)
	for i, text := range []string{strings.Repeat("ü", 1000), strings.Repeat("\\", 1024), strings.Repeat("\x00", 1024), rand.Text() + strings.Repeat("x", 2000)} {
		op, first := storetest.Op(storetest.Seed{Tenant: text, Tool: text, Run: text, Identity: fmt.Sprint(i)})
		if _, err := s.Begin(t.Context(), op, first); err != nil {
			t.Errorf("begin: %v", err)
			continue
		}
		ref := text + text
		if err := s.Apply(t.Context(), storetest.Move(op, pawl.Succeeded, func(s *pawl.State) { s.Ref = ref })); err != nil {
			t.Errorf("apply: %v", err)
		}
		for _, q := range []pawl.Query{{Tenant: text}, {Tenant: text, Run: text}, {Tenant: text, Ref: ref}, {Tenant: text, Tool: text}} {
			if found, err := s.Find(t.Context(), q); err != nil || len(found) != 1 || found[0].Ref != ref {
				t.Errorf("find: got %d operations, %v; want 1", len(found), err)
			}
		}
		if found, err := s.Find(t.Context(), pawl.Query{Tenant: text, Ref: ref + "x"}); err != nil || len(found) != 0 {
			t.Errorf("find by another ref that begins alike: got %d operations, %v; want none", len(found), err)
		}
	}
	op, first := storetest.Op(storetest.Seed{Run: strings.Repeat("x", maxName+1), Tool: "refund"})
	if _, err := s.Begin(t.Context(), op, first); err == nil {
		t.Error("begin with a run that is too long: got no error")
	}
}
