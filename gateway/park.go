package gateway

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// parking holds the calls of modern clients that wait for an answer. The client carries a
// token that is signed, expires, counts once, and is bound to principal and request.
type parking struct {
	key  [32]byte
	life time.Duration
	most int

	mu        sync.Mutex
	pauses    map[string]*pause
	byKey     map[string]string // names of pauses that nobody has answered
	perTenant map[string]int
}

// pause is a call that waits for an answer.
type pause struct {
	// resume answers the request that brings the answers. Rejoin answers one that brings
	// them once more, because the client has lost the answer to the first. Drop ends the
	// call's wait when nobody comes.
	resume func(x *exchange, answers wire.Object) reply
	rejoin func(x *exchange) reply
	drop   func()

	requests wire.Object
	// key is that of a call whose effect is guarded: the call that comes again without its
	// token is asked the same.
	key     string
	tenant  string
	expires int64
	used    bool
	timer   *time.Timer
}

func newParking(life time.Duration, most int) *parking {
	p := &parking{life: life, most: most, pauses: make(map[string]*pause), byKey: make(map[string]string), perTenant: make(map[string]int)}
	rand.Read(p.key[:]) // never fails
	return p
}

// close ends every pause.
func (p *parking) close() {
	p.mu.Lock()
	names := make([]string, 0, len(p.pauses))
	for name := range p.pauses {
		names = append(names, name)
	}
	p.mu.Unlock()
	for _, name := range names {
		p.expire(name)
	}
}

func (p *parking) expire(name string) {
	p.mu.Lock()
	w := p.pauses[name]
	if w != nil {
		delete(p.pauses, name)
		p.answer(name, w)
		w.timer.Stop()
		if p.perTenant[w.tenant]--; p.perTenant[w.tenant] == 0 {
			delete(p.perTenant, w.tenant)
		}
	}
	p.mu.Unlock()
	if w != nil && !w.used && w.drop != nil {
		w.drop()
	}
}

// answer takes a pause off those that nobody has answered. The lock is held.
func (p *parking) answer(name string, w *pause) {
	if w.key != "" && p.byKey[w.key] == name {
		delete(p.byKey, w.key)
	}
}

// statePrefix tells our tokens from those of an upstream.
const statePrefix = "pawl1."

// park answers a request with questions.
func (x *exchange) park(requests wire.Object, w *pause) reply {
	p := x.g.parked
	w.tenant, w.requests, w.expires = x.who.Tenant, requests, time.Now().Add(p.life).Unix()
	name := rand.Text()
	p.mu.Lock()
	full := p.perTenant[w.tenant] >= p.most
	if !full {
		p.perTenant[w.tenant]++
		p.pauses[name] = w
		if w.key != "" {
			p.byKey[w.key] = name
		}
		w.timer = time.AfterFunc(p.life, func() { p.expire(name) })
	}
	p.mu.Unlock()
	if full {
		if w.drop != nil {
			w.drop()
		}
		return failure(busy)
	}
	return x.question(name, w)
}

// question is the answer to a request whose call waits for an answer.
func (x *exchange) question(name string, w *pause) reply {
	return reply{result: wire.Object{
		{Name: "resultType", Value: wire.Quote(wire.ResultInputRequired)},
		{Name: "inputRequests", Value: w.requests.JSON()},
		{Name: "requestState", Value: wire.Quote(x.token(name, w.expires))},
	}.JSON()}
}

// askedAlready answers a call that waits for an answer in another request of the same
// client's: it has lost the question, or comes without its token. False where there is none.
func (x *exchange) askedAlready(key string) (reply, bool) {
	p := x.g.parked
	p.mu.Lock()
	name := p.byKey[key]
	w := p.pauses[name]
	p.mu.Unlock()
	if x.era == wire.Legacy || w == nil {
		return reply{}, false
	}
	return x.question(name, w), true
}

// token is the state that the client carries.
func (x *exchange) token(name string, expires int64) string {
	head := statePrefix + name + "." + strconv.FormatInt(expires, 10)
	return head + "." + hex.EncodeToString(x.seal(head))
}

// seal signs a token's head together with what it is bound to.
func (x *exchange) seal(head string) []byte {
	mac := hmac.New(sha256.New, x.g.parked.key[:])
	for _, part := range []string{head, x.who.Tenant, x.who.Actor, x.method, x.request()} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return mac.Sum(nil)
}

// request is what a continuation has in common with the request that it continues.
func (x *exchange) request() string {
	raw := x.params.Without(func(name string) bool {
		return name == "_meta" || name == "requestState" || name == "inputResponses"
	}).JSON()
	if v, err := pawl.ParseJSONLimit(raw, len(raw)); err == nil {
		if canonical, err := pawl.AppendJSON(nil, v); err == nil {
			return string(canonical)
		}
	}
	return string(raw)
}

// continuation finds the call that a request continues. The first result is nil for a
// request that continues nothing of ours.
func (x *exchange) continuation() (func() reply, *wire.Error) {
	state, _ := x.params.Text("requestState")
	if x.era == wire.Legacy || !strings.HasPrefix(state, statePrefix) {
		return nil, nil
	}
	parts := strings.Split(state, ".")
	if len(parts) != 4 {
		return nil, invalid("%v", errState)
	}
	sum, err := hex.DecodeString(parts[3])
	if err != nil || !hmac.Equal(sum, x.seal(strings.Join(parts[:3], "."))) {
		return nil, invalid("%v", errState)
	}
	if expires, err := strconv.ParseInt(parts[2], 10, 64); err != nil || time.Now().Unix() > expires {
		return nil, invalid("%v", errState)
	}
	answers, err := wire.ParseObject(x.params.Get("inputResponses"))
	if err != nil {
		answers = nil
	}
	p := x.g.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.pauses[parts[1]]
	switch {
	case w == nil:
		return nil, invalid("%v", errState)
	case !w.used:
		w.used = true
		p.answer(parts[1], w)
		return func() reply { return w.resume(x, answers) }, nil
	case w.rejoin != nil:
		return func() reply { return w.rejoin(x) }, nil
	}
	return nil, invalid("%v", errState)
}

// errState: a continuation does not fit anything that is open.
var errState = errors.New("requestState is not of this call, was used before or has expired: make the call again without it")
