package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

const refund = `{"tool":"issue_refund","run":"r","step":"1","args":{"order_id":"A-1182","amount":49.90,"currency":"EUR"}}`

// TestLostAnswer settles a refund whose answer was lost with nothing but the API.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.ex.Start()
	s.fault(t, "refunds", "reset after")
	env := s.call(t, refund)
	wantEnvelope(t, env, pawl.Succeeded, pawl.ReasonProbeFound, pawl.Executed)
	again := s.call(t, `{"tool":"issue_refund","run":"r","step":"1","args":{"order_id":"A-1182","amount":49.9,"currency":"eur","reason":"asked again"},"attributes":{"tool_call_id":"2"}}`)
	wantEnvelope(t, again, pawl.Succeeded, "", pawl.Replayed)
	if again.OperationID != env.OperationID || len(again.Differs) != 1 {
		t.Errorf("got operation %s and differs %v, want %s and the reason", again.OperationID, again.Differs, env.OperationID)
	}
	var found, status Detail
	s.do(t, "POST", "/v1/operations/find", `{"tool":"issue_refund","run":"r","step":"1","args":{"order_id":"A-1182","currency":"EUR"}}`).into(t, 200, &found)
	s.do(t, "GET", "/v1/operations/"+env.OperationID, "").into(t, 200, &status)
	if found.Operation.ID != env.OperationID || status.Operation.ID != env.OperationID || status.Operation.SettledBy != pawl.ByProbe {
		t.Errorf("got %+v and %+v, want operation %s, settled by probe", found.Operation, status.Operation, env.OperationID)
	}
	var page Page
	s.do(t, "GET", "/v1/operations?ref="+env.ResultRef+"&key="+status.Operation.Key+"&status=SUCCEEDED&run=r&tool=issue_refund", "").into(t, 200, &page)
	if len(page.Operations) != 1 || page.Next != "" {
		t.Errorf("got %+v, want the one operation", page)
	}
	s.effects(t, 1)
}

// TestUnknownIsSettledByAPerson: a mail whose answer is lost can be asked of nobody.
func TestUnknownIsSettledByAPerson(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.fault(t, "emails", "reset after")
	env := s.call(t, `{"tool":"send_email","run":"r","args":{"to":"ana@example.com"}}`)
	wantEnvelope(t, env, pawl.Unknown, "", pawl.Executed)
	path, reviewPath := "/v1/operations/"+env.OperationID, "/v1/reviews/"+env.OperationID
	var d Detail
	s.do(t, "GET", path, "").into(t, 200, &d)
	if d.Envelope.Status != pawl.Unknown || d.SafeAt.IsZero() || d.Request == "" || len(d.Attempts) != 1 {
		t.Errorf("got %+v, want the whole operation", d)
	}
	var review Page
	s.do(t, "GET", "/v1/operations?review=true&open=true", "").into(t, 200, &review)
	if len(review.Operations) != 1 || review.Operations[0].Review.IsZero() {
		t.Errorf("got %+v, want the mail in review", review)
	}
	for reason, want := range map[pawl.Reason]int{pawl.ReasonAmbiguous: 1, pawl.ReasonCandidate: 0} {
		var list struct{ Reviews []Review }
		s.do(t, "GET", "/v1/reviews?reason="+string(reason), "").into(t, 200, &list)
		var set struct{ Count int }
		s.do(t, "POST", "/v1/reviews/preview", fmt.Sprintf(`{"choice":"note","who":"ana","reason":%q}`, reason)).into(t, 200, &set)
		if len(list.Reviews) != want || set.Count != want {
			t.Errorf("reason %s: got %d and a preview of %d, want %d", reason, len(list.Reviews), set.Count, want)
		}
	}

	settle := func(version int64, rest string) reply {
		return s.do(t, "POST", reviewPath+"/decisions", fmt.Sprintf(`{"version":%d,"why":"seen in the outbox",%s}`, version, rest))
	}
	if p := settle(d.Operation.Version+7, `"choice":"happened","who":"ana"`).wants(t, 409, Code(pawl.RefusedVersion)); p.Version != d.Operation.Version {
		t.Errorf("got version %d in the problem, want the present %d", p.Version, d.Operation.Version)
	}
	settle(d.Operation.Version, `"choice":"did_not_happen","who":"ana"`).wants(t, 409, Code(pawl.RefusedEarly))
	for _, bad := range []string{
		`"choice":"happened"`, `"choice":"happened","who":" "`, `"choice":"happened","who":"ana","waiver":"x"`,
		`"choice":"did_not_happen","who":"ana","ref":"re_1"`, `"choice":"did_not_happen","who":"ana","result":{}`, `"who":"ana"`,
	} {
		settle(d.Operation.Version, bad).wants(t, 422, CodeInvalidRequest)
	}
	s.do(t, "POST", reviewPath+"/decisions", `{"version":1,"why":" ","choice":"happened","who":"ana"}`).wants(t, 422, CodeInvalidRequest)
	var settled pawl.Envelope
	settle(d.Operation.Version, `"choice":"happened","who":"ana","ref":"msg_1","result":{"id":"msg_1"}`).into(t, 200, &settled)
	wantEnvelope(t, settled, pawl.Succeeded, pawl.ReasonPerson, "")
	settle(d.Operation.Version+1, `"choice":"happened","who":"ana"`).wants(t, 409, Code(pawl.RefusedStatus))

	var history struct{ History []pawl.Entry }
	s.do(t, "GET", path+"/history", "").into(t, 200, &history)
	last := history.History[len(history.History)-1]
	var pages []pawl.Entry
	for next, rounds := int64(0), 0; rounds == 0 || next > 0; rounds++ {
		var page struct {
			History []pawl.Entry
			Next    int64
		}
		s.do(t, "GET", fmt.Sprintf("%s/history?limit=1&after=%d", path, next), "").into(t, 200, &page)
		pages, next = append(pages, page.History...), page.Next
	}
	if len(pages) != len(history.History) || len(pages) < 2 || pages[len(pages)-1].Seq != last.Seq {
		t.Errorf("got %d entries page by page, want the %d of the whole", len(pages), len(history.History))
	}
	s.do(t, "GET", path+"/history?after=99", "").into(t, 200, &history)
	if len(history.History) != 0 {
		t.Errorf("got %d entries after the last, want none", len(history.History))
	}
	if last.Decision == nil || last.Decision.Who != "ana" || last.By != "person ana" {
		t.Errorf("got last entry %+v, want ana's decision", last)
	}
	s.effects(t, 1)
}

