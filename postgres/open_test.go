package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/storetest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options Options
		says    string
	}{
		{Options{Schema: "Pawl"}, "option Schema"}, {Options{Schema: `a"; DROP`}, "option Schema"},
		{Options{Schema: strings.Repeat("a", 64)}, "option Schema"}, {Options{Writers: -1}, "option Writers"},
		{Options{Readers: 65}, "option Readers"}, {Options{BusyTimeout: -1}, "option BusyTimeout"},
		{Options{ConfirmTimeout: -1}, "option ConfirmTimeout"},
	} {
		if _, err := Open(t.Context(), "postgres://127.0.0.1:1/x", &c.options); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: got %v, want an error that says %q", c.options, err, c.says)
		}
	}
}

// What cannot be opened says why, and never tells the password.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, says string }{
		{"postgres://ana:hunter2@127.0.0.1:1/x", "store busy"},
		{"postgres://ana:hunter2@127.0.0.1:port/x", "open"},
		{"postgres://ana:hunter2@127.0.0.1:1/x?sslmode=nonsense", "open"},
		{"postgres://ana:hunter2%zz@127.0.0.1:1/x", "open"},
	} {
		_, err := Open(t.Context(), c.url, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want an error that says %q and tells no password", err, c.says)
		}
	}
}

func TestUnsafeSettings(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, nil)
	at := c.URL("postgres")
	with := func(settings string) string { return at + "&" + settings }
	for _, settings := range []string{"synchronous_commit=off"} {
		if _, err := Open(t.Context(), with(settings), nil); !errors.Is(err, errUnsafe) || !strings.Contains(err.Error(), "synchronous_commit is off") {
			t.Errorf("open with %s: got %v, want %v", settings, err, errUnsafe)
		}
	}
	for _, settings := range []string{"synchronous_commit=local", "synchronous_commit=remote_write", "synchronous_commit=remote_apply"} {
		openTest(t, with(settings), nil)
	}

	// A server whose settings change under a running store: nothing is written until they
	// are right again.
	s := openTest(t, at, nil)
	for i, setting := range []string{"synchronous_commit", "fsync", "full_page_writes"} {
		c.Set(t, setting, "off")
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(i)})
		for end := time.Now().Add(patience); ; { // the server takes a moment to tell its sessions
			_, err := s.Begin(t.Context(), op, first)
			if errors.Is(err, pawl.ErrStoreFailed) && errors.Is(err, errUnsafe) {
				break
			}
			if err != nil || time.Now().After(end) {
				t.Fatalf("begin with %s off: got %v, want %v", setting, err, errUnsafe)
			}
			op, first = storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(i, op.ID)})
		}
		if _, err := s.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("get: got %v, want %v: it was not written", err, pawl.ErrNotFound)
		}
		if _, err := Open(t.Context(), at, nil); !errors.Is(err, errUnsafe) {
			t.Errorf("open with %s off: got %v, want %v", setting, err, errUnsafe)
		}
		c.Set(t, setting, "on")
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if _, err := s.Begin(t.Context(), op, first); err == nil {
				break
			} else if !errors.Is(err, pawl.ErrStoreFailed) || time.Now().After(end) {
				t.Fatalf("begin with %s on again: %v", setting, err)
			}
		}
	}

	// With a standby, less than on loses what a failover loses.
	c.Standby(t)
	for _, settings := range []string{"synchronous_commit=local", "synchronous_commit=remote_write"} {
		if _, err := Open(t.Context(), with(settings), nil); !errors.Is(err, errUnsafe) {
			t.Errorf("open with %s and a standby: got %v, want %v", settings, err, errUnsafe)
		}
	}
	if _, err := s.Now(t.Context()); err != nil {
		t.Error(err)
	}
	begun(t, s, "with a standby", 3) // on is on: the store goes on
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, nil)
	standby := c.Standby(t)
	if _, err := Open(t.Context(), standby.URL("postgres"), nil); !errors.Is(err, pawl.ErrReadOnly) || !strings.Contains(err.Error(), "name the primary") {
		t.Errorf("open a standby: got %v, want %v", err, pawl.ErrReadOnly)
	}
	s := openTest(t, c.URL("postgres"), nil)
	begun(t, s, "run", 1)
	c.Exec(t, `ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	for end := time.Now().Add(patience); ; {
		_, err := s.Begin(t.Context(), op, first)
		if errors.Is(err, pawl.ErrReadOnly) && !errors.Is(err, pawl.ErrStoreFailed) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("begin: got %v, want %v", err, pawl.ErrReadOnly)
		}
		op, first = storetest.Op(storetest.Seed{Tool: "refund", Identity: op.ID.String()})
	}
	if found, err := s.Find(t.Context(), pawl.Query{Limit: 1}); err != nil || len(found) != 1 {
		t.Errorf("find: got %d operations, %v; want 1", len(found), err)
	}
}

func TestMustExist(t *testing.T) {
	t.Parallel()
	at := pgtest.Database(t)
	if _, err := Open(t.Context(), at, &Options{MustExist: true}); !errors.Is(err, ErrNoStore) {
		t.Errorf("got %v, want %v", err, ErrNoStore)
	}
	if n := run(t, at, `SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'`); n != 0 {
		t.Error("a store that need not be was made")
	}
	openTest(t, at, &Options{Schema: "pawl"})
	openTest(t, at, &Options{Schema: "pawl", MustExist: true})
}

