package blackbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// each runs a test over each transport in each era.
func each(t *testing.T, test func(t *testing.T, s *setting)) {
	for _, stdio := range []bool{true, false} {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			t.Run(transport(stdio)+"/"+string(era), func(t *testing.T) {
				t.Parallel()
				test(t, open(t, stdio, era, ""))
			})
		}
	}
}

func order(id string) map[string]any { return map[string]any{"order_id": id, "sku": "tea"} }

// TestOneIDForEveryRequest: a client that sends each request under the id 1, in two sessions,
// gets the answer to each. On stdio it could not tell them apart itself.
func TestOneIDForEveryRequest(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			s := open(t, false, era, "")
			clients := []*mcptest.Client{s.client, mcptest.DialHTTP(t, era, s.url)}
			failures := make([]error, 20)
			var wg sync.WaitGroup
			for i := range failures {
				wg.Go(func() {
					name := fmt.Sprintf("id-1-%d", i)
					a := mcptest.Asked{Tool: "echo", Args: map[string]any{"text": name}, ID: "1"}
					if i%2 == 0 {
						a = mcptest.Asked{Tool: probed, Args: order(name), ID: "1", Meta: inRun}
					}
					r, err := clients[i/2%2].Call(t.Context(), a)
					if err == nil && i%2 == 1 && r.Text() != name {
						err = fmt.Errorf("got %v, want %s", r, name)
					}
					if err == nil && r.IsError {
						err = fmt.Errorf("got %v", r)
					}
					failures[i] = err
				})
			}
			wg.Wait()
			if err := errors.Join(failures...); err != nil {
				t.Error(err)
			}
			if n := len(s.upstream.Effects(t)); n != 10 {
				t.Errorf("got %d effects, want 10", n)
			}
		})
	}
}

// TestNumberAndTextAsID: 1 and "1" are two requests, in flight together.
func TestNumberAndTextAsID(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *setting) {
		var wg sync.WaitGroup
		for _, id := range []string{`7001`, `"7001"`} {
			wg.Go(func() {
				r, err := s.client.Call(t.Context(), mcptest.Asked{Tool: "echo", Args: map[string]any{"text": id}, ID: id})
				if err != nil || r.Text() != id {
					t.Errorf("got %v, %v, want %s", r, err, id)
				}
			})
		}
		wg.Wait()
	})
}

// TestDispatchedTwice: a client dispatches one call twice, milliseconds apart and under two
// ids. One request reaches the upstream, and both callers get its result.
func TestDispatchedTwice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *setting) {
		texts := make([]string, 2)
		var wg sync.WaitGroup
		for i := range texts {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond) // the distance that was reported
				r, err := s.client.Call(t.Context(), mcptest.Asked{Tool: probed, Args: order("twice"), Meta: inRun})
				if err != nil || r.IsError {
					t.Errorf("got %v, %v", r, err)
					return
				}
				texts[i] = r.Text()
			})
		}
		wg.Wait()
		effects := s.upstream.Effects(t)
		if len(effects) != 1 || len(s.upstream.Calls(t, probed)) != 1 {
			t.Fatalf("got %d effects, want 1", len(effects))
		}
		if !strings.HasPrefix(texts[0], effects[0].ID) || !strings.HasPrefix(texts[1], effects[0].ID) {
			t.Errorf("got %q, want the order %s twice", texts, effects[0].ID)
		}
	})
}

// TestReworded: the free words of a call may change, its guarded ones may not.
func TestReworded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *setting) {
		first := order("reworded")
		first["note"] = "to the door"
		second := order("reworded")
		second["note"] = "bring it to the door"
		other := order("reworded")
		other["sku"] = "coffee"
		var texts []string
		for _, args := range []map[string]any{first, second, other} {
			r, err := s.client.Call(t.Context(), mcptest.Asked{Tool: probed, Args: args, Meta: inRun})
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, r.Text())
		}
		if !strings.HasPrefix(texts[1], texts[0]) || !strings.Contains(texts[1], `"differs":["note"]`) {
			t.Errorf("got %s for the call in other words, want %s and what differs", texts[1], texts[0])
		}
		if !strings.Contains(texts[2], "sku") {
			t.Errorf("got %s for a call with another sku, want a refusal that names it", texts[2])
		}
		if n := len(s.upstream.Calls(t, probed)); n != 1 {
			t.Errorf("got %d calls on the wire, want 1", n)
		}
	})
}

