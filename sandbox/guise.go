package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A guise is one operation of a well-known provider as the sandbox plays it: that
// provider's path, place of the key, statuses, bodies and codes, on the same ledger, keys,
// faults and clock as the services. It is written from what the provider documents and
// knows nothing of the preset that is tried against it. Its service is its name, and its
// requests go to /as/ and the provider.
type guise struct {
	// name is that of the preset: PROVIDER/OPERATION.
	name string
	// base is where the provider begins; empty means /as/PROVIDER.
	base string
	// method, path and asks say which requests are the operation; asks is nil where method
	// and path are enough.
	method, path string
	asks         func(r *http.Request, body []byte) bool
	// form: bodies are forms and not JSON.
	form bool
	mode Mode
	// prefix begins the ids of objects.
	prefix string
	// found names what lists can be filtered by: it returns the terms of a request's object.
	found func(path string, fields map[string]any) []term
	// done answers with an object, failed with what went wrong.
	done   func(o *played) reply
	failed func(f failing) reply
	// replayed is the header of a recorded answer: name and value, or nothing.
	replayed [2]string
	reads    []guiseRead
}

// guiseRead is a read of a guise's objects.
type guiseRead struct {
	method, path string
	asks         func(r *http.Request, body []byte) bool
	// terms selects the objects.
	terms func(q *guiseQuery) []term
	// shows answers with the objects that were found, newest last.
	shows func(found []*played, more bool) reply
}

// guiseQuery is what a read asks with.
type guiseQuery struct {
	path   string // the value of {id}
	query  url.Values
	fields map[string]any
}

// played is an object that a guise made.
type played struct {
	ID string `json:"id"`
	// Status is done; readers see pending until it lands, and failed if it never does.
	Status    string         `json:"status"`
	Key       string         `json:"key,omitempty"`
	Path      string         `json:"path,omitempty"`
	Fields    map[string]any `json:"fields"`
	CreatedAt time.Time      `json:"created_at"`
	// first is whether the answer is that of the first request, not the latest state.
	first bool
}

// text is a field as text, or empty.
func (o *played) text(name string) string { return textOf(o.Fields, name) }

// failing is why a guise refuses or fails: the code of the sandbox's own problem.
type failing struct {
	status   int
	code     string
	message  string
	resource string
}

// reply is an answer in a provider's words.
type reply struct {
	status int
	header map[string]string
	body   any    // JSON, or
	text   string // as it is
}

// Guises lists the operations of providers that the sandbox plays, by the names of their
// presets.
func Guises() []string {
	var names []string
	for _, g := range guises() {
		names = append(names, g.name)
	}
	return names
}

func guises() []*guise { return slices.Concat(paymentGuises(), messageGuises(), cloudGuises()) }

// known reports whether a name is that of a service or a guise.
func known(service string) bool {
	return slices.Contains(Services(), service) || slices.Contains(Guises(), service)
}

// keys is a mode that is changed to what a provider documents.
func keys(change func(m *Mode)) Mode {
	m := honoured()
	change(&m)
	return m
}

// noKeys is the mode of an operation that takes none.
func noKeys(lag time.Duration) Mode {
	return keys(func(m *Mode) { m.Keys, m.Lag = KeysIgnored, lag })
}

// guiseEndpoints are the endpoints of every guise.
func guiseEndpoints() []endpoint {
	var eps []endpoint
	for _, g := range guises() {
		base := g.base
		if base == "" {
			provider, _, _ := strings.Cut(g.name, "/")
			base = "/as/" + provider
		}
		eps = append(eps, endpoint{service: g.name, method: g.method, path: base + g.path, act: g.act, creates: true, guise: g, asks: g.asks})
		for _, r := range g.reads {
			eps = append(eps, endpoint{service: g.name, method: r.method, path: base + r.path, guise: g, guiseRead: &r, asks: r.asks})
		}
	}
	return eps
}

