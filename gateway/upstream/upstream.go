package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/evidence"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// Upstream is one server.
type Upstream struct {
	server    *contract.MCPServer
	options   *Options
	log       *slog.Logger
	transport *evidence.Transport // nil for a child

	mu       sync.Mutex
	sessions map[sessionKey]*session
	opening  map[sessionKey]chan struct{} // closed when the attempt is over
	lacks    [2]bool                      // eras that the server is known not to speak
	failures int                          // sessions in a row that did not come about or did not last
	pause    time.Time                    // no session is opened before
	known    map[string]*known            // tools by name
	closed   bool

	restAge time.Duration // restAge, less in tests
}

// Description is what a server says about itself.
type Description struct {
	Era wire.Era
	// Version is the revision that is spoken.
	Version string
	// Info, Capabilities and Instructions are its words as they came; nil where it has none.
	Info         json.RawMessage
	Capabilities json.RawMessage
	Instructions string
}

const (
	// maxSessions caps the sessions with one server.
	maxSessions = 64
	// ownIdle is how long a session of one client is kept that nobody uses.
	ownIdle = 15 * time.Minute
	// shortLife is the age below which a session that ends counts as one that failed.
	shortLife = 5 * time.Second
	// firstPause and longestPause bound the pauses between sessions that fail.
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
	// forgiven is the time without a failure after which pauses begin anew.
	forgiven = time.Minute
)

var errFull = errors.New("too many sessions are open with the server")

// Server is what is declared about it.
func (u *Upstream) Server() *contract.MCPServer { return u.server }

// Describe is what the server says about itself.
func (u *Upstream) Describe(ctx context.Context, c *Client) (*Description, error) {
	s, err := u.acquire(ctx, c)
	if err != nil {
		return nil, err
	}
	defer u.release(s)
	d := *s.says
	return &d, nil
}

// acquire is the session for a client's requests: one that is there, or a new one. It is
// given back by release. An error means that nothing was sent.
func (u *Upstream) acquire(ctx context.Context, c *Client) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, u.server.StartTimeout)
	defer cancel()
	s, err := u.find(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w: upstream %s: %w", ErrUnsent, u.server.Name, err)
	}
	return s, nil
}

func (u *Upstream) find(ctx context.Context, c *Client) (*session, error) {
	for {
		u.mu.Lock()
		if u.closed {
			u.mu.Unlock()
			return nil, ErrClosed
		}
		eras := u.eras(c)
		for _, era := range eras {
			if s := u.sessions[u.keyOf(era, c)]; s != nil && s.alive() {
				s.use(1)
				u.mu.Unlock()
				return s, nil
			}
			if !u.lacks[era] {
				break // this one is wanted, and may come about
			}
		}
		key := u.keyOf(eras[0], c)
		if key.era == wire.Modern {
			key.owner = u.keyOf(wire.Legacy, c).owner // what the session is if it is not modern
		}
		waiting := u.opening[key]
		if waiting == nil {
			done := make(chan struct{})
			u.opening[key] = done
			pause := time.Until(u.pause)
			u.mu.Unlock()
			s, err := u.openAfter(ctx, pause, eras, key.owner, c)
			u.mu.Lock()
			delete(u.opening, key)
			close(done)
			u.mu.Unlock()
			return s, err
		}
		u.mu.Unlock()
		select {
		case <-waiting:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// eras are those that are tried for a client, in order: its own first. Those that the
// server is known to lack come last.
func (u *Upstream) eras(c *Client) []wire.Era {
	switch u.server.Era {
	case "legacy":
		return []wire.Era{wire.Legacy}
	case "modern":
		return []wire.Era{wire.Modern}
	}
	eras := []wire.Era{wire.Modern, wire.Legacy}
	if c != nil && c.Era == wire.Legacy {
		slices.Reverse(eras)
	}
	if u.lacks[eras[0]] && !u.lacks[eras[1]] {
		slices.Reverse(eras)
	}
	return eras
}

// keyOf says whose session a client's requests take. A modern session is nobody's: each
// request says for itself what can be asked. In a legacy one the handshake has said it.
func (u *Upstream) keyOf(era wire.Era, c *Client) sessionKey {
	switch {
	case era == wire.Modern || !c.asks():
		return sessionKey{era: era}
	case c.Session != "":
		return sessionKey{era, ownerPrefix + c.Session}
	}
	sum := sha256.Sum256(u.capabilitiesOf(c))
	return sessionKey{era, "capabilities:" + hex.EncodeToString(sum[:8])}
}

const ownerPrefix = "session:"

// ownerSession is the front's session that a session belongs to; empty where it is shared.
func (s *session) ownerSession() string {
	name, own := strings.CutPrefix(s.owner, ownerPrefix)
	if !own || !s.legacy.Load() {
		return ""
	}
	return name
}

func (u *Upstream) release(s *session) { s.use(-1) }

func (u *Upstream) endSession(name string) {
	u.drop(func(s *session) bool { return name != "" && s.ownerSession() == name })
}

// drop closes the sessions that are wanted gone.
func (u *Upstream) drop(gone func(*session) bool) {
	u.mu.Lock()
	var list []*session
	for key, s := range u.sessions {
		if gone(s) {
			delete(u.sessions, key)
			list = append(list, s)
		}
	}
	u.mu.Unlock()
	var work sync.WaitGroup
	for _, s := range list {
		work.Go(s.close)
	}
	work.Wait()
}

func (u *Upstream) close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.drop(func(*session) bool { return true })
	if u.transport != nil {
		u.transport.Close()
	}
}
