package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// follower reads a stream of events.
type follower struct {
	doc   *document
	lines *bufio.Reader
	close func()
	id    string // of the last event
}

// follow opens a stream and waits until it follows.
func (c *client) follow(t *testing.T) *follower { return c.followFrom(t, "") }

// followFrom is follow for a reader that was here before.
func (c *client) followFrom(t *testing.T, last string) *follower {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := c.request(t, "GET", "/v1/events", "").WithContext(ctx)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{doc: c.doc, lines: bufio.NewReader(answer.Body), close: func() { stop(); answer.Body.Close() }}
	t.Cleanup(f.close)
	if got := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("got %d %s, want a stream", answer.StatusCode, got)
	}
	if line, err := f.lines.ReadString('\n'); err != nil || line != ": following\n" {
		t.Fatalf("got %q, %v, want the sign that it follows", line, err)
	}
	return f
}

// next reads one event and counts the comments before it. At the end of the stream the
// event is empty.
func (f *follower) next(t *testing.T) (event, data string, comments int) {
	t.Helper()
	for {
		line, err := f.lines.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		switch {
		case err == io.EOF:
			return "", "", comments
		case err != nil:
			t.Fatal(err)
		case line == "" && data != "":
			f.doc.validate(t, "event "+event, data, "components", "schemas", strings.ToUpper(event[:1])+event[1:])
			return event, data, comments
		case strings.HasPrefix(line, ":"):
			comments++
		case strings.HasPrefix(line, "id: "):
			f.id = line[len("id: "):]
		case strings.HasPrefix(line, "event: "):
			event = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		}
	}
}

// ends reads on to the end of the stream and wants it to be announced.
func (f *follower) ends(t *testing.T, code string) (comments int) {
	t.Helper()
	for {
		event, data, n := f.next(t)
		comments += n
		if event == "" {
			t.Errorf("the stream ended without a word, want an end with code %s", code)
			return comments
		}
		if event != "end" {
			continue
		}
		var end End
		decode(t, data, &end)
		if end.Code != code || end.Detail == "" {
			t.Errorf("got %+v, want an end with code %s", end, code)
		}
		if event, _, _ := f.next(t); event != "" {
			t.Errorf("got %s after the end", event)
		}
		return comments
	}
}

// TestEventsGoOn: a reader that comes again is told what it missed, or that this is not known.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) {
		set.api.Authenticate = people().authenticate
		set.feed.Keep = 3
	})
	tell := func(tenant, actor string, n int) {
		op := &pawl.Operation{Intent: pawl.Intent{ID: pawl.ID{byte(n)}, Tool: "pay", Tenant: tenant, Actor: actor}, State: pawl.State{Status: pawl.Unknown}}
		s.feed.Observer().Changed(t.Context(), op, &pawl.Entry{Event: fmt.Sprint(n), By: "test"})
	}
	ana := s.as("ana")
	f := ana.follow(t)
	tell("acme", "ana", 1)
	if event, _, _ := f.next(t); event != "change" || f.id == "" {
		t.Fatalf("got %s with id %q, want a change with one", event, f.id)
	}
	f.close()
	tell("acme", "ana", 2)
	tell("evil", "ana", 3)
	tell("acme", "ana", 4)
	again := ana.followFrom(t, f.id)
	for _, want := range []string{"2", "4"} {
		var c Change
		if event, data, _ := again.next(t); event != "change" {
			t.Fatalf("got %s, want change %s", event, want)
		} else if decode(t, data, &c); c.Event != want {
			t.Errorf("got change %s, want %s", c.Event, want)
		}
	}
	again.close()
	tell("acme", "ana", 5) // the one after the first is forgotten now
	for _, last := range []string{f.id, "0000-1", "x", f.id + "9"} {
		lost := ana.followFrom(t, last)
		if event, _, _ := lost.next(t); event != "gap" {
			t.Errorf("after %q: got %s, want a gap", last, event)
		}
		lost.close()
	}
}

