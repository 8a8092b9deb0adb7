package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/evidence"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// remote is a server over HTTP: each request is a POST of its own, whose answer is a
// message or a stream of events.
type remote struct {
	log       *slog.Logger
	server    *contract.MCPServer
	transport *evidence.Transport
	stray     func(m *wire.Message) // gets what belongs to no exchange; does not block
	gone      chan struct{}
	work      sync.WaitGroup
	ctx       context.Context // of everything that outlives one exchange
	stop      context.CancelFunc
	end       sync.Once
	last      sync.Once

	mu      sync.Mutex
	era     wire.Era
	version string // empty before the handshake
	session string // legacy: the server's name for it
	closing bool
}

const (
	// maxResumes caps the times that a broken stream of one request is taken up again.
	maxResumes = 5
	// resumePause is the pause before it where the server names none, maxPause the longest.
	resumePause = time.Second
	maxPause    = 30 * time.Second
	// farewell bounds the wait for a server to hear that its session ends.
	farewell = 2 * time.Second
	// postWait bounds the way of a notification or a response.
	postWait = 30 * time.Second
)

var (
	errNoResponse = errors.New("the answer holds no response to the request")
	errStatus     = errors.New("the server refused the message")
)

func newRemote(s *contract.MCPServer, t *evidence.Transport, log *slog.Logger, stray func(*wire.Message)) *remote {
	r := &remote{log: log, server: s, transport: t, stray: stray, gone: make(chan struct{})}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

func (r *remote) exchange(ctx context.Context, x *exchange) *outcome {
	body := wire.Request(wire.NumberID(x.id), x.method, x.params).Append(nil)
	req, err := r.request(http.MethodPost, body, x)
	if err != nil {
		return notSent("credential", err)
	}
	reading := &reading{r: r, x: x, req: req}
	req.Consume = reading.consume
	o := r.transport.Attempt(ctx, req)
	out := outcomeOf(o)
	for n := 0; !reading.done() && reading.lastID != "" && n < maxResumes && r.resumable(ctx, reading, n); n++ {
		r.resume(ctx, reading)
	}
	if reading.done() && !o.Early {
		out.response, out.err, out.facts.Error = reading.response, nil, ""
		out.facts.Body, out.facts.BodySize, out.facts.BodySHA256 = out.response.Raw, int64(len(out.response.Raw)), ""
	} else if out.err == nil {
		out.fails(errNoResponse)
	}
	r.learn(x, o, out)
	if ctx.Err() != nil && out.response == nil && !x.effect && !out.unsent() {
		r.cancel(x.id)
	}
	return out
}

// outcomeOf is what the transport saw. A refusal below HTTP counts; a status does not.
func outcomeOf(o *evidence.Observation) *outcome {
	out := &outcome{facts: evidence.Classify(o, &evidence.Rules{NeedsBody: true, BodyMayFail: true}, 1), err: o.Err}
	if o.Response != nil {
		facts := evidence.Facts(o)
		out.facts, out.header = facts, o.Response.Header
	} else if out.facts.Class != pawl.ClassNotSent && out.facts.Class != pawl.ClassRejected {
		out.facts.Class, out.facts.Strength, out.facts.Proof = "", "", ""
	}
	return out
}

// learn takes from an answer what it says about the session.
func (r *remote) learn(x *exchange, o *evidence.Observation, out *outcome) {
	if o.Response == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := o.Response.Header.Get(wire.HeaderSession); x.method == wire.MethodInitialize && out.response != nil && headerText(id) {
		r.session = id
	}
	if o.Response.Status == http.StatusNotFound && r.session != "" && x.method != wire.MethodInitialize {
		r.end.Do(func() { close(r.gone) }) // the server has forgotten the session
	}
}

func headerText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != "" && len(s) <= 1<<10
}

// request makes a request with today's credentials.
func (r *remote) request(method string, body []byte, x *exchange) (*evidence.Request, error) {
	header, secrets, err := r.server.Header()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		header.Set("Content-Type", "application/json")
	} else {
		header.Set("Accept", "text/event-stream")
	}
	if r.session != "" {
		header.Set(wire.HeaderSession, r.session)
	}
	if r.version != "" {
		header.Set(wire.HeaderVersion, r.version)
	}
	if x != nil {
		for name, v := range x.header {
			header[name] = v
		}
	}
	return &evidence.Request{Method: method, URL: r.server.URL, Header: header, Body: body, Secrets: secrets}, nil
}

// reading reads the answers to one request until its response is there.
type reading struct {
	r        *remote
	x        *exchange
	req      *evidence.Request
	response *wire.Message
	lastID   string
	pause    time.Duration
}

