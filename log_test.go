package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// logged reads the lines of a JSON log.
func logged(t *testing.T, log string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, v)
	}
	return lines
}

// Every line about an operation says which: by its id, its key, its tool and its run, and tells
// nothing of what it is about.
func TestLogNamesTheOperation(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Snapshot = true; c.Probe = nil }, func(h *house) {
		var log strings.Builder
		ex := h.executor(&pawl.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
		h.provider.state = "unreadable"
		h.do(ex, call(func(c *pawl.Call) { c.Args = []byte(`{"order_id":"SECRET-1"}`) })) // snapshot
		h.provider.state = ""
		h.provider.script = []string{"hang"}
		ctx, cancel := context.WithTimeout(context.Background(), 3500*time.Millisecond)
		defer cancel()
		if _, err := ex.Do(ctx, call(func(c *pawl.Call) { c.Args, c.Step = []byte(`{"order_id":"SECRET-2"}`), "2" })); err != nil { // nobody sweeps
			t.Fatal(err)
		}
		stop(ex)
		lines := logged(t, log.String())
		if len(lines) != 2 {
			t.Fatalf("got %d lines, want 2:\n%s", len(lines), log.String())
		}
		ops, err := h.store.Find(context.Background(), pawl.Query{AllTenants: true})
		if err != nil || len(ops) != 2 {
			t.Fatalf("got %d operations, %v, want 2", len(ops), err)
		}
		for i, line := range lines {
			op := ops[len(ops)-1-i]
			for name, want := range map[string]string{"operation": op.ID.String(), "key": op.Key.String(), "tool": op.Tool, "run": op.Run} {
				if line[name] != want {
					t.Errorf("line %d: got %s %v, want %s", i, name, line[name], want)
				}
			}
		}
		if strings.Contains(log.String(), "SECRET") {
			t.Errorf("the log tells arguments:\n%s", log.String())
		}
	})
}

// An operation that is logged by mistake tells no more than its name.
func TestLogOfAnOperation(t *testing.T) {
	t.Parallel()
	op, _ := storetest.Op(storetest.Seed{Tool: "pay", Run: "r", Identity: "SECRET"})
	var log strings.Builder
	l := slog.New(slog.NewJSONHandler(&log, nil))
	l.Info("one", "op", op)
	l.Info("none", "op", (*pawl.Intent)(nil), slog.Any("", &pawl.Intent{}))
	lines := logged(t, log.String())
	if got, want := lines[0]["op"].(map[string]any)["key"], op.Key.String(); got != want || strings.Contains(log.String(), "SECRET") {
		t.Errorf("got %s, want the key %s and no identity", log.String(), want)
	}
	if len(lines[1]) != 3 {
		t.Errorf("got %v, want nothing about nothing", lines[1])
	}
}

// A call whose record fails says which operation it was about.
func TestErrorNamesTheOperation(t *testing.T) {
	play(t, nil, func(h *house) {
		h.store.SetFaults(storetest.Faults{AfterBegin: func(*pawl.Operation) error { return pawl.ErrStoreFailed }})
		ex := h.executor(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		env, err := ex.Do(ctx, call(nil))
		var record *pawl.RecordError
		if !errors.As(err, &record) || !errors.Is(err, pawl.ErrStoreFailed) {
			t.Fatalf("got %v, want a record's error of the store", err)
		}
		if op := h.operation(); record.Intent.ID != op.ID || record.Intent.Key != op.Key || env.OperationID != op.ID.String() {
			t.Errorf("got %s, want %s", record.Intent.ID, op.ID)
		}
	})
}