// TestEventsOfOtherProcesses: another executor on the same store begins and settles operations,
// before and after anybody reads. Each change that is new is told once, and this process's own
// once too.
func TestEventsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.feed.Look = 100 * time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.feed.Follow(ctx, s.db) }()
	defer func() { stop(); <-done }()
	other := pawl.New(s.db, &pawl.Options{Log: slog.New(slog.DiscardHandler)})
	defer other.Stop(context.Background())
	release := make(chan struct{})
	tool := pawl.NewFunc(pawl.Contract{Tool: "slow", Identity: []pawl.Field{pawl.Text("id")}}, func(ctx context.Context, in struct {
		ID string `json:"id"`
	}) (string, error) {
		if in.ID == "waits" {
			<-release
		}
		return "done", nil
	}, nil)
	if err := other.Register(tool); err != nil {
		t.Fatal(err)
	}
	call := func(id string) {
		if _, err := other.Do(t.Context(), pawl.Call{Tool: "slow", Run: "r", Args: fmt.Appendf(nil, `{"id":%q}`, id)}); err != nil {
			t.Error(err)
		}
	}
	call("before")
	f := s.follow(t)
	for looked := false; !looked; time.Sleep(time.Millisecond) { // the first look has been made
		s.feed.mu.Lock()
		looked = len(s.feed.seen) > 0
		s.feed.mu.Unlock()
	}
	next := func(tool string, status pawl.Status, event string) {
		t.Helper()
		var c Change
		if kind, data, _ := f.next(t); kind != "change" {
			t.Fatalf("got %s, want a change", kind)
		} else if decode(t, data, &c); c.Operation.Tool != tool || c.Operation.Status != status || c.Event != event {
			t.Errorf("got %s %s by %s, want %s %s by %s", c.Operation.Tool, c.Operation.Status, c.Event, tool, status, event)
		}
	}
	waited := make(chan struct{})
	go func() { defer close(waited); call("waits") }()
	next("slow", pawl.Pending, "begin")
	close(release)
	<-waited
	next("slow", pawl.Succeeded, "answer")
	call("at once")
	next("slow", pawl.Succeeded, "answer")
	s.call(t, `{"tool":"issue_refund","run":"r","step":"1","args":{"order_id":"A-1182","amount":49.9,"currency":"eur"}}`)
	next("issue_refund", pawl.Pending, "begin")
	next("issue_refund", pawl.Succeeded, "answer")
	call("last")
	next("slow", pawl.Succeeded, "answer") // and nothing was told twice in between
}

// TestEvents: who may see an operation follows what happens to it, and nobody else does.
func TestEvents(t *testing.T) {
	t.Parallel()
	do := func(context.Context, nothing) (nothing, error) { return nothing{}, nil }
	id := []pawl.Field{pawl.Text("id")}
	s := open(t, func(set *setting) {
		set.api.Authenticate = people().authenticate
		set.tools = []*pawl.Tool{
			pawl.NewFunc(pawl.Contract{Tool: "own", Identity: id}, do, nil),
			pawl.NewFunc(pawl.Contract{Tool: "shared", Identity: id, Shared: true}, do, nil),
		}
	})
	followers := map[string]*follower{}
	for _, who := range []string{"ana", "ben", "cleo", "eve"} {
		followers[who] = s.as(who).follow(t)
	}
	own := s.as("ana").call(t, `{"tool":"own","run":"r","args":{"id":"A"}}`)
	shared := s.as("ana").call(t, `{"tool":"shared","run":"r","args":{"id":"A"}}`)
	foreign := s.as("eve").call(t, `{"tool":"shared","run":"r","args":{"id":"A"}}`)
	close(s.stop)
	for who, want := range map[string][]string{
		"ana": {own.OperationID, shared.OperationID}, "cleo": {own.OperationID, shared.OperationID},
		"ben": {shared.OperationID}, "eve": {foreign.OperationID},
	} {
		var got []string
		for {
			event, data, _ := followers[who].next(t)
			if event != "change" {
				var end End
				if event == "end" {
					decode(t, data, &end)
				}
				if end.Code != "stopping" {
					t.Errorf("%s: got %s %s, want an end because the server stops", who, event, data)
				}
				break
			}
			var c Change
			decode(t, data, &c)
			got = append(got, fmt.Sprint(c.Operation.ID, " ", c.Event))
		}
		var all []string
		for _, op := range want {
			all = append(all, op+" begin", op+" answer")
		}
		if fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("%s: got %v, want %v", who, got, all)
		}
	}
	s.as("ana").do(t, "GET", "/readyz", "").wants(t, 503, CodeUnavailable)
}

// TestChangesAreTold follows one operation from begin to end.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	f := s.follow(t)
	s.fault(t, "emails", "reset after")
	env := s.call(t, `{"tool":"send_email","run":"r","args":{"to":"ana@example.com"}}`)
	for _, want := range []pawl.Status{pawl.Pending, pawl.Unknown, pawl.Unknown} { // begun, unanswered, in review
		event, data, _ := f.next(t)
		var c Change
		decode(t, data, &c)
		if event != "change" || c.Operation.ID != env.OperationID || c.Operation.Status != want {
			t.Errorf("got %s %+v, want a change of %s to %s", event, c, env.OperationID, want)
		}
	}
	s.feed.Observer().Alarm(t.Context(), &pawl.Operation{State: pawl.State{Status: pawl.Unknown}}, pawl.AlarmDuplicate)
	event, data, _ := f.next(t)
	var a struct{ Alarm pawl.Alarm }
	if err := json.Unmarshal([]byte(data), &a); err != nil || event != "alarm" || a.Alarm != pawl.AlarmDuplicate {
		t.Errorf("got %s %s, want the alarm", event, data)
	}
}

