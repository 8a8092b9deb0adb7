package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Limits of the administration.
const (
	maxRows   = 10_000
	maxAwait  = 45 * time.Second // less than the server's time to write
	awaitTime = 10 * time.Second
)

// admin serves /admin.
func (s *Sandbox) admin() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, serve func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.adminAnswer(w, r, serve) })
	}
	route("GET /admin/ledger", s.getLedger)
	route("DELETE /admin/ledger", s.deleteLedger)
	route("GET /admin/requests", s.getRequests)
	route("GET /admin/modes", s.getModes)
	route("PUT /admin/modes", s.putModes)
	route("GET /admin/clock", s.getClock)
	route("POST /admin/clock", s.postClock)
	route("GET /admin/faults", s.getFaults)
	route("POST /admin/faults", s.postFault)
	route("DELETE /admin/faults", s.deleteFaults)
	route("GET /admin/held", s.getHeld)
	route("POST /admin/release", s.postRelease)
	route("POST /admin/seed", s.postSeed)
	route("/admin/", func(*http.Request) (any, error) {
		return nil, &problem{Status: 404, Code: "no_endpoint", Message: "no such method and path; docs/sandbox.md lists them"}
	})
	// A page in somebody's browser may not drive a sandbox on the same machine.
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeAnswer(w, (&problem{Status: 403, Code: "cross_origin", Message: "a page of another origin may not administer"}).answer())
	}))
	guarded := guard.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.admitted(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeAnswer(w, (&problem{Status: 401, Code: "unauthorized", Message: "want the admin token as Authorization: Bearer"}).answer())
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func (s *Sandbox) admitted(r *http.Request) bool {
	if s.adminToken == "" {
		return true
	}
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.adminToken))
	return isBearer && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// adminAnswer maps what an endpoint returns to an answer.
func (s *Sandbox) adminAnswer(w http.ResponseWriter, r *http.Request, serve func(r *http.Request) (any, error)) {
	v, err := serve(r)
	var p *problem
	switch {
	case errors.As(err, &p):
		writeAnswer(w, p.answer())
		return
	case err != nil:
		s.log.Error("admin request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		writeAnswer(w, (&problem{Status: 500, Code: "ledger_failed", Message: "the sandbox's ledger failed; its log says why"}).answer())
		return
	}
	if t, ok := v.(table); ok && acceptsText(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = t.writeText(w) // the client may have gone
		return
	}
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("sandbox: admin answer does not marshal: " + err.Error()) // every answer is plain data
	}
	writeAnswer(w, answer{status: 200, body: append(body, '\n')})
}

func writeAnswer(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have gone
}

func acceptsText(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Accept"))
	return err == nil && media == "text/plain"
}

// readBody reads a strict JSON body into v, whose JSON knows every field.
func readBody(r *http.Request, v any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &problem{Status: 415, Code: "unsupported_media_type", Message: "want Content-Type: application/json"}
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return invalid("body", "it did not arrive whole")
	}
	if _, err := pawl.ParseJSON(raw); err != nil {
		return invalid("body", "%v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return invalid("body", "%v", err)
	}
	return nil
}

// effectList is the answer of GET /admin/ledger.
type effectList struct {
	Effects []Effect `json:"effects"`
	// Next is what ?after= continues with, or 0 where this is all.
	Next int64 `json:"next,omitempty"`
}

func (s *Sandbox) getLedger(r *http.Request) (any, error) {
	f, err := readFilter(r.URL, "service", "key", "run", "step", "kind", "subject", "object_id", "pending")
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++
	list, err := s.Effects(f)
	if err != nil {
		return nil, err
	}
	out := effectList{Effects: list}
	if len(list) > limit {
		out.Effects, out.Next = list[:limit], list[limit-1].Seq
	}
	return out, nil
}

// requestList is the answer of GET /admin/requests.
type requestList struct {
	Requests []Request `json:"requests"`
	Next     int64     `json:"next,omitempty"`
}

func (s *Sandbox) getRequests(r *http.Request) (any, error) {
	f, err := readFilter(r.URL, "service", "key", "run", "step", "method")
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++
	list, err := s.Requests(f)
	if err != nil {
		return nil, err
	}
	out := requestList{Requests: list}
	if len(list) > limit {
		out.Requests, out.Next = list[:limit], list[limit-1].Seq
	}
	return out, nil
}

// readFilter reads the parameters that a listing knows, beside after and limit.
func readFilter(u *url.URL, names ...string) (Filter, error) {
	f := Filter{Limit: 1000}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return f, invalid("query", "it is not well formed")
	}
	into := map[string]*string{
		"service": &f.Service, "key": &f.Key, "run": &f.Run, "step": &f.Step, "kind": &f.Kind, "subject": &f.Subject,
		"object_id": &f.ObjectID, "method": &f.Method,
	}
	for name, values := range query {
		value := values[0]
		var err error
		switch {
		case len(values) > 1:
			return f, invalid(clip(name), "given more than once")
		case name == "after":
			f.After, err = strconv.ParseInt(value, 10, 64)
		case name == "limit":
			f.Limit, err = strconv.Atoi(value)
			if err == nil && (f.Limit < 1 || f.Limit > maxRows) {
				return f, invalid("limit", "want a number from 1 to %d", maxRows)
			}
		case !slices.Contains(names, name):
			return f, invalid(clip(name), "no such parameter; there are %s, after, limit", strings.Join(names, ", "))
		case name == "pending":
			f.Pending, err = strconv.ParseBool(value)
		default:
			*into[name] = value
		}
		if err != nil {
			return f, invalid(clip(name), "cannot be read")
		}
	}
	return f, nil
}