// act makes an object of whatever the request says; a field whose text begins with
// "declined" is refused.
func (g *guise) act(w *work) (*result, error) {
	for name, v := range w.form.fields {
		if s, ok := v.(string); ok && strings.HasPrefix(s, "declined") {
			return nil, rejected(402, "declined", "%s was declined; nothing was done", clip(name))
		}
	}
	id, err := nextID(w.tx, g.prefix)
	if err != nil {
		return nil, err
	}
	o := &played{ID: id, Status: "done", Key: w.key, Path: w.id, Fields: w.form.fields, CreatedAt: w.now}
	var terms []term
	if g.found != nil {
		terms = g.found(w.id, o.Fields)
	}
	return w.create(g.name, id, g.name, w.id, 0, "", o, terms)
}

// lookGuise answers a read of a guise in the sandbox's own form; dressed puts it into the
// provider's.
func (x *exchange) lookGuise(now time.Time) ([]byte, error) {
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "it is not well formed")
	}
	p := page{Data: []json.RawMessage{}}
	if !x.absent {
		terms := x.ep.guiseRead.terms(&guiseQuery{x.r.PathValue("id"), query, x.fields})
		if p, err = listObjects(x.s.ledger.reads, now, x.ep.service, x.s.mode(x.ep.service), terms, "", 100); err != nil {
			return nil, err
		}
	}
	return json.Marshal(p)
}

// dressed puts an answer into the words of the exchange's guise, if it has one.
func (x *exchange) dressed(a answer) answer {
	if x.ep == nil || x.ep.guise == nil {
		return a
	}
	g := x.ep.guise
	var r reply
	var wrong struct {
		Error *struct {
			Code       string `json:"code"`
			Message    string `json:"message"`
			ResourceID string `json:"resource_id"`
		} `json:"error"`
	}
	var read page
	switch err := json.Unmarshal(a.body, &wrong); {
	case err == nil && wrong.Error != nil:
		r = g.failed(failing{a.status, wrong.Error.Code, wrong.Error.Message, wrong.Error.ResourceID})
	case x.ep.guiseRead != nil:
		if json.Unmarshal(a.body, &read) != nil {
			return a
		}
		var found []*played
		for _, raw := range read.Data {
			if o := playedFrom(raw); o != nil {
				found = append(found, o)
			}
		}
		r = x.ep.guiseRead.shows(found, read.HasMore)
	default:
		o := playedFrom(a.body)
		if o == nil {
			return a
		}
		o.first = a.status != http.StatusOK
		r = g.done(o)
	}
	out := answer{status: r.status, body: []byte(r.text), header: r.header, retry: a.retry}
	if r.body != nil {
		out.body = marshal(r.body)
	}
	if a.replayed && g.replayed[0] != "" {
		out.header = map[string]string{g.replayed[0]: g.replayed[1]}
	}
	return out
}

func playedFrom(raw []byte) *played {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	o := &played{}
	if d.Decode(o) != nil || o.ID == "" {
		return nil
	}
	return o
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("sandbox: a guise's answer does not marshal: " + err.Error()) // texts, numbers and parsed JSON
	}
	return b
}

// at reads a member of a member.
func at(v any, names ...string) any {
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func textOf(v any, names ...string) string {
	switch v := at(v, names...).(type) {
	case string:
		return v
	case json.Number:
		return string(v)
	}
	return ""
}

// fieldsOfForm reads a form whose names may nest as a[b].
func fieldsOfForm(raw []byte) (map[string]any, error) {
	values, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, errors.New("the form is not well formed")
	}
	fields := map[string]any{}
	for name, v := range values {
		into := fields
		parts := strings.Split(strings.ReplaceAll(name, "]", ""), "[")
		for _, p := range parts[:len(parts)-1] {
			next, ok := into[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[p] = next
			}
			into = next
		}
		into[parts[len(parts)-1]] = v[0]
	}
	return fields, nil
}

// peek reads a body that is still to be read by others.
func peek(r *http.Request) []byte {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(raw), r.Body), r.Body}
	return raw
}
