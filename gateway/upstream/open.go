package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
)

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
