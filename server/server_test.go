package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sound = `version: 1
store: data/ops.db
upstreams:
  shop:
    url: http://127.0.0.1:9
tools:
  refund:
    upstream: shop
    request: { method: POST, path: /v1/refunds, body: args }
    identity: [order_id]
`

// write makes a contract file in a folder of its own and returns its options.
func write(t *testing.T, text string) *Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Options{Config: path, SQLite: &sqlite.Options{WALSize: 1 << 20, Reserve: 64 << 10}}
}

func openTest(t *testing.T, o *Options) *Server {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, s) })
	return s
}

func closeTest(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	o := write(t, sound)
	s := openTest(t, o)
	s.Start()
	s.Start()
	if got := s.Executor().Contracts(); len(got) != 1 || got[0].Tool != "refund" {
		t.Errorf("got contracts %v, want refund", got)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(o.Config), "data", "ops.db")); err != nil {
		t.Errorf("the store is not beside its contract file: %v", err)
	}
	env, err := s.Executor().Do(t.Context(), pawl.Call{Tool: "refund", Run: "r", Args: []byte(`{"order_id":"A-1"}`)})
	if err != nil || env.Reason != pawl.ReasonNotSent {
		t.Errorf("call of an upstream that is not there: got %s (%s), %v, want FAILED_NO_EFFECT (not_sent)", env.Status, env.Reason, err)
	}
	closeTest(t, s)
	closeTest(t, s)
}

func TestStorePath(t *testing.T) {
	t.Parallel()
	o := write(t, strings.Replace(sound, "store: data/ops.db\n", "", 1))
	openTest(t, o)
	if _, err := os.Stat(filepath.Join(filepath.Dir(o.Config), "pawl.db")); err != nil {
		t.Errorf("the default store is not pawl.db beside the contract file: %v", err)
	}
	o = write(t, sound)
	o.Store = filepath.Join(t.TempDir(), "other.db")
	openTest(t, o)
	if _, err := os.Stat(o.Store); err != nil {
		t.Errorf("Options.Store was not used: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		is         error
		says       string
	}{
		{"no tool", "version: 1\ntools:\n  refund: {}\n", nil, "pawl.yaml:3:"},
		{"secret", strings.Replace(sound, "url: http://127.0.0.1:9", "url: http://127.0.0.1:9\n    headers: { Authorization: \"Bearer ${env:PAWL_TEST_NOT_SET}\" }", 1), contract.ErrSecret, "PAWL_TEST_NOT_SET"},
		{"key secret", "key_secret: [{ id: s1, value: \"${env:PAWL_TEST_NOT_SET}\" }]\n" + sound, contract.ErrSecret, "PAWL_TEST_NOT_SET"},
		{"url", strings.Replace(sound, "data/ops.db", "mysql://db/x", 1), nil, "mysql:// URLs"},
		{"password", strings.Replace(sound, "data/ops.db", "postgres://ana:hunter2@db/x", 1), nil, "never written into the file"},
		{"no folder", strings.Replace(sound, "data/ops.db", "nowhere/ops.db", 1), os.ErrNotExist, "open store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := write(t, c.text)
			s, err := Open(t.Context(), o)
			if err == nil {
				closeTest(t, s)
				t.Fatal("got no error")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got error %v, want one that is %v and says %q", err, c.is, c.says)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %v", err)
			}
			if files, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Config), "data", "*")); len(files) > 0 {
				t.Errorf("a refused server left %v", files)
			}
		})
	}
}

// TestOpenRefusesACopy: a clone of a store sends nothing before a person has spoken.
func TestOpenRefusesACopy(t *testing.T) {
	t.Parallel()
	o := write(t, sound)
	closeTest(t, openTest(t, o))
	from := filepath.Join(filepath.Dir(o.Config), "data", "ops.db")
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	o.Store = filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(o.Store, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), o); !errors.Is(err, ErrRecovery) {
		if err == nil {
			closeTest(t, s)
		}
		t.Fatalf("got %v, want ErrRecovery", err)
	}
	db, err := OpenStore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Confirm(t.Context(), &pawl.Restore{At: time.Now(), Until: time.Now(), By: "ana"}), db.Close()); err != nil {
		t.Fatal(err)
	}
	openTest(t, o)
}