func (s *Sandbox) deleteLedger(r *http.Request) (any, error) {
	demo := true
	if text := r.URL.Query().Get("demo"); text != "" {
		var err error
		if demo, err = strconv.ParseBool(text); err != nil {
			return nil, invalid("demo", "want true or false")
		}
	}
	return struct{}{}, s.Reset(demo)
}

func (s *Sandbox) getModes(*http.Request) (any, error) { return s.Modes(), nil }

func (s *Sandbox) putModes(r *http.Request) (any, error) {
	var given map[string]json.RawMessage
	if err := readBody(r, &given); err != nil {
		return nil, err
	}
	current := s.Modes()
	changed := map[string]Mode{}
	for name, raw := range given {
		m, ok := current[name]
		if !ok {
			return nil, invalid(clip(name), "no such service; there are %s", strings.Join(Services(), ", "))
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, invalid(name, "%v", err)
		}
		changed[name] = m
	}
	if err := s.SetModes(changed); err != nil {
		return nil, err
	}
	return s.Modes(), nil
}

// clockState is the answer of /admin/clock.
type clockState struct {
	Now time.Time `json:"now"`
	// Advanced is how far the clock is ahead of the base clock.
	Advanced string `json:"advanced"`
}

func (s *Sandbox) getClock(*http.Request) (any, error) {
	s.clock.mu.Lock()
	offset := s.clock.offset
	s.clock.mu.Unlock()
	return clockState{Now: s.Now(), Advanced: plain(offset)}, nil
}

func (s *Sandbox) postClock(r *http.Request) (any, error) {
	var body struct {
		Advance string `json:"advance"`
	}
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(body.Advance)
	if err != nil || d < time.Millisecond || d > maxOffset {
		return nil, invalid("advance", "want a duration such as 25h")
	}
	if err := s.Advance(d); err != nil {
		return nil, err
	}
	return s.getClock(r)
}

// faultList is the answer of GET /admin/faults.
type faultList struct {
	Faults []QueuedFault `json:"faults"`
}

func (s *Sandbox) getFaults(*http.Request) (any, error) {
	list, err := s.Faults()
	return faultList{list}, err
}

func (s *Sandbox) postFault(r *http.Request) (any, error) {
	var body struct {
		Match Match  `json:"match"`
		Line  string `json:"line"`
		Times int    `json:"times"`
	}
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	seq, err := s.AddFault(QueuedFault{Match: body.Match, Line: body.Line, Times: body.Times})
	var wrong *FaultError
	switch {
	case errors.As(err, &wrong):
		return nil, faultProblem(wrong)
	case err != nil:
		return nil, err
	}
	return struct {
		Seq int64 `json:"seq"`
	}{seq}, nil
}

func (s *Sandbox) deleteFaults(*http.Request) (any, error) { return struct{}{}, s.ClearFaults() }

// heldList is the answer of GET /admin/held.
type heldList struct {
	Held []int64 `json:"held"`
}

func (s *Sandbox) getHeld(r *http.Request) (any, error) {
	query := r.URL.Query()
	if text := query.Get("count"); text != "" {
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 || count > maxHeld {
			return nil, invalid("count", "want a number from 1 to %d", maxHeld)
		}
		wait := awaitTime
		if text := query.Get("wait"); text != "" {
			if wait, err = time.ParseDuration(text); err != nil || wait <= 0 || wait > maxAwait {
				return nil, invalid("wait", "want a duration up to %s", plain(maxAwait))
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		if err := s.AwaitHeld(ctx, count); err != nil {
			return nil, &problem{Status: 408, Code: "not_held", Message: fmt.Sprintf("fewer than %d requests are held", count)}
		}
	}
	return heldList{s.Held()}, nil
}

func (s *Sandbox) postRelease(r *http.Request) (any, error) {
	var body struct {
		Request int64 `json:"request"`
	}
	if r.ContentLength != 0 {
		if err := readBody(r, &body); err != nil {
			return nil, err
		}
	}
	return struct {
		Released int `json:"released"`
	}{s.Release(body.Request)}, nil
}

func (s *Sandbox) postSeed(r *http.Request) (any, error) {
	var body struct {
		Orders []struct {
			ID       string `json:"id"`
			Customer string `json:"customer"`
			Email    string `json:"email"`
			Amount   any    `json:"amount"`
			Currency string `json:"currency"`
		} `json:"orders"`
	}
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	var orders []SeedOrder
	for _, o := range body.Orders {
		f := form{fields: map[string]any{"amount": o.Amount, "currency": o.Currency}}
		minor, currency := f.money()
		if err := f.done(); err != nil {
			return nil, err
		}
		orders = append(orders, SeedOrder{ID: o.ID, Customer: o.Customer, Email: o.Email, Amount: minor, Currency: currency})
	}
	if err := s.Seed(orders); err != nil {
		return nil, err
	}
	return struct {
		Seeded int `json:"seeded"`
	}{len(orders)}, nil
}