// big is an event that a socket cannot hold many of.
var big = strings.Repeat("x", 256<<10)

// flood publishes more than sockets and buffers hold. It returns when all is handed over,
// which does not depend on any reader.
func (s *site) flood() {
	for range 100 {
		s.feed.publish(&pawl.Operation{}, "change", big)
	}
}

// TestSlowReader: a reader that does not keep up is dropped and told so, and holds nobody up.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.feed.Buffer, set.feed.WriteTime = 4, time.Minute })
	f := s.follow(t)
	s.flood()
	s.feed.mu.Lock()
	if n := len(s.feed.readers); n != 0 {
		t.Errorf("got %d readers after the flood, want none", n)
	}
	s.feed.mu.Unlock()
	last := ""
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			break
		}
		if strings.HasPrefix(line, "data: {") {
			last = line
		}
	}
	if !strings.Contains(last, `"code":"slow"`) {
		t.Errorf("got last %q, want the reason of the end", last)
	}
}

// TestDeafReader: a reader that does not read at all is cut off in time.
func TestDeafReader(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.feed.Buffer, set.feed.WriteTime = 200, 50*time.Millisecond })
	f := s.follow(t)
	s.flood()
	deadline := time.Now().Add(10 * time.Second)
	for {
		s.feed.mu.Lock()
		n := len(s.feed.readers)
		s.feed.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the reader is still there")
		}
		time.Sleep(5 * time.Millisecond)
	}
	f.close()
}

// TestQuietStream: a stream shows that it lives, and ends when nothing happens for long.
func TestQuietStream(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.feed.Heartbeat, set.feed.Idle = 20*time.Millisecond, 200*time.Millisecond })
	if comments := s.follow(t).ends(t, "idle"); comments < 2 {
		t.Errorf("got %d signs of life, want several", comments)
	}
}

// TestStreamOfARevokedToken ends although nothing happens, and tells nothing that does.
func TestStreamOfARevokedToken(t *testing.T) {
	t.Parallel()
	for name, beat := range map[string]time.Duration{"quiet": 20 * time.Millisecond, "busy": time.Hour} {
		k := people()
		s := open(t, func(set *setting) { set.api.Authenticate, set.feed.Heartbeat = k.authenticate, beat })
		f := s.as("ana").follow(t)
		k.revoke("ana")
		if name == "busy" {
			s.feed.publish(&pawl.Operation{Intent: pawl.Intent{Tenant: "acme", Actor: "ana"}}, "change", big)
		}
		event, data, _ := f.next(t)
		if event != "end" || !strings.Contains(data, "unauthorized") {
			t.Errorf("%s: got %.80s %.80s, want an end for lack of a token", name, event, data)
		}
	}
}

// TestWhatHappenedBeforeAStopIsTold, also to a reader that lags behind.
func TestWhatHappenedBeforeAStopIsTold(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.feed.Buffer, set.feed.WriteTime = 200, time.Minute })
	f := s.follow(t)
	s.flood()
	close(s.stop)
	changes, last := 0, ""
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			break
		}
		if line == "event: change\n" {
			changes++
		}
		if strings.HasPrefix(line, "data: ") {
			last = line
		}
	}
	if changes != 100 || !strings.Contains(last, "stopping") {
		t.Errorf("got %d changes and last %.80s, want 100 and an end because the server stops", changes, last)
	}
}

// TestStreamsPerTenant: one tenant's streams have a bound of their own.
func TestStreamsPerTenant(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) {
		set.api.Authenticate, set.feed.PerTenant, set.api.PerTenant = people().authenticate, 2, 1
	})
	first := s.as("ana").follow(t)
	s.as("ben").follow(t)
	s.as("cleo").do(t, "GET", "/v1/events", "").wants(t, 429, CodeTooMany)
	s.as("eve").follow(t)
	s.as("ana").do(t, "GET", "/v1/tools", "").into(t, 200, &struct{}{})
	first.close()
	deadline := time.Now().Add(10 * time.Second)
	for s.feed.subscribe(&Principal{Tenant: "acme"}, "") == nil { // once the server has noticed
		if time.Now().After(deadline) {
			t.Fatal("the place of a stream that ended was not given back")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
