package storetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) pawl.Store { return storetest.NewMemory() }, &storetest.Options{Rows: 2000})
}

func TestMemoryFaults(t *testing.T) {
	t.Parallel()
	m := storetest.NewMemory()
	fault := errors.New("fault")
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	m.SetFaults(storetest.Faults{BeforeBegin: func(*pawl.Operation) error { return fault }})
	if _, err := m.Begin(t.Context(), op, first); !errors.Is(err, fault) {
		t.Errorf("begin: got %v, want the fault", err)
	}
	if _, err := m.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("get after a fault before: got %v, want %v", err, pawl.ErrNotFound)
	}
	m.SetFaults(storetest.Faults{AfterBegin: func(*pawl.Operation) error { return fault }})
	if _, err := m.Begin(t.Context(), op, first); !errors.Is(err, fault) {
		t.Errorf("begin: got %v, want the fault", err)
	}
	m.SetFaults(storetest.Faults{AfterApply: func(*pawl.Change) error { return fault }})
	c := storetest.Move(op, pawl.Succeeded, nil)
	if err := m.Apply(t.Context(), c); !errors.Is(err, fault) {
		t.Errorf("apply: got %v, want the fault", err)
	}
	m.SetFaults(storetest.Faults{Find: func(pawl.Query) error { return fault }, Now: func() error { return fault }})
	if got, err := m.Get(t.Context(), "", op.ID); err != nil || got.Status != pawl.Succeeded {
		t.Errorf("get after faults behind the write: got %v, %v; want SUCCEEDED", got, err)
	}
	if _, err := m.Find(t.Context(), pawl.Query{}); !errors.Is(err, fault) {
		t.Errorf("find: got %v, want the fault", err)
	}
	if _, err := m.Now(t.Context()); !errors.Is(err, fault) {
		t.Errorf("now: got %v, want the fault", err)
	}
}

func TestMemoryInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A", Lease: time.Hour})
		if _, err := m.Begin(t.Context(), op, first); err != nil {
			t.Fatal(err)
		}
		ask := pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 2, Lease: time.Minute}
		if got, err := m.Claim(t.Context(), ask); err != nil || len(got) != 0 {
			t.Errorf("claim before the lease ends: got %d, %v; want none", len(got), err)
		}
		time.Sleep(time.Hour)
		if got, err := m.Claim(t.Context(), ask); err != nil || len(got) != 1 {
			t.Errorf("claim after it: got %d, %v; want 1", len(got), err)
		}
	})
}