// TestHangUp: a caller that goes away changes nothing. The attempt goes on, and the same
// call later attaches to it.
func TestHangUp(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.fault(t, "refunds", "hold after")
	ctx, hangUp := context.WithCancel(t.Context())
	r := s.request(t, "POST", "/v1/calls", refund).WithContext(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultTransport.RoundTrip(r)
		gone <- err
	}()
	s.held(t)
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a caller that went away", err)
	}
	attached := make(chan pawl.Envelope, 1)
	go func() { attached <- s.call(t, refund) }()
	s.box.Release(0)
	env := <-attached
	if env.Status != pawl.Succeeded || env.ActionTaken == pawl.Executed {
		t.Errorf("got %s %s, want SUCCEEDED of the first call's attempt", env.Status, env.ActionTaken)
	}
	s.effects(t, 1)
}

// TestHungUpTurnGoesOn: the turn of a caller that went away does what is left of it.
func TestHungUpTurnGoesOn(t *testing.T) {
	t.Parallel()
	tried, answer := make(chan struct{}, 2), make(chan error, 2)
	do := func(context.Context, nothing) (nothing, error) {
		tried <- struct{}{}
		return nothing{}, <-answer
	}
	s := open(t, func(set *setting) {
		set.tools = []*pawl.Tool{pawl.NewFunc(pawl.Contract{Tool: "do", Identity: []pawl.Field{pawl.Text("id")}}, do, nil)}
	})
	ctx, hangUp := context.WithCancel(t.Context())
	r := s.request(t, "POST", "/v1/calls", `{"tool":"do","run":"r","args":{"id":"A"}}`).WithContext(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultTransport.RoundTrip(r)
		gone <- err
	}()
	<-tried
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a caller that went away", err)
	}
	time.Sleep(50 * time.Millisecond) // for the server to notice, if it wants to
	answer <- pawl.NotSent(errors.New("not yet"))
	select {
	case <-tried: // again, by itself
	case <-time.After(10 * time.Second):
		t.Fatal("the turn ended with its caller")
	}
	answer <- nil
	wantEnvelope(t, s.call(t, `{"tool":"do","run":"r","args":{"id":"A"}}`), pawl.Succeeded, "", "")
}

type nothing struct{}

