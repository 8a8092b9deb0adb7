package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// givenOut is the pretend provider behind a port whose requests callers may send: a status of
// 200 is a success, 400 a refusal.
type givenOut struct{ *provider }

func (givenOut) Header(s *pawl.Sending) map[string]string {
	return map[string]string{"Not-After": s.Permit.Add(time.Minute).UTC().Format(time.RFC3339)}
}

func (givenOut) Classify(_ *pawl.Sending, a *pawl.Answer) pawl.Evidence {
	switch a.Status {
	case 200:
		return pawl.Evidence{Class: pawl.ClassSucceeded, Code: 200, Result: json.RawMessage(a.Body), Ref: "r-1"}
	case 400:
		return pawl.Evidence{Class: pawl.ClassRejected, Strength: pawl.P3, Proof: "status_table", Code: 400}
	}
	panic("unread")
}

// permits is an executor that gives out the requests of its tool.
func (h *house) permits() *pawl.Executor {
	h.t.Helper()
	ex := pawl.New(h.store, &pawl.Options{Worker: "w", SweepEvery: time.Minute})
	if err := ex.Register(&pawl.Tool{Contract: h.contract, Port: givenOut{h.provider}}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { stop(ex) })
	return ex
}

func (h *house) permit(ex *pawl.Executor, c pawl.Call) (*pawl.Permit, pawl.Envelope) {
	h.t.Helper()
	p, env, err := ex.Permit(context.Background(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return p, env
}

func (h *house) mustPermit(ex *pawl.Executor, c pawl.Call) *pawl.Permit {
	h.t.Helper()
	p, env := h.permit(ex, c)
	if p == nil || env.Status != pawl.Pending || env.OperationID != p.Operation.String() {
		h.t.Fatalf("got %+v with %s (%s), want a permit of a PENDING operation", p, env.Status, env.Reason)
	}
	return p
}

func (h *house) report(ex *pawl.Executor, p *pawl.Permit, r pawl.PermitReport) pawl.Envelope {
	h.t.Helper()
	r.Attempt, r.Token = p.Attempt, p.Token
	env, err := ex.ReportPermit(context.Background(), "", "", p.Operation, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return env
}

func ok() *pawl.Answer { return &pawl.Answer{Status: 200, Body: []byte(`{"id":"r-1"}`)} }

func TestPermitAndReport(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.permits()
		p := h.mustPermit(ex, call(nil))
		op := h.operation()
		if p.Attempt != 1 || p.Key != op.Key || string(p.Request) != string(op.Request) || p.Header["Not-After"] == "" || !p.Deadline.After(time.Now()) {
			t.Errorf("got %+v, want the first attempt with key, stored request, headers and deadline", p)
		}
		// A repeat waits for the report, and sends nothing.
		waiting := make(chan pawl.Envelope)
		go func() {
			env, err := ex.Do(context.Background(), call(nil))
			if err != nil {
				t.Error(err)
			}
			waiting <- env
		}()
		env := h.report(ex, p, pawl.PermitReport{Answer: ok()})
		h.want(env, "SUCCEEDED confirmed reported", 0)
		h.want(<-waiting, "SUCCEEDED confirmed *", 0)
		if string(env.Result) != `{"id":"r-1"}` {
			t.Errorf("got result %s, want the reported one", env.Result)
		}
		// What is done is told, and no permit is given.
		if again, env := h.permit(ex, call(nil)); again != nil || env.Status != pawl.Succeeded || env.ActionTaken != pawl.Replayed {
			t.Errorf("got %+v, %s, want the first outcome and no permit", again, env.Status)
		}
	})
}

// A report of a refusal, of nothing sent, and of no answer.
func TestPermitOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		report pawl.PermitReport
		want   string
		again  bool
	}{
		{"refused", pawl.PermitReport{Answer: &pawl.Answer{Status: 400}}, "FAILED_NO_EFFECT rejected reported", false},
		{"not sent", pawl.PermitReport{NotSent: true}, "FAILED_NO_EFFECT not_sent reported", true},
		{"no answer", pawl.PermitReport{Error: "reset"}, "UNKNOWN review_open reported", false},
		{"an answer and not sent", pawl.PermitReport{Answer: &pawl.Answer{Status: 500}, NotSent: true}, "UNKNOWN review_open reported", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
				ex := h.permits()
				p := h.mustPermit(ex, call(nil))
				h.want(h.report(ex, p, c.report), c.want, 0)
				again, _ := h.permit(ex, call(nil))
				if (again != nil) != c.again {
					t.Fatalf("got a second permit %+v, want one: %v", again, c.again)
				}
				if again != nil && (again.Attempt != 2 || again.Key != p.Key) {
					t.Errorf("got %+v, want attempt 2 under the same key", again)
				}
			})
		})
	}
}

