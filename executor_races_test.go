package pawl_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestAttachedCallerDoesNotSpin: while another call's attempt is listened to beyond this
// turn, or the record cannot be read, the attached call waits. In fake time a call that
// looks again without waiting never ends.
func TestAttachedCallerDoesNotSpin(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"hang"}
		owner, other := h.executor(nil), h.executor(nil)
		go owner.Do(context.Background(), call(nil))
		time.Sleep(12 * time.Second)
		short := func(ex *pawl.Executor) pawl.Envelope {
			ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
			defer cancel()
			env, err := ex.Do(ctx, call(nil))
			if err != nil {
				t.Fatal(err)
			}
			return env
		}
		h.want(short(owner), "UNKNOWN no_answer attached", 1)
		h.store.SetFaults(storetest.Faults{Get: func(pawl.ID) error { return pawl.ErrBusy }})
		h.want(short(other), "UNKNOWN no_answer attached", 1)
		h.store.SetFaults(storetest.Faults{})
	})
}
