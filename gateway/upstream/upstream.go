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

// openAfter opens a session after the pause that failures before it ask for.
func (u *Upstream) openAfter(ctx context.Context, pause time.Duration, eras []wire.Era, owner string, c *Client) (*session, error) {
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("the server has failed and is not started again yet: %w", ctx.Err())
		}
	}
	s, err := u.open(ctx, eras, owner, c)
	if err != nil {
		u.failed()
		return nil, err
	}
	return u.keep(s)
}

// failed notes a session that did not come about or did not last.
func (u *Upstream) failed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Since(u.pause) > forgiven {
		u.failures = 0
	}
	u.failures = min(u.failures+1, 16)
	u.pause = time.Now().Add(min(firstPause<<(u.failures-1), longestPause))
}

// open makes a session: a peer, and the handshake of the first era that it speaks.
func (u *Upstream) open(ctx context.Context, eras []wire.Era, owner string, c *Client) (*session, error) {
	var errs []error
	var s *session
	defer func() {
		if s != nil && s.says == nil {
			s.close()
		}
	}()
	for _, era := range eras {
		if s == nil {
			var err error
			if s, err = u.connect(owner); err != nil {
				return nil, err
			}
		}
		err := s.greet(ctx, era, c)
		if err == nil {
			s.key = sessionKey{era: era}
			if era == wire.Legacy {
				s.key.owner = owner
			}
			u.learn(era, errs)
			u.log.Info("session opened", "version", s.says.Version, "own", s.key.own())
			return s, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", era, err))
		if !errors.Is(err, errEra) || ctx.Err() != nil {
			break
		}
		select {
		case <-s.peer.ended(): // what it was asked ended it
			s.close()
			s = nil
		default:
		}
	}
	return nil, errors.Join(errs...)
}

// learn notes which era the server lacks: one whose handshake it answered with an error,
// or not at all, before another one succeeded.
func (u *Upstream) learn(speaks wire.Era, failed []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lacks[speaks] = false
	if len(failed) > 0 {
		u.lacks[1-speaks] = true
	}
}

// connect makes the peer of a new session.
func (u *Upstream) connect(owner string) (*session, error) {
	s := &session{up: u, owner: owner, calls: map[int64]*call{}, began: time.Now(), used: time.Now()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if u.transport != nil {
		s.peer = newRemote(u.server, u.transport, u.log, s.stray)
		return s, nil
	}
	env, secrets, err := u.server.Environment()
	if err != nil {
		s.stop()
		return nil, err
	}
	var hide []string
	for _, secret := range secrets {
		if len(secret) >= minHidden {
			hide = append(hide, secret, "***")
		}
	}
	c, err := startChild(u.server.Command, env, u.server.Dir, strings.NewReplacer(hide...), u.log, s.stray)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.peer = c
	return s, nil
}

// minHidden is the least size of a secret that is looked for in a child's errors.
const minHidden = 8

// keep makes a session the one of its key, and has it watched. Another one may have come
// about in the meantime: then that one is taken.
func (u *Upstream) keep(s *session) (*session, error) {
	u.mu.Lock()
	other, closed := u.sessions[s.key], u.closed
	if other != nil && !other.alive() {
		other = nil // whoever watches it closes it
	}
	var idle []*session
	full := false
	if other == nil && !closed {
		idle = u.idleLocked()
		if full = len(u.sessions) >= maxSessions; !full {
			u.sessions[s.key] = s
			s.use(1)
		}
	} else if other != nil {
		other.use(1)
	}
	u.mu.Unlock()
	for _, old := range idle {
		go old.close()
	}
	switch {
	case closed:
		s.close()
		return nil, ErrClosed
	case full:
		s.close()
		return nil, errFull
	case other != nil:
		s.close()
		return other, nil
	}
	go u.watch(s)
	s.follow()
	return s, nil
}

// idleLocked takes out the sessions of single clients that nobody has used for long.
func (u *Upstream) idleLocked() (idle []*session) {
	for key, s := range u.sessions {
		if key.own() && s.unusedFor() > ownIdle {
			delete(u.sessions, key)
			idle = append(idle, s)
		}
	}
	return idle
}

// watch takes out a session that ends by itself. The next request opens another.
func (u *Upstream) watch(s *session) {
	<-s.peer.ended()
	if u.forget(s) {
		u.log.Warn("session ended", "after", time.Since(s.began).Round(time.Millisecond))
		if time.Since(s.began) < shortLife {
			u.failed()
		}
	}
	s.close()
}

// alive reports whether the session takes requests.
func (s *session) alive() bool {
	select {
	case <-s.peer.ended():
		return false
	default:
		return true
	}
}

// forget takes a session out and reports whether it was there.
func (u *Upstream) forget(s *session) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	mine := u.sessions[s.key] == s
	if mine {
		delete(u.sessions, s.key)
	}
	return mine
}

// use counts the requests under way.
func (s *session) use(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses += n
	s.rested = time.Since(s.used)
	s.used = time.Now()
}

// restedFor is the time between the last two uses: how long nothing was heard of it.
func (s *session) restedFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rested
}

func (s *session) unusedFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses > 0 {
		return 0
	}
	return time.Since(s.used)
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