func TestForeignTables(t *testing.T) {
	t.Parallel()
	at := pgtest.Database(t)
	run(t, at, `CREATE TABLE public.intents (n int)`)
	if _, err := Open(t.Context(), at, &Options{Schema: "public"}); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want %v", err, ErrForeign)
	}
	if n := run(t, at, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`); n != 1 {
		t.Errorf("tables: got %d, want the one of the other program", n)
	}
	// A host's own tables of other names are no hindrance.
	run(t, at, `CREATE SCHEMA app`)
	run(t, at, `CREATE TABLE app.orders (n int)`)
	openTest(t, at, &Options{Schema: "app"})
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	at := pgtest.Database(t)
	s := openTest(t, at, nil)
	run(t, at, `INSERT INTO `+s.opts.Schema+`.pawl_schema (version_id, is_applied) VALUES (99, true)`)
	if _, err := Open(t.Context(), at, &Options{Schema: s.opts.Schema}); !errors.Is(err, pawl.ErrNewerSchema) {
		t.Errorf("got %v, want %v", err, pawl.ErrNewerSchema)
	}
}

// TestOpenTogether has several openers make one new store.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	at := pgtest.Database(t)
	for range 5 {
		schema := newSchema()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := Open(t.Context(), at, &Options{Schema: schema})
				if err != nil {
					t.Error(err)
					return
				}
				if why := s.Recovery(); why != nil {
					t.Errorf("recovery: got %v, want none", why)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := run(t, at, `SELECT count(*) FROM `+schema+`.store`); n != 1 {
			t.Errorf("store: got %d rows, want 1", n)
		}
	}
}

// TestMigrationFails: a step that fails leaves nothing of itself behind.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	at := pgtest.Database(t)
	s := openTest(t, at, nil)
	steps := append(migrations[:len(migrations):len(migrations)], migration{99999, `CREATE TABLE {schema}.new_table (n bigint); SELECT 1 / 0`})
	if err := migrate(t.Context(), s.pool, s.opts.Schema, steps, false); err == nil {
		t.Error("got no error of a migration that divides by zero")
	}
	if n := run(t, at, `SELECT count(*) FROM pg_tables WHERE tablename = 'new_table'`); n != 0 {
		t.Error("half a migration was left")
	}
	steps[len(steps)-1].sql = `CREATE TABLE {schema}.new_table (n bigint)`
	if err := migrate(t.Context(), s.pool, s.opts.Schema, steps, false); err != nil {
		t.Fatal(err)
	}
	// The older binary that still runs goes on; one that starts does not.
	begun(t, s, "run", 1)
	if _, err := Open(t.Context(), at, &Options{Schema: s.opts.Schema}); !errors.Is(err, pawl.ErrNewerSchema) {
		t.Errorf("got %v, want %v", err, pawl.ErrNewerSchema)
	}
}

// TestPrivileges: a role that owns the schema and nothing else will do.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, nil)
	c.Exec(t, `CREATE ROLE pawl LOGIN`, `CREATE ROLE guest LOGIN`, `CREATE SCHEMA pawl AUTHORIZATION pawl`)
	as := func(role string) string {
		u, err := url.Parse(c.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(role)
		return u.String()
	}
	if _, err := Open(t.Context(), as("guest"), &Options{Schema: "guest"}); !errors.Is(err, pawl.ErrReadOnly) || !strings.Contains(err.Error(), "rights") {
		t.Errorf("open without the right to make a schema: got %v, want %v", err, pawl.ErrReadOnly)
	}
	s := openTest(t, as("pawl"), &Options{Schema: "pawl"})
	ops := begun(t, s, "run", 2)
	if err := s.Apply(t.Context(), storetest.Move(ops[0], pawl.Succeeded, nil)); err != nil {
		t.Error(err)
	}
	if claimed, err := s.Claim(t.Context(), pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 5, Lease: time.Minute}); err != nil {
		t.Errorf("claim: got %v, %v", claimed, err)
	}
	if _, err := Open(t.Context(), as("guest"), &Options{Schema: "pawl"}); !errors.Is(err, pawl.ErrReadOnly) {
		t.Errorf("open another's store: got %v, want %v", err, pawl.ErrReadOnly)
	}
	c.Exec(t, `GRANT USAGE ON SCHEMA pawl TO guest`, `GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO guest`)
	look := openTest(t, as("guest"), &Options{Schema: "pawl", MustExist: true})
	if found, err := look.Find(t.Context(), pawl.Query{}); err != nil || len(found) != 2 {
		t.Errorf("find by one who may look: got %d operations, %v; want 2", len(found), err)
	}
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "X"})
	if _, err := look.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrReadOnly) {
		t.Errorf("begin by one who may look: got %v, want %v", err, pawl.ErrReadOnly)
	}
	c.Exec(t, `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	if _, err := Open(t.Context(), as("pawl"), &Options{Schema: "pawl"}); !errors.Is(err, pawl.ErrReadOnly) {
		t.Errorf("open without the right to know the server: got %v, want a refusal", err)
	}
}