// TestRefusalsAreEnvelopes: a call that is refused is answered, not failed.
func TestRefusalsAreEnvelopes(t *testing.T) {
	t.Parallel()
	id := []pawl.Field{pawl.Text("id")}
	do := func(context.Context, nothing) (nothing, error) { return nothing{}, nil }
	not := func(context.Context, nothing) (nothing, error) { return nothing{}, pawl.NotSent(errors.New("no")) }
	lost := func(context.Context, nothing) (nothing, error) { return nothing{}, errors.New("lost") }
	bad := func(context.Context, nothing) (nothing, error) { return nothing{}, pawl.Rejected(errors.New("no")) }
	s := open(t, func(set *setting) {
		set.tools = []*pawl.Tool{
			pawl.NewFunc(pawl.Contract{Tool: "do", Identity: id}, do, nil),
			pawl.NewFunc(pawl.Contract{Tool: "explicit", Identity: id, Repeat: pawl.RepeatExplicit}, do, nil),
			pawl.NewFunc(pawl.Contract{Tool: "family", Identity: id, Scope: pawl.ScopeParentRun}, do, nil),
			pawl.NewFunc(pawl.Contract{Tool: "not", Identity: id, MaxAttempts: 1}, not, nil),
			pawl.NewFunc(pawl.Contract{Tool: "again", Identity: id, AfterRejection: pawl.AfterRejectionNewGeneration, MaxGenerations: 1}, bad, nil),
			pawl.NewFunc(pawl.Contract{Tool: "lost", Identity: append(id, pawl.Text("n")), Serialize: []string{"id"}}, lost, nil),
			pawl.NewFunc(pawl.Contract{Tool: "read", Class: pawl.Read}, bad, nil),
		}
	})
	call := func(tool, rest string) pawl.Envelope {
		return s.call(t, fmt.Sprintf(`{"tool":%q,%s}`, tool, rest))
	}
	for _, first := range []string{"do", "explicit", "again"} {
		call(first, `"run":"r","step":"1","args":{"id":"A","n":1}`)
	}
	call("lost", `"run":"r","step":"1","args":{"id":"A","n":"1"}`)
	for _, c := range []struct {
		reason pawl.Reason
		tool   string
		rest   string
	}{
		{pawl.ReasonUnknownTool, "none", `"run":"r"`},
		{pawl.ReasonInvalidArguments, "do", `"run":"r","args":{"id":{}}`},
		{pawl.ReasonIdentityMissing, "do", `"run":"r","args":{}`},
		{pawl.ReasonIdentityMissing, "do", `"run":"r"`},
		{pawl.ReasonRunRequired, "do", `"args":{"id":"A"}`},
		{pawl.ReasonRunRequired, "family", `"run":"r","args":{"id":"A"}`},
		{pawl.ReasonDeadline, "do", `"run":"r","step":"9","args":{"id":"B"},"deadline_ms":50`},
		{pawl.ReasonParameterMismatch, "do", `"run":"r","step":"1","args":{"id":"A","n":2}`},
		{pawl.ReasonDoneElsewhere, "explicit", `"run":"r","step":"2","args":{"id":"A","n":1}`},
		{pawl.ReasonAttempts, "not", `"run":"r","step":"1","args":{"id":"A"}`},
		{pawl.ReasonGenerations, "again", `"run":"r","step":"1","args":{"id":"A","n":1}`},
		{pawl.ReasonSubjectBusy, "lost", `"run":"r","step":"2","args":{"id":"A","n":"2"},"deadline_ms":3500`},
		{pawl.ReasonRead, "read", `"args":{}`},
	} {
		env := call(c.tool, c.rest)
		if env.Reason != c.reason {
			t.Errorf("%s %s: got %s (%s), want %s", c.tool, c.rest, env.Status, env.Reason, c.reason)
		}
	}
	env := call("explicit", `"run":"r","step":"3","again":true,"args":{"id":"A","n":1}`)
	wantEnvelope(t, env, pawl.Succeeded, pawl.ReasonConfirmed, pawl.Executed)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.ex.Stop(ctx)
	env = call("do", `"run":"r","step":"8","args":{"id":"C"}`)
	wantEnvelope(t, env, pawl.FailedNoEffect, pawl.ReasonStopping, pawl.Refused)
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	env = call("do", `"run":"r","step":"9","args":{"id":"C"}`)
	if env.Reason != pawl.ReasonStore && env.Reason != pawl.ReasonStopping {
		t.Errorf("without a store: got %s (%s), want store or stopping", env.Status, env.Reason)
	}
	s.do(t, "GET", "/v1/operations", "").wants(t, 503, CodeUnavailable)
	s.do(t, "GET", "/readyz", "").wants(t, 503, CodeUnavailable)
	s.do(t, "GET", "/healthz", "").into(t, 200, &json.RawMessage{})
}

// TestDeadline: the turn ends when the caller says, not when the server would like to.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.fault(t, "emails", "hold after")
	began := time.Now()
	env := s.call(t, `{"tool":"send_email","run":"r","args":{"to":"ana@example.com"},"deadline_ms":3600}`)
	wantEnvelope(t, env, pawl.Unknown, pawl.ReasonNoAnswer, pawl.Executed)
	if took := time.Since(began); took > 3600*time.Millisecond {
		t.Errorf("the answer took %v, want it inside 3.6s", took)
	}
}
