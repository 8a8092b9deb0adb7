package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// permitted is what a request for a permit is answered with.
type permitted struct {
	Permit   *Permit
	Envelope pawl.Envelope
}

const refundCall = `{"tool":"issue_refund","run":"r","step":"1","args":{"order_id":"A-1182","amount":49.9,"currency":"eur"}}`

func (c *client) permit(t *testing.T, body string) permitted {
	t.Helper()
	var p permitted
	c.do(t, "POST", "/v1/permits", body).into(t, http.StatusOK, &p)
	return p
}

// send makes a permit's request as it is, as the caller's own client would.
func (p *Permit) send(t *testing.T) (status int, header http.Header, body string) {
	t.Helper()
	head, body, _ := strings.Cut(p.Request, "\n\n")
	first, fields, _ := strings.Cut(head, "\n")
	method, url, _ := strings.Cut(first, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.Lines(fields) {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Set(name, strings.TrimSpace(value))
	}
	for name, value := range p.Header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(raw)
}

func TestPermits(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	p := s.permit(t, refundCall).Permit
	if p == nil || p.Attempt != 1 || !strings.Contains(p.Request, p.Key) || time.Until(p.Deadline) <= 0 {
		t.Fatalf("got %+v, want a permit with the key in its request and time left", p)
	}
	s.effects(t, 0)
	status, header, body := p.send(t)
	s.effects(t, 1)
	report := func(outcome, more string) reply {
		t.Helper()
		body := fmt.Sprintf(`{"attempt":%d,"token":%q,"outcome":%q%s}`, p.Attempt, p.Token, outcome, more)
		return s.do(t, "POST", "/v1/permits/"+p.OperationID+"/report", body)
	}
	report("answer", "").wants(t, 422, CodeInvalidRequest)
	report("no_answer", `,"answer":{"status":200}`).wants(t, 422, CodeInvalidRequest)
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var env pawl.Envelope
	report("answer", fmt.Sprintf(`,"answer":{"status":%d,"header":{"Content-Type":%q},"body":%s}`, status, header.Get("Content-Type"), text)).into(t, 200, &env)
	wantEnvelope(t, env, pawl.Succeeded, pawl.ReasonConfirmed, pawl.Reported)
	if env.ResultRef == "" || env.OperationID != p.OperationID {
		t.Errorf("got %+v, want the provider's id in the result", env)
	}
	if again := s.permit(t, refundCall); again.Permit != nil {
		t.Errorf("got %+v, want no permit for what is done", again.Permit)
	} else {
		wantEnvelope(t, again.Envelope, pawl.Succeeded, pawl.ReasonConfirmed, pawl.Replayed)
	}
	report("not_sent", "").wants(t, 409, Code(pawl.RefusedStatus))
	s.effects(t, 1)
}

func TestPermitsNotSentAndRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	first := s.permit(t, refundCall).Permit
	report := func(p *Permit, rest string) reply {
		t.Helper()
		return s.do(t, "POST", "/v1/permits/"+p.OperationID+"/report", fmt.Sprintf(`{"attempt":%d,"token":%q,%s}`, p.Attempt, p.Token, rest))
	}
	var env pawl.Envelope
	report(first, `"outcome":"not_sent","error":"no route"`).into(t, 200, &env)
	wantEnvelope(t, env, pawl.FailedNoEffect, pawl.ReasonNotSent, pawl.Reported)
	second := s.permit(t, refundCall).Permit
	if second == nil || second.Attempt != 2 || second.Key != first.Key || second.OperationID != first.OperationID {
		t.Fatalf("got %+v, want the next attempt of the same operation", second)
	}
	wrong := *second
	wrong.Attempt = 3
	report(&wrong, `"outcome":"not_sent"`).wants(t, 409, CodeNoPermit)
	report(second, `"outcome":"answer","answer":{"status":503,"body":"<html>"}`).into(t, 200, &env)
	if env.Status != pawl.Unknown {
		t.Errorf("got %s (%s), want UNKNOWN after a 503", env.Status, env.Reason)
	}
	// What pawl sent is nobody's to report, and a tool that was never begun has no permit.
	sent := s.call(t, strings.Replace(refundCall, "A-1182", "B-2", 1))
	s.do(t, "POST", "/v1/permits/"+sent.OperationID+"/report", `{"attempt":1,"token":"1","outcome":"not_sent"}`).wants(t, 409, CodeNoPermit)
	s.do(t, "POST", "/v1/permits/op_"+strings.Repeat("0", 32)+"/report", `{"attempt":1,"token":"1","outcome":"not_sent"}`).wants(t, 404, CodeNotFound)
	s.do(t, "POST", "/v1/permits/"+sent.OperationID+"/report", `{"attempt":1,"token":"99999999999999999999","outcome":"not_sent"}`).wants(t, 422, CodeInvalidRequest)
	refused := s.permit(t, `{"tool":"none","args":{}}`)
	wantEnvelope(t, refused.Envelope, pawl.FailedNoEffect, pawl.ReasonUnknownTool, pawl.Refused)
}

// A tool whose requests pawl alone can send gives none out.
func TestNoPermitsForFunctions(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) {
		do := func(context.Context, struct{}) (string, error) { return "", nil }
		set.tools = []*pawl.Tool{pawl.NewFunc(pawl.Contract{Tool: "do", IdentityNone: true}, do, nil)}
	})
	s.do(t, "POST", "/v1/permits", `{"tool":"do","run":"r","args":{}}`).wants(t, 409, CodeNoPermits)
}
