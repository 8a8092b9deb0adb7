package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
)

const (
	// writeTime is how long a client may take to read one message.
	writeTime = 30 * time.Second
	// commentEvery is the pause between two signs of life on a stream without messages.
	commentEvery = 25 * time.Second
)

// ServeHTTP answers one request over streamable HTTP, at the door of one upstream or, where
// the name is empty, of all. Who sends it has been found out before, and so has that it may
// come from where it comes from.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request, who Principal, upstream string) {
	d := g.doors[upstream]
	if d == nil {
		http.Error(w, "there is no such upstream", http.StatusNotFound)
		return
	}
	// A stream lasts longer than the server lets a request last. A test's writer has no
	// deadlines.
	c := http.NewResponseController(w)
	switch r.Method {
	case http.MethodPost:
		g.post(w, r, d, who)
	case http.MethodGet:
		_ = c.SetReadDeadline(time.Time{})
		g.stream(w, r, d, who)
	case http.MethodDelete:
		if s := g.sessionOf(d, who, r.Header.Get(wire.HeaderSession)); s != nil {
			s.end()
			w.WriteHeader(http.StatusNoContent)
			return
		}
		noSession(w, r)
	default:
		w.Header().Set("Allow", "POST, GET, DELETE")
		http.Error(w, "this path takes POST, GET and DELETE", http.StatusMethodNotAllowed)
	}
}

func noSession(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(wire.HeaderSession) == "" {
		http.Error(w, "the "+wire.HeaderSession+" header is missing: begin with initialize", http.StatusBadRequest)
		return
	}
	http.Error(w, "there is no such session", http.StatusNotFound)
}

// accepts reports what the client takes; one that does not say takes everything.
func accepts(r *http.Request) (plain, events bool) {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true, true
	}
	for _, v := range values {
		for kind := range strings.SplitSeq(v, ",") {
			kind, _, _ = strings.Cut(kind, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				plain = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				plain, events = true, true
			}
		}
	}
	return plain, events
}

// post answers a POST: one message.
func (g *Gateway) post(w http.ResponseWriter, r *http.Request, d *door, who Principal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "send the message with Content-Type: application/json", http.StatusUnsupportedMediaType)
		return
	}
	if plain, events := accepts(r); !plain || !events {
		http.Error(w, "Accept must contain both application/json and text/event-stream", http.StatusNotAcceptable)
		return
	}
	out := newPost(w)
	raw, err := io.ReadAll(io.LimitReader(r.Body, int64(g.opts.MaxMessage)+1))
	switch {
	case err != nil:
		http.Error(w, "the message did not arrive whole", http.StatusBadRequest)
		return
	case len(raw) > g.opts.MaxMessage:
		http.Error(w, "the message is too large", http.StatusRequestEntityTooLarge)
		return
	}
	_ = out.c.SetReadDeadline(time.Time{})
	m, err := wire.Parse(raw)
	if err != nil {
		out.finish(wire.Failure("", unreadable(raw, err)), http.StatusBadRequest)
		return
	}
	version := r.Header.Get(wire.HeaderVersion)
	meta := wire.Meta(m.Params)
	said, isModern := modern(meta)
	if isModern || said != "" && m.IsRequest() || wire.EraOf(version) == wire.Modern {
		g.postModern(out, r, d, who, m, version, said)
		return
	}
	if version != "" && !wire.Spoken(version) {
		out.finish(wire.Failure(m.ID, unsupported(version)), http.StatusBadRequest)
		return
	}
	g.postLegacy(out, r, d, who, m)
}

// unreadable is the error for a message that cannot be read.
func unreadable(raw []byte, err error) *wire.Error {
	code := int64(wire.CodeInvalidRequest)
	if !jsonValid(raw) {
		code = wire.CodeParse
	}
	return &wire.Error{Code: code, Message: err.Error()}
}

// postModern answers a message of a client that says in it who it is.
func (g *Gateway) postModern(out *post, r *http.Request, d *door, who Principal, m *wire.Message, version, said string) {
	if !m.IsRequest() {
		// A modern client has nothing to notify of over HTTP, and nobody asks it anything.
		out.w.WriteHeader(http.StatusAccepted)
		return
	}
	// The client that hangs up does not wait any more.
	x, wrong := newExchange(r.Context(), g, d, nil, m, out)
	if wrong != nil {
		out.finish(wire.Failure(m.ID, wrong), http.StatusBadRequest)
		return
	}
	defer x.cancel()
	x.header, x.query = r.Header, r.URL.Query()
	if wrong := x.checkHeaders(version, said); wrong != nil {
		out.finish(wire.Failure(m.ID, wrong), http.StatusBadRequest)
		return
	}
	if wrong := x.introduce(who, said); wrong != nil {
		out.finish(wire.Failure(m.ID, wrong), http.StatusBadRequest)
		return
	}
	if wrong := x.checkArguments(); wrong != nil {
		out.finish(wire.Failure(m.ID, wrong), http.StatusBadRequest)
		return
	}
	answer := x.answer()
	status := http.StatusOK
	if answer.err != nil {
		switch answer.err.Code {
		case wire.CodeMethodNotFound:
			status = http.StatusNotFound
		case wire.CodeInvalidParams, wire.CodeUnsupportedVersion, wire.CodeMissingCapability, wire.CodeHeaderMismatch:
			status = http.StatusBadRequest
		case codeBusy:
			status = http.StatusTooManyRequests
		}
	}
	out.finish(answer.message(m.ID), status)
}