// TestStdioClosedInMidCall: a client on stdio that goes away while its call is out loses
// nothing: the effect is on record, and the next client that asks gets its result.
func TestStdioClosedInMidCall(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			s := open(t, true, era, "")
			p := s.play(row{name: "closes stdio in mid-call", probed: succeeded, effects: 1}, probed, 0)
			s.upstream.Fail(t, mcptest.Late)
			p.gone()
			closed := make(chan struct{})
			go func() {
				p.client.Close()
				close(closed)
			}()
			<-p.answer
			s.upstream.Release(t)
			<-closed
			s.start()
			p.call()
			p.until("the record says "+succeeded, func() bool { return p.status() == succeeded })
			p.counts("in the end")
		})
	}
}

// TestErasMeet: a client of one era uses an upstream of the other.
func TestErasMeet(t *testing.T) {
	t.Parallel()
	for _, stdio := range []bool{true, false} {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			t.Run(fmt.Sprintf("%s/%s_upstream", transport(stdio), era), func(t *testing.T) {
				t.Parallel()
				s := open(t, stdio, era, "")
				other := map[mcptest.Era]mcptest.Era{mcptest.Legacy: mcptest.Modern, mcptest.Modern: mcptest.Legacy}[era]
				s.era = other
				if stdio {
					s.client.Close()
				}
				s.start()
				names, err := s.client.Tools(t.Context())
				if err != nil || len(names) < 5 {
					t.Errorf("got tools %v, %v", names, err)
				}
				p := s.play(row{name: "answers", effects: 1}, probed, 0)
				p.call()
				p.call()
				p.counts("after two calls")
				s.upstream.Fail(t, mcptest.Reset)
				lost := s.play(row{name: "resets the connection after the work", effects: 1}, probed, 1)
				lost.call()
				lost.until("the record says "+succeeded, func() bool { return lost.status() == succeeded })
				lost.counts("after a lost answer")
			})
		}
	}
}

// TestDeadlineOfTheCaller: a caller that says how long it waits is answered by then.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *setting) {
		s.upstream.Fail(t, mcptest.Late)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		began := time.Now()
		r, err := s.client.Call(ctx, mcptest.Asked{
			Tool: blind, Args: map[string]any{"to": "deadline", "text": "hello"},
			Meta: map[string]any{"dev.pawl/run": "matrix", "dev.pawl/deadline_ms": 5000},
		})
		if took := time.Since(began); err != nil || took > 6*time.Second {
			t.Errorf("got %v, %v after %v, want an answer within the five seconds that the caller has", r, err, took)
		}
		if err == nil && !strings.Contains(r.Text(), unknown) && !strings.Contains(r.Text(), "PENDING") {
			t.Errorf("got %s, want doubt", r.Text())
		}
		s.upstream.Release(t)
	})
}

// TestHintsAreNoLicence: what an upstream says of its tools counts only where the file trusts
// it. An undeclared tool is an effect, asked for once however often it is called; the matrix
// has effects that are hinted to be repeatable.
func TestHintsAreNoLicence(t *testing.T) {
	t.Parallel()
	for hints, calls := range map[string]int{"ignored": 1, "trusted": 3} {
		t.Run(hints, func(t *testing.T) {
			t.Parallel()
			u := mcptest.NewHTTP(t, mcptest.Modern)
			file := fmt.Sprintf("version: 1\nstore: pawl.db\nupstreams:\n  orders: {url: %q, mcp: {read_only_hints: %s}}\n", u.URL(), hints)
			client := mcptest.DialHTTP(t, mcptest.Modern, mcptest.Serve(t, writeFile(t, file)).URL+"/mcp")
			for range 3 {
				r, err := client.Call(t.Context(), mcptest.Asked{Tool: "echo", Args: map[string]any{"text": "x"}, Meta: inRun})
				if err != nil || !strings.HasPrefix(r.Text(), "x") {
					t.Errorf("got %v, %v", r, err)
				}
			}
			if n := len(u.Calls(t, "echo")); n != calls {
				t.Errorf("got %d calls at the upstream, want %d", n, calls)
			}
			for range 2 {
				r, err := client.Call(t.Context(), mcptest.Asked{Tool: blind, Args: map[string]any{"to": "ann", "text": "x"}, Meta: inRun})
				if err != nil || r.IsError {
					t.Errorf("got %v, %v", r, err)
				}
			}
			if n := len(u.Effects(t)); n != 1 {
				t.Errorf("got %d effects, want 1", n)
			}
		})
	}
}
