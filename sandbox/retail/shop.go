package retail

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Shop is one copy of the database with a ledger of its effects. Its methods are safe for
// concurrent use.
type Shop struct {
	data *Data

	mu       sync.Mutex
	orders   map[string]*Order // those that differ from data's
	users    map[string]*User
	effects  []Effect
	arrivals map[string]int
	under    int           // requests under way
	quiet    chan struct{} // closed when none is; nil while none is
}

// Effect is one line of the ledger: a call that changed the shop. Lines are only added.
type Effect struct {
	Tool string
	// Subject is the order or the user.
	Subject string
}

// Open returns a fresh copy of the shop.
func (d *Data) Open() *Shop {
	return &Shop{data: d, orders: map[string]*Order{}, users: map[string]*User{}, arrivals: map[string]int{}}
}

// edit is a call's own view of what it changes.
type edit struct {
	shop   *Shop
	orders map[string]*Order
	users  map[string]*User
}

func (s *Shop) edit() *edit {
	return &edit{shop: s, orders: map[string]*Order{}, users: map[string]*User{}}
}

func (e *edit) orderByID(id string) *Order {
	if o := e.orders[id]; o != nil {
		return o
	}
	o := e.shop.order(id)
	if o != nil {
		o = o.clone()
		e.orders[id] = o
	}
	return o
}

func (e *edit) userByID(id string) *User {
	if u := e.users[id]; u != nil {
		return u
	}
	u := e.shop.user(id)
	if u != nil {
		u = u.clone()
		e.users[id] = u
	}
	return u
}

func (e *edit) user(o *Order) *User { return e.userByID(o.UserID) }

func (s *Shop) order(id string) *Order {
	if o := s.orders[id]; o != nil {
		return o
	}
	return s.data.Orders[id]
}

func (s *Shop) user(id string) *User {
	if u := s.users[id]; u != nil {
		return u
	}
	return s.data.Users[id]
}

// Do carries a call out and returns the order or the user as it is then. The error is a
// *Refusal, and then nothing was changed.
func (s *Shop) Do(w Write) (json.RawMessage, error) { return s.do(w, time.Time{}) }

// do is Do for a call that must not take effect after a time, if there is one.
func (s *Shop) do(w Write, latest time.Time) (json.RawMessage, error) {
	act := tools[w.Tool]
	if act == nil {
		return nil, refuse(404, "no_such_tool", "the shop cannot do that")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !latest.IsZero() && time.Now().After(latest) {
		return nil, refuse(410, "too_late", "the request was under way for too long")
	}
	e := s.edit()
	if err := act(e, &w.Args); err != nil {
		return nil, err
	}
	for id, o := range e.orders {
		s.orders[id] = o
	}
	for id, u := range e.users {
		s.users[id] = u
	}
	s.effects = append(s.effects, Effect{w.Tool, w.Args.subject()})
	if w.Args.OrderID != "" {
		return json.Marshal(s.order(w.Args.OrderID))
	}
	return json.Marshal(s.user(w.Args.UserID))
}

// Order returns an order as JSON, or nil.
func (s *Shop) Order(id string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.order(id)
	if o == nil {
		return nil
	}
	b, _ := json.Marshal(o) // plain data
	return b
}

// User returns a user as JSON, or nil.
func (s *Shop) User(id string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.user(id)
	if u == nil {
		return nil
	}
	b, _ := json.Marshal(u) // plain data
	return b
}

// Address is where an order goes, or where a user lives if there is no such order.
func (s *Shop) Address(id string) Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.order(id); o != nil {
		return o.Address
	}
	if u := s.user(id); u != nil {
		return u.Address
	}
	return Address{}
}

// Status is an order's, or empty if there is no such order.
func (s *Shop) Status(order string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.order(order); o != nil {
		return o.Status
	}
	return ""
}

// Refuses reports whether the shop would refuse a call now. It does not carry it out.
func (s *Shop) Refuses(w Write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	act := tools[w.Tool]
	return act == nil || act(s.edit(), &w.Args) != nil
}

// Effects counts the ledger's lines of each tool.
func (s *Shop) Effects() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := make(map[string]int, len(Tools))
	for _, e := range s.effects {
		n[e.Tool]++
	}
	return n
}

// Changes are the orders and users that the shop has written, by what they are and their
// id, as JSON. Two shops of the same data with the same changes are equal.
func (s *Shop) Changes() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]string, len(s.orders)+len(s.users))
	for id, o := range s.orders {
		b, _ := json.Marshal(o) // plain data
		out["order "+id] = string(b)
	}
	for id, u := range s.users {
		b, _ := json.Marshal(u) // plain data
		out["user "+id] = string(b)
	}
	return out
}

// arrive numbers the requests of one kind, from 1, and counts one more under way.
func (s *Shop) arrive(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under++; s.under == 1 {
		s.quiet = make(chan struct{})
	}
	s.arrivals[kind]++
	return s.arrivals[kind]
}

func (s *Shop) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under--; s.under == 0 {
		close(s.quiet)
		s.quiet = nil
	}
}

// AwaitQuiet waits until no request is under way: what has not had its effect by then
// never will, unless it is sent after that.
func (s *Shop) AwaitQuiet(ctx context.Context) error {
	s.mu.Lock()
	quiet := s.quiet
	s.mu.Unlock()
	if quiet == nil {
		return nil
	}
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("requests are under way: %w", ctx.Err())
	}
}
