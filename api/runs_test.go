package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// tripTools are a hotel that can be cancelled, a flight that is refused and an e-mail.
func tripTools() []*pawl.Tool {
	id := []pawl.Field{pawl.Text("id")}
	done := func(_ context.Context, in map[string]any) (map[string]any, error) {
		return map[string]any{"booking": in["id"]}, nil
	}
	return []*pawl.Tool{
		pawl.NewFunc(pawl.Contract{Tool: "book_hotel", Identity: id, Compensation: &pawl.CompensationTerms{Tool: "cancel_hotel"}}, done,
			&pawl.FuncOptions{Compensation: func(op *pawl.Operation) (json.RawMessage, error) { return op.Args, nil }}),
		pawl.NewFunc(pawl.Contract{Tool: "cancel_hotel", Identity: id}, done, nil),
		pawl.NewFunc(pawl.Contract{Tool: "send_email", Identity: id, Irreversible: true, Corrective: "send a correction"}, done, nil),
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.tools = tripTools() })
	s.ex.Start()
	const plan = `{"steps":[{"step":"1","tool":"book_hotel","may_fail":true},{"step":"2","tool":"send_email"}]}`
	s.do(t, "POST", "/v1/runs/trip/plan", `{"steps":[{"step":"1","tool":"send_email"},{"step":"2","tool":"book_hotel","may_fail":true}]}`).wants(t, 409, Code(pawl.PlanIrreversible))
	s.do(t, "POST", "/v1/runs/trip/plan", `{"steps":[{"step":"1","tool":"train"}]}`).wants(t, 409, Code(pawl.PlanInvalid))
	s.do(t, "POST", "/v1/runs/trip/plan", `{"steps":[]}`).wants(t, 422, CodeInvalidRequest)
	for range 2 {
		var r Run
		s.do(t, "POST", "/v1/runs/trip/plan", plan).into(t, 200, &r)
		if r.Run != "trip" || r.Status != pawl.RunOpen || len(r.Steps) != 2 || !r.Steps[1].Irreversible {
			t.Errorf("got %+v, want the plan with an irreversible step", r)
		}
	}
	s.do(t, "POST", "/v1/runs/trip/plan", `{"steps":[{"step":"1","tool":"book_hotel"}]}`).wants(t, 409, Code(pawl.PlanLate))
	if env := s.call(t, `{"tool":"send_email","run":"trip","step":"9","args":{"id":"x"}}`); env.Reason != pawl.ReasonNotInPlan {
		t.Errorf("a step that is not planned: got %s", env.Reason)
	}
	s.call(t, `{"tool":"book_hotel","run":"trip","step":"1","args":{"id":"h"}}`)
	s.call(t, `{"tool":"send_email","run":"trip","step":"2","args":{"id":"m"}}`)
	s.do(t, "POST", "/v1/runs/trip/abort", `{"why":"off"}`).wants(t, 422, CodeInvalidRequest)
	s.do(t, "POST", "/v1/runs/trip/abort", `{"why":" ","who":"ana"}`).wants(t, 422, CodeInvalidRequest)
	var report RunReport
	s.do(t, "POST", "/v1/runs/trip/abort", `{"why":"off","who":"ana"}`).into(t, 200, &report)
	for end := time.Now().Add(20 * time.Second); report.Status != pawl.RunAborted; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the run is still %s: %s", report.Status, report.Message)
		}
		s.do(t, "GET", "/v1/runs/trip", "").into(t, 200, &report)
	}
	var got []string
	for _, i := range report.Items {
		got = append(got, fmt.Sprintf("%s %s %s %s", i.Tool, i.Status, i.Outcome, i.Corrective))
	}
	if want := []string{"book_hotel COMPENSATED undone ", "send_email SUCCEEDED not_undoable send a correction"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if env := s.call(t, `{"tool":"book_hotel","run":"trip","step":"1","args":{"id":"h"}}`); env.Reason != pawl.ReasonRunAborted || env.RetrySafe {
		t.Errorf("a call of the run: got %s %s", env.Status, env.Reason)
	}
	s.do(t, "GET", "/v1/runs/none", "").wants(t, 404, CodeNotFound)
	odd := "/v1/runs/" + url.PathEscape("a/b c")
	s.do(t, "POST", odd+"/abort", `{"why":"off","who":"ana"}`).into(t, 200, &report)
	if report.Run.Run != "a/b c" || len(report.Items) != 0 {
		t.Errorf("got %+v, want the empty run by its own id", report)
	}
	s.do(t, "GET", "/v1/runs/"+strings.Repeat("x", 257), "").wants(t, 422, CodeInvalidRequest)
}