func TestPoolWithoutHook(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := OpenPool(t.Context(), pool, nil); !errors.Is(err, errDeaf) {
		t.Errorf("got %v, want %v", err, errDeaf)
	}
}

// TestCopies: a store that is not where it was confirmed asks for a person.
func TestCopies(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, nil)
	at := c.URL("postgres")
	s, err := Open(t.Context(), at, &Options{Schema: "one"})
	if err != nil {
		t.Fatal(err)
	}
	begun(t, s, "run", 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	recovers := func(at, schema string, want error) {
		t.Helper()
		s := openTest(t, at, &Options{Schema: schema, MustExist: true})
		if err := s.Recovery(); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("recovery of %s: got %v, want %v", schema, err, want)
		}
		if want == nil {
			return
		}
		if err := s.Confirm(t.Context(), &pawl.Restore{At: time.Now(), Until: time.Now(), By: "ana"}); err != nil {
			t.Fatal(err)
		}
		if err := openTest(t, at, &Options{Schema: schema}).Recovery(); err != nil {
			t.Errorf("recovery after the confirmation: got %v, want nil", err)
		}
		begun(t, s, "after", 1)
	}
	recovers(at, "one", nil)

	// A copy of the database in the same cluster.
	c.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	c.Exec(t, `CREATE DATABASE copied`)
	run(t, at, `CREATE SCHEMA two`)
	for _, table := range append([]string{"pawl_schema"}, tables...) {
		run(t, at, fmt.Sprintf(`CREATE TABLE two.%[1]s (LIKE one.%[1]s INCLUDING ALL)`, table))
		run(t, at, fmt.Sprintf(`INSERT INTO two.%[1]s OVERRIDING SYSTEM VALUE SELECT * FROM one.%[1]s`, table))
	}
	recovers(at, "two", ErrOtherCluster)
	recovers(at, "one", nil)

	// A restart is no copy.
	c.Stop(t)
	c.Start(t)
	recovers(at, "one", nil)
	c.Kill(t)
	c.Start(t)
	recovers(at, "one", nil)
}