// Without a declared pause nothing is concluded and nothing is sent again, however long
// everybody waits: a person is asked. With a pause, or a not-after, the ladder is climbed.
func TestCallersPauseHasNoBound(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*pawl.Contract)
		want string // how it is settled by itself; "" where it is left to a person
	}{
		{"keyed", func(c *pawl.Contract) { c.Probe = nil }, ""},
		{"keyed, pause declared", func(c *pawl.Contract) { c.Probe, c.Pause = nil, time.Minute }, "SUCCEEDED resend"},
		{"keyed, not-after", func(c *pawl.Contract) { c.Probe, c.NotAfter = nil, time.Minute }, "SUCCEEDED resend"},
		{"keyed, not-after beyond the key's life", func(c *pawl.Contract) { c.Probe, c.NotAfter = nil, 48*time.Hour }, ""},
		{"absent", negative, ""},
		{"absent, pause declared", func(c *pawl.Contract) { negative(c); c.Pause = time.Minute }, "FAILED_NO_EFFECT probe"},
		{"absent, not-after", func(c *pawl.Contract) { negative(c); c.NotAfter = time.Minute }, "FAILED_NO_EFFECT probe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, c.edit, func(h *house) {
				ex := h.permits()
				h.mustPermit(ex, call(nil)) // and nothing is ever heard of its caller
				ex.Start()
				time.Sleep(3 * 24 * time.Hour)
				op := h.operation()
				got := ""
				if op.Status.Settled() {
					got = string(op.Status) + " " + string(op.SettledBy)
				}
				if got != c.want || c.want == "" && (op.Status != pawl.Unknown || op.Review.IsZero()) {
					t.Errorf("got %s, by %q, review %v, want %q", op.Status, op.SettledBy, op.Review, c.want)
				}
			})
		})
	}
}

// negative makes the tool one whose probe's no is proof, and that is never sent again.
func negative(c *pawl.Contract) {
	c.Class, c.Retention, c.Probe = pawl.Unsafe, 0, &pawl.ProbeTerms{NegativeProof: true}
}

// A report that comes when nobody waits any more: proof of the effect settles, anything else
// is kept and decides nothing.
func TestLateReports(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		ex := h.permits()
		other := call(func(c *pawl.Call) { c.Args = []byte(`{"order_id":"B-2"}`) })
		first := h.mustPermit(ex, call(nil))
		second := h.mustPermit(ex, other)
		time.Sleep(2 * time.Minute)
		h.want(h.report(ex, first, pawl.PermitReport{Answer: ok()}), "SUCCEEDED late_news reported", 0)
		_, err := ex.ReportPermit(context.Background(), "", "", second.Operation, pawl.PermitReport{Attempt: 1, Token: second.Token, NotSent: true})
		var refused *pawl.Refusal
		if !errors.As(err, &refused) || refused.Why != pawl.RefusedStatus {
			t.Errorf("got %v, want a refusal: the attempt has ended in doubt", err)
		}
	})
}

// Nobody reports on what pawl sent, on another actor's operation, or on an attempt that was
// never permitted; and nobody sends what the other began.
func TestPermitsAreTheirOwn(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.permits()
		p := h.mustPermit(ex, call(nil))
		report := func(actor string, id pawl.ID, attempt int) error {
			_, err := ex.ReportPermit(context.Background(), "", actor, id, pawl.PermitReport{Attempt: attempt, Token: p.Token, Answer: ok()})
			return err
		}
		h.provider.script = []string{"unsent", "unsent", "unsent"}
		other := call(func(c *pawl.Call) { c.Args = []byte(`{"order_id":"B-2"}`) })
		env := h.do(ex, other)
		sent, err := pawl.ParseID(env.OperationID)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			got  error
			want error
		}{
			{"another actor", report("mallory", p.Operation, 1), pawl.ErrNotFound},
			{"another operation", report("", pawl.ID{1}, 1), pawl.ErrNotFound},
			{"an attempt that is not", report("", p.Operation, 2), pawl.ErrNoPermit},
			{"attempt 0", report("", p.Operation, 0), pawl.ErrNoPermit},
			{"what pawl sent", report("", sent, 1), pawl.ErrNoPermit},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
			}
		}
		if given, env := h.permit(ex, other); given != nil {
			t.Errorf("got a permit for what pawl sends, with %s", env.Status)
		}
		h.report(ex, p, pawl.PermitReport{NotSent: true})
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT not_sent replayed", 0)
	})
}

func TestNoPermits(t *testing.T) {
	play(t, nil, func(h *house) {
		if _, _, err := h.executor(nil).Permit(context.Background(), call(nil)); !errors.Is(err, pawl.ErrNoPermits) {
			t.Errorf("a port that is no Delegate: got %v, want %v", err, pawl.ErrNoPermits)
		}
		p, env := h.permit(h.permits(), call(func(c *pawl.Call) { c.Tool = "none" }))
		if p != nil || env.Reason != pawl.ReasonUnknownTool {
			t.Errorf("got %+v, %s, want an unknown tool", p, env.Reason)
		}
	})
}

// An executor that stops records a permit whose caller has not reported as UNKNOWN.
func TestStopWithAPermitOut(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.permits()
		h.mustPermit(ex, call(nil))
		stop(ex)
		if op := h.operation(); op.Status != pawl.Unknown || op.Attempts[0].NoEffect {
			t.Errorf("got %s, %+v, want UNKNOWN", op.Status, op.Attempts)
		}
	})
}
