package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// serving runs a server on loopback until the test ends, and returns its address and what
// ends it sooner.
func serving(t *testing.T, s *Server) (addr string, end func() error) {
	t.Helper()
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	end = func() error {
		stop()
		err := <-served
		served <- err
		return err
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), end
}

func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestServe(t *testing.T) {
	t.Parallel()
	s := openTest(t, write(t, sound))
	addr, end := serving(t, s)
	if status, body := get(t, "http://"+addr+"/v1/tools", ""); status != http.StatusOK || !strings.Contains(body, "refund") {
		t.Errorf("got %d %s, want the tools", status, body)
	}
	if status, body := get(t, "http://"+addr+"/readyz", ""); status != http.StatusOK {
		t.Errorf("got %d %s, want ready", status, body)
	}
	body := strings.NewReader(`{"tool":"refund","run":"r","args":{"order_id":"A-1"}}`)
	answer, err := http.Post("http://"+addr+"/v1/calls", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var env pawl.Envelope
	if err := json.NewDecoder(answer.Body).Decode(&env); err != nil || env.Reason != pawl.ReasonNotSent {
		t.Errorf("got %+v, %v, want not_sent: nobody listens at the upstream", env, err)
	}
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the listener is still open")
	}
	if _, err := s.Store().Now(t.Context()); err != nil {
		t.Errorf("the store was closed by Serve: %v", err)
	}
}

// TestServeNeedsTokensBeyondLoopback: an address that others reach is refused without them.
func TestServeNeedsTokensBeyondLoopback(t *testing.T) {
	t.Parallel()
	s := openTest(t, write(t, sound))
	for _, addr := range []string{"0.0.0.0:0", ":0"} {
		if ln, err := s.Listen(t.Context(), addr); !errors.Is(err, ErrNoTokens) {
			if err == nil {
				ln.Close()
			}
			t.Errorf("listen on %s: got %v, want ErrNoTokens", addr, err)
		}
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), ln); !errors.Is(err, ErrNoTokens) {
		t.Errorf("serve: got %v, want ErrNoTokens", err)
	}

	token, line := newToken(t, Grant{Tenant: "acme", Scopes: []string{"read"}})
	o := write(t, sound)
	o.Tokens = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(o.Tokens, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, o)
	if ln, err = s.Listen(t.Context(), "0.0.0.0:0"); err != nil {
		t.Fatalf("with tokens: %v", err)
	}
	ln.Close()
	addr, _ := serving(t, s)
	for _, c := range []struct {
		token string
		want  int
	}{{"", 401}, {"pawl_x", 401}, {token, 200}} {
		if status, body := get(t, "http://"+addr+"/v1/operations", c.token); status != c.want {
			t.Errorf("got %d %s, want %d", status, body, c.want)
		}
	}
	o.Tokens = filepath.Join(t.TempDir(), "none")
	if s, err := Open(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		if err == nil {
			closeTest(t, s)
		}
		t.Errorf("got %v, want a missing tokens file refused", err)
	}
}

// TestConnectionLimits: a connection that is slow, idle or wordy ends.
func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	set := func(change func(*limits)) string {
		s := openTest(t, write(t, sound))
		change(&s.limits)
		addr, _ := serving(t, s)
		return addr
	}
	soon := 100 * time.Millisecond
	waits := set(func(l *limits) { l.header, l.idle, l.connections = soon, soon, 2 })
	reads := set(func(l *limits) { l.read = soon })
	const head = "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for _, c := range []struct{ addr, name, send, want string }{
		{waits, "nothing", "", ""},
		{waits, "half a header", head, ""},
		{reads, "half a body", head + "Content-Length: 10\r\n\r\n{", "HTTP/1.1 408"},
		{reads, "half a body that nobody wants", "GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{", "HTTP/1.1 400"},
		{waits, "a large header", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		{waits, "idle", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200"},
	} {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.send) // the server may stop reading
		r := bufio.NewReader(conn)
		line, _ := r.ReadString('\n')
		if !strings.HasPrefix(line, c.want) || c.want == "" && line != "" {
			t.Errorf("%s: got %q, want %q", c.name, line, c.want)
		}
		var slow net.Error
		if _, err := io.Copy(io.Discard, r); errors.As(err, &slow) && slow.Timeout() {
			t.Errorf("%s: the connection is still open", c.name)
		}
		conn.Close()
	}
	// Those who wait beyond the limit of connections are served once there is room.
	var held []net.Conn
	for range 4 {
		conn, err := net.Dial("tcp", waits)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	if status, _ := get(t, "http://"+waits+"/healthz", ""); status != http.StatusOK {
		t.Errorf("got %d behind slow connections, want 200", status)
	}
	for _, conn := range held {
		conn.Close()
	}
}

// TestStreamOutlivesTheReadTime: the time that a request may take to arrive does not end
// its answer.
func TestStreamOutlivesTheReadTime(t *testing.T) {
	t.Parallel()
	s := openTest(t, write(t, sound))
	s.limits.header, s.limits.read, s.limits.write = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	addr, end := serving(t, s)
	answer, err := http.Get("http://" + addr + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	time.AfterFunc(400*time.Millisecond, func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	body, err := io.ReadAll(answer.Body)
	if took := time.Since(began); err != nil || took < 300*time.Millisecond || !strings.Contains(string(body), `"code":"stopping"`) {
		t.Errorf("got %q, %v after %v, want a stream that ends when the server stops", body, err, took)
	}
}