func TestRunPages(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.tools = tripTools() })
	var want []string
	for i := range 5 {
		s.call(t, fmt.Sprintf(`{"tool":"send_email","run":"run-%d","args":{"id":"%d"}}`, i, i))
		want = append([]string{fmt.Sprint("run-", i)}, want...)
	}
	var got []string
	for before := ""; ; {
		var page struct {
			Runs []Run
			Next string
		}
		s.do(t, "GET", "/v1/runs?limit=2"+before, "").into(t, 200, &page)
		for _, r := range page.Runs {
			got = append(got, r.Run)
		}
		if page.Next == "" {
			break
		}
		before = "&before=" + url.QueryEscape(page.Next)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r := s.do(t, "GET", "/v1/runs?status=aborting", ""); strings.TrimSpace(r.body) != `{"runs":[]}` {
		t.Errorf("got %s, want none", r.body)
	}
}

// TestRunsOfOthers: a run is its actor's, and of those who settle.
func TestRunsOfOthers(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) {
		set.api.Authenticate = people().authenticate
		set.tools = tripTools()
	})
	ana, ben, cleo, eve := s.as("ana"), s.as("ben"), s.as("cleo"), s.as("eve")
	ana.call(t, `{"tool":"send_email","run":"r","step":"1","args":{"id":"canary"}}`)
	ben.call(t, `{"tool":"send_email","run":"r","step":"2","args":{"id":"ben's"}}`)
	eve.do(t, "GET", "/v1/runs/r", "").wants(t, 404, CodeNotFound)
	ben.do(t, "GET", "/v1/runs/r", "").wants(t, 403, CodeOtherActor)
	ben.do(t, "POST", "/v1/runs/r/abort", `{"why":"off"}`).wants(t, 403, CodeOtherActor)
	ben.do(t, "POST", "/v1/runs/r/plan", `{"steps":[{"step":"1","tool":"send_email"}]}`).wants(t, 403, CodeOtherActor)
	if r := ben.do(t, "GET", "/v1/runs", ""); strings.Contains(r.body, `"r"`) {
		t.Errorf("another actor's list: got %s", r.body)
	}
	var report RunReport
	ana.do(t, "GET", "/v1/runs/r", "").into(t, 200, &report)
	if len(report.Items) != 2 || report.Items[0].Effect == "" || report.Items[1].Effect != "" || report.Items[1].Status != pawl.Succeeded {
		t.Errorf("got %+v, want of another actor's operation the status alone", report.Items)
	}
	cleo.do(t, "GET", "/v1/runs/r", "").into(t, 200, &report)
	if len(report.Items) != 2 || report.Items[1].Effect == "" {
		t.Errorf("who settles: got %+v, want all of it", report.Items)
	}
	ana.do(t, "POST", "/v1/runs/r/abort", `{"why":"off","who":"ben"}`).wants(t, 403, CodeOtherActor)
	ana.do(t, "POST", "/v1/runs/r/abort", `{"why":"off"}`).into(t, 200, &report)
	if report.Abort == nil || report.Abort.Who != "ana" {
		t.Errorf("got %+v, want it called off by the token's actor", report.Abort)
	}
}
