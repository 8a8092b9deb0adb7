package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/sandbox/retail"
)

// TestPersonDecidesByTheLedger has a daemon that asks a person. That nothing happened is
// not said before it is safe, and what the daemon does not take is looked at again.
func TestPersonDecidesByTheLedger(t *testing.T) {
	t.Parallel()
	const id = "op_00000000000000000000000000000001"
	for name, c := range map[string]struct {
		happened bool
		safe     time.Duration // from now
		refusals int           // decisions that the daemon does not take
	}{
		"it happened":            {true, time.Hour, 0},
		"it did not":             {false, -time.Second, 0},
		"it did not, not yet":    {false, 300 * time.Millisecond, 0},
		"it changed in between":  {true, time.Hour, 1},
		"the daemon is not sure": {false, -time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			safe := time.Now().Add(c.safe)
			var tries atomic.Int32
			var settled atomic.Bool
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/operations/"+id, func(w http.ResponseWriter, _ *http.Request) {
				status := "UNKNOWN"
				if settled.Load() {
					status = "SUCCEEDED"
				}
				fmt.Fprintf(w, `{"operation":{"id":%q,"status":%q,"version":7,"review":%q},"safe_at":%q}`,
					id, status, time.Now().Format(time.RFC3339Nano), safe.Format(time.RFC3339Nano))
			})
			mux.HandleFunc("POST /v1/reviews/"+id+"/decisions", func(w http.ResponseWriter, r *http.Request) {
				var d struct {
					Version int
					Choice  string
					Why     string
				}
				if err := json.NewDecoder(r.Body).Decode(&d); err != nil || d.Version != 7 || (d.Choice == "happened") != c.happened || d.Why == "" {
					t.Errorf("got %+v, %v, want a decision that it happened: %v", d, err, c.happened)
				}
				if !c.happened && time.Now().Before(safe) {
					t.Error("it was said not to have happened while it still could")
				}
				if int(tries.Add(1)) <= c.refusals {
					w.WriteHeader(http.StatusConflict)
					fmt.Fprint(w, `{"code":"version"}`)
					return
				}
				settled.Store(true)
				fmt.Fprint(w, `{"status":"SUCCEEDED"}`)
			})
			daemon := httptest.NewServer(mux)
			defer daemon.Close()
			up := make(chan struct{})
			close(up)
			d := &drill{client: newClient(&fleet{members: []*member{{url: daemon.URL, up: up}}})}
			defer d.client.close()

			data := &retail.Data{Users: map[string]*retail.User{"ana_1": {}}}
			st := &step{id: "1", write: retail.Write{Tool: retail.UserAddress, Args: retail.Args{UserID: "ana_1"}}}
			h := &host{d: d, shop: data.Open()}
			if c.happened {
				if _, err := h.shop.Do(st.write); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := h.await(ctx, st, id, 0); err != nil {
				t.Fatal(err)
			}
			if !settled.Load() || int(tries.Load()) != c.refusals+1 {
				t.Errorf("got settled %v after %d decisions, want it after %d", settled.Load(), tries.Load(), c.refusals+1)
			}
		})
	}
}