func (d *reading) done() bool { return d.response != nil }

func (d *reading) consume(head *evidence.Response, body io.Reader) {
	kind, _, _ := mime.ParseMediaType(head.Header.Get("Content-Type"))
	if kind != "text/event-stream" || head.Status != http.StatusOK {
		raw, err := io.ReadAll(io.LimitReader(body, wire.MaxMessage+1))
		if err == nil && len(raw) <= wire.MaxMessage && kind == "application/json" {
			d.take(raw, head.Status)
		}
		return
	}
	events := wire.NewEventReader(body, wire.MaxMessage)
	for !d.done() {
		e, err := events.Next()
		d.lastID, d.pause = events.LastID(), events.Retry()
		if errors.Is(err, wire.ErrTooLong) {
			d.r.log.Warn("an event was skipped", "error", err, "method", d.x.method)
			continue
		}
		if err != nil {
			return
		}
		if (e.Type == "" || e.Type == "message") && len(e.Data) > 0 {
			d.take(e.Data, head.Status)
		}
	}
}

// take looks at one message. A result counts only in an answer that says ok; an error may
// come with any status, and without an id where the server could not read one.
func (d *reading) take(raw []byte, status int) {
	m, err := wire.Parse(d.req.Mask(raw))
	if err != nil {
		d.r.log.Warn("a message was skipped", "error", err, "method", d.x.method)
		return
	}
	if !m.IsResponse() {
		d.x.tell(m)
		return
	}
	switch id := ownID(m.ID); {
	case id != d.x.id && (m.Error == nil || m.ID != ""):
	case m.Error != nil, status == http.StatusOK:
		d.response = m
	}
}

// resumable waits for the moment to take a stream up again. Only legacy servers keep one.
func (r *remote) resumable(ctx context.Context, d *reading, n int) bool {
	r.mu.Lock()
	legacy := r.era == wire.Legacy && r.version != ""
	r.mu.Unlock()
	if !legacy {
		return false
	}
	pause := d.pause
	if pause == 0 {
		pause = resumePause << n
	}
	select {
	case <-time.After(min(pause, maxPause)):
		return true
	case <-ctx.Done():
	case <-r.gone:
	case <-r.ctx.Done():
	}
	return false
}

// resume reads on behind the last event. It is a GET, which repeats nothing.
func (r *remote) resume(ctx context.Context, d *reading) {
	req, err := r.request(http.MethodGet, nil, nil)
	if err != nil {
		return
	}
	req.Header.Set(wire.HeaderLastEvent, d.lastID)
	req.Consume = d.consume
	r.transport.Attempt(ctx, req)
}

func (r *remote) cancel(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing || r.era == wire.Modern { // there the end of the request's connection says so
		return
	}
	r.work.Go(func() {
		params := json.RawMessage(`{"requestId":` + string(wire.NumberID(id)) + `,"reason":"the caller has gone"}`)
		if err := r.post(r.ctx, wire.Notification(wire.NotifyCancelled, params)); err != nil {
			r.log.Debug("a request could not be cancelled", "error", err)
		}
	})
}

func (r *remote) post(ctx context.Context, m *wire.Message) error {
	ctx, cancel := context.WithTimeout(ctx, postWait)
	defer cancel()
	x := &exchange{}
	r.mu.Lock()
	if r.era == wire.Modern && r.version != "" && m.Method != "" {
		x.header = http.Header{wire.HeaderMethod: {m.Method}}
	}
	r.mu.Unlock()
	req, err := r.request(http.MethodPost, m.Append(nil), x)
	if err != nil {
		return err
	}
	o := r.transport.Attempt(ctx, req)
	switch {
	case o.Err != nil:
		return fmt.Errorf("send %s: %w", m.Method, o.Err)
	case o.Response.Status >= 300:
		return fmt.Errorf("send %s: %w: status %d", m.Method, errStatus, o.Response.Status)
	}
	return nil
}

func (r *remote) agreed(era wire.Era, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.era, r.version = era, version
	if era == wire.Legacy && !r.closing {
		r.work.Go(r.listen)
	}
}

func (r *remote) ended() <-chan struct{} { return r.gone }

// close takes leave of the server and waits until nothing runs any more.
func (r *remote) close() {
	r.last.Do(func() {
		r.mu.Lock()
		r.closing = true
		named := r.session != ""
		r.mu.Unlock()
		r.stop()
		select {
		case <-r.gone:
		default:
			if req, err := r.request(http.MethodDelete, nil, nil); named && err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), farewell)
				defer cancel()
				r.transport.Attempt(ctx, req)
			}
		}
		r.end.Do(func() { close(r.gone) })
	})
	r.work.Wait()
}
