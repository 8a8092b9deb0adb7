package pawl_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestPermitThatTookLongIsGivenBack: the commit of the permit takes most of the lease. A
// write now could come after another worker has taken over.
func TestPermitThatTookLongIsGivenBack(t *testing.T) { // rule 12
	for name, commit := range map[string]time.Duration{"lease": 25 * time.Second, "pause": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			edit := func(c *pawl.Contract) {
				keyless(c)
				if name == "pause" {
					c.Pause = 5 * time.Second
				}
			}
			play(t, edit, func(h *house) {
				h.store.SetFaults(storetest.Faults{AfterBegin: func(*pawl.Operation) error { time.Sleep(commit); return nil }})
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				env, err := h.executor(nil).Do(ctx, call(nil))
				if err != nil {
					t.Fatal(err)
				}
				h.want(env, "FAILED_NO_EFFECT given_back executed", 0)
				if n := h.provider.requests(); n != 0 {
					t.Errorf("got %d requests, want the permit given back unsent", n)
				}
			})
		})
	}
}

// forgetful makes another request each time it is asked, as a port does whose template was
// edited in the meantime.
type forgetful struct {
	*provider
	asked int
}

func (f *forgetful) Prepare(inv *pawl.Invocation) (pawl.Outbound, error) {
	f.asked++
	bytes, err := json.Marshal(map[string]string{"key": inv.Key.String(), "args": string(inv.Canonical), "template": strconv.Itoa(f.asked)})
	return pawl.Outbound{Request: bytes}, err
}

// TestResendIsWhatWasStored: between an attempt and its resend the tool's template and the
// tenant's secret change.
func TestResendIsWhatWasStored(t *testing.T) { // rule 18, OP3
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		h.provider.script = []string{"before", "ok"}
		rotations := 0
		ex := pawl.New(h.store, &pawl.Options{Secrets: func(string) []pawl.Secret {
			rotations++
			return []pawl.Secret{{ID: strconv.Itoa(rotations), Value: []byte(strings.Repeat("s", 15+rotations))}}
		}})
		defer stop(ex)
		if err := ex.Register(&pawl.Tool{Contract: h.contract, Port: &forgetful{provider: h.provider}}); err != nil {
			t.Fatal(err)
		}
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
		sends, op := h.provider.sends, h.operation()
		if len(sends) != 2 || sends[0] != sends[1] || sends[0] != op.Key.String()+" "+string(op.Request) {
			t.Errorf("got requests %q, want the stored key and bytes twice", sends)
		}
	})
}

// TestNothingIsSentBeforeTheCommit looks at the provider while the store takes its time with
// the intent, with a retry and with a resend.
func TestNothingIsSentBeforeTheCommit(t *testing.T) { // rule 1, N13, K22
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		h.provider.script = []string{"before", "ok", "unsent", "ok"}
		commits := 0
		commit := func() error {
			requests := h.provider.requests()
			time.Sleep(500 * time.Millisecond)
			if n := h.provider.requests(); n != requests {
				t.Errorf("got %d requests while commit %d was under way, want none", n-requests, commits)
			}
			commits++
			return nil
		}
		h.store.SetFaults(storetest.Faults{
			BeforeBegin: func(*pawl.Operation) error { return commit() },
			BeforeApply: func(*pawl.Change) error { return commit() },
		})
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "SUCCEEDED confirmed executed", 2)
		if n := h.provider.requests(); n != 3 || commits < 6 {
			t.Errorf("got %d requests and %d commits, want a first one, a resend and a retry", n, commits)
		}
	})
}
