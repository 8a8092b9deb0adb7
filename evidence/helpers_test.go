package evidence

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http reports unasked answers there
	goleak.VerifyTestMain(m)
}

const payment = `{"amount":100,"to":"acct_1"}`

// transport is a Transport that the test closes.
func transport(t *testing.T, o *Options) *Transport {
	t.Helper()
	tr := New(o)
	t.Cleanup(tr.Close)
	return tr
}

// within is a context that ends after d, and with the test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// post is the measured request.
func post(url string) *Request {
	return &Request{Method: "POST", URL: url + "/pay", Header: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(payment)}
}

// warmUp makes one exchange so that the next request reuses its connection.
func warmUp(t *testing.T, tr *Transport, url string) {
	t.Helper()
	res, err := tr.Read(within(t, patience), &Request{Method: "POST", URL: url + "/warm"})
	if err != nil || string(res.Body) != "ok" {
		t.Fatalf("warm-up: got %v, want ok", err)
	}
}

// wanted is what a row asserts: the class, and what the server counted.
type wanted struct {
	class    pawl.AttemptClass
	strength pawl.Strength
	proof    string
	effects  int64
	// requests is the number of whole requests that arrived; -1 leaves it open.
	requests int64
}

// check compares, and holds against every row that nothing was sent twice and that no
// effect is called none.
func check(t *testing.T, o *Observation, r *Rules, s *counts, want wanted) pawl.Evidence {
	t.Helper()
	e := Classify(o, r, 1)
	if e.Class != want.class || e.Strength != want.strength || e.Proof != want.proof {
		t.Errorf("got %s %s %s, want %s %s %s (err %v, trace %v, bytes %d, pulled %d)", e.Class, e.Strength, e.Proof,
			want.class, want.strength, want.proof, o.Err, o.Trace, o.BytesBegun, o.BodyPulled)
	}
	safe(t, e, s)
	if got := s.effects.Load(); got != want.effects {
		t.Errorf("effects at the server: got %d, want %d", got, want.effects)
	}
	if got := s.requests.Load(); want.requests >= 0 && got != want.requests {
		t.Errorf("whole requests at the server: got %d, want %d", got, want.requests)
	}
	return e
}

// safe holds for any one attempt whatever happened.
func safe(t *testing.T, e pawl.Evidence, s *counts) {
	t.Helper()
	if got := s.heads.Load(); got > 1 {
		t.Errorf("requests on the wire: got %d, want at most 1", got)
	}
	none := e.Class == pawl.ClassNotSent || e.Class == pawl.ClassRejected
	if got := s.effects.Load(); none && got != 0 {
		t.Errorf("%s although the server had %d effects", e.Class, got)
	}
	if got := s.effects.Load(); (e.Class == pawl.ClassSucceeded || e.Class == pawl.ClassResultLost) && got == 0 {
		t.Errorf("%s although the server had no effect", e.Class)
	}
}

// faulty is a connection that misbehaves below the counting, once armed.
type faulty struct {
	*net.TCPConn
	faults    *faults
	closeOnce sync.Once
	gone      chan struct{}
}

// faults arms the connections of one Transport.
type faults struct {
	refuse atomic.Bool          // Write takes no byte and fails with EPIPE
	hold   atomic.Bool          // Write passes all bytes on and then stays until the connection is closed
	free   atomic.Int64         // so many writes are not held
	ended  chan struct{}        // where not nil, Read tells it of the peer's close and keeps it from its caller
	closed func(c *net.TCPConn) // called before each close
}

// install puts the faults under the Transport's connections.
func (f *faults) install(tr *Transport) {
	dial := tr.dial
	tr.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &faulty{TCPConn: c.(*net.TCPConn), faults: f, gone: make(chan struct{})}, nil
	}
}

func (c *faulty) Write(p []byte) (int, error) {
	if c.faults.refuse.Load() {
		return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
	}
	n, err := c.TCPConn.Write(p)
	if err == nil && c.faults.hold.Load() && c.faults.free.Add(-1) < 0 {
		<-c.gone
		return n, errors.New("closed meanwhile")
	}
	return n, err
}

func (c *faulty) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if err == io.EOF && c.faults.ended != nil {
		close(c.faults.ended)
		<-c.gone
	}
	return n, err
}

func (c *faulty) Close() error {
	c.closeOnce.Do(func() {
		if c.faults.closed != nil {
			c.faults.closed(c.TCPConn)
		}
		close(c.gone)
	})
	return c.TCPConn.Close()
}