// postLegacy answers a message of a client that has a session, or begins one.
func (g *Gateway) postLegacy(out *post, r *http.Request, d *door, who Principal, m *wire.Message) {
	if m.Method == wire.MethodInitialize && m.IsRequest() {
		s := g.open(d, who)
		if s == nil {
			out.finish(wire.Failure(m.ID, busy), http.StatusTooManyRequests)
			return
		}
		defer s.use()()
		answer := s.initialize(r.Context(), m)
		if answer.err != nil {
			s.end()
		} else {
			out.w.Header().Set(wire.HeaderSession, s.id)
		}
		out.finish(answer.message(m.ID), http.StatusOK)
		return
	}
	s := g.sessionOf(d, who, r.Header.Get(wire.HeaderSession))
	if s == nil {
		if m.IsRequest() && r.Header.Get(wire.HeaderSession) == "" {
			out.finish(wire.Failure(m.ID, &wire.Error{
				Code: wire.CodeInvalidRequest, Message: "no session: begin with initialize, or say the protocol version in _meta",
			}), http.StatusBadRequest)
			return
		}
		noSession(out.w, r)
		return
	}
	defer s.use()()
	switch {
	case m.IsResponse():
		s.answered(m)
		out.w.WriteHeader(http.StatusAccepted)
	case m.IsNotification():
		s.notified(r.Context(), m)
		out.w.WriteHeader(http.StatusAccepted)
	default:
		// A connection that breaks is no word of the client's.
		out.finish(s.request(context.WithoutCancel(r.Context()), m, out, r), http.StatusOK)
	}
}

// request answers a request of a legacy client. A request that the client has cancelled is
// answered all the same over HTTP, where its stream must end.
func (s *session) request(ctx context.Context, m *wire.Message, out outlet, r *http.Request) *wire.Message {
	x, wrong := newExchange(ctx, s.g, s.door, s, m, out)
	if wrong != nil {
		return wire.Failure(m.ID, wrong)
	}
	defer x.cancel()
	if r != nil {
		x.header, x.query = r.Header, r.URL.Query()
	}
	if x.client = s.initialized(); x.client == nil {
		return wire.Failure(m.ID, &wire.Error{Code: wire.CodeInvalidRequest, Message: "the session is not initialized"})
	}
	if !s.enter(x) {
		return wire.Failure(m.ID, busy)
	}
	defer s.leave(x)
	return x.answer().message(m.ID)
}

// stream sends a legacy client what belongs to none of its requests.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, d *door, who Principal) {
	if _, events := accepts(r); !events {
		http.Error(w, "Accept must contain text/event-stream", http.StatusNotAcceptable)
		return
	}
	s := g.sessionOf(d, who, r.Header.Get(wire.HeaderSession))
	if s == nil {
		noSession(w, r)
		return
	}
	if !s.follow() {
		http.Error(w, "the session has a stream already", http.StatusConflict)
		return
	}
	defer s.unfollow()
	defer s.use()()
	out := newPost(w)
	out.alive()
	beat := time.NewTicker(commentEvery)
	defer beat.Stop()
	for {
		select {
		case m := <-s.notices:
			if out.send(m) != nil {
				return
			}
		case <-beat.C:
			out.alive()
		case <-s.ended:
			return
		case <-g.stopping:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// post is the way back over HTTP: plain JSON for an answer that comes alone, and a stream of
// events from the first message that comes before it.
type post struct {
	w http.ResponseWriter
	c *http.ResponseController

	mu     sync.Mutex
	events *wire.EventWriter // nil before the first message
	over   bool
}

func newPost(w http.ResponseWriter) *post { return &post{w: w, c: http.NewResponseController(w)} }

// errOver: the request has its answer.
var errOver = errors.New("the request is over")

func (p *post) send(m *wire.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return errOver
	}
	return p.event(m)
}

// begin makes the answer a stream. The lock is held.
func (p *post) begin() {
	_ = p.c.SetWriteDeadline(time.Now().Add(writeTime)) // a test's writer has none
	if p.events == nil {
		p.w.Header().Set("Content-Type", "text/event-stream")
		p.w.Header().Set("Cache-Control", "no-cache, no-transform")
		p.w.WriteHeader(http.StatusOK)
		p.events = wire.NewEventWriter(p.w)
	}
}

func (p *post) event(m *wire.Message) error {
	p.begin()
	if err := p.events.Write("", m.Append(nil)); err != nil {
		return err
	}
	return p.c.Flush()
}

func (p *post) alive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.begin()
	if p.events.Comment() == nil {
		_ = p.c.Flush() // a client that has gone shows in its context
	}
}

// finish writes the answer. The status counts where nothing came before it.
func (p *post) finish(m *wire.Message, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.events != nil {
		_ = p.event(m) // a client that has gone reads no answer
		return
	}
	_ = p.c.SetWriteDeadline(time.Now().Add(writeTime))
	p.w.Header().Set("Content-Type", "application/json")
	p.w.WriteHeader(status)
	_, _ = p.w.Write(m.Append(nil))
}
