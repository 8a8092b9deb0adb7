package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// TestManyCallers: 256 callers at once on one child, whose answers come in another order,
// each get their own.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	u := set.Get("up")
	ctx := within(t, patience)
	var work sync.WaitGroup
	for i := range 256 {
		work.Go(func() {
			for range 4 {
				d := time.Duration(rand.N(20_000_000) + i)
				a, err := u.Call(ctx, callTool("wait", fmt.Sprintf(`{"text":%q}`, d)))
				if err != nil {
					t.Error(err)
					return
				}
				if !strings.Contains(string(a.Result), " "+d.String()+`"`) {
					t.Errorf("got %s, want the answer to %v", a.Result, d)
				}
			}
		})
	}
	work.Wait()
	if n := sessionsOf(u); n != 1 {
		t.Errorf("sessions: got %d, want 1", n)
	}
}

// TestRawPasses: params, results and errors of any method pass with fields that nobody knows.
func TestRawPasses(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	u := set.Get("up")
	const params = `{"x":{"Y":1,"y":2},"big":12345678901234567890,"s":"\u0000"}`
	if got := ask(t, u, &Request{Method: "test/raw", Params: json.RawMessage(params)}); got != params {
		t.Errorf("got %s, want %s", got, params)
	}
	a, err := u.Call(within(t, patience), &Request{Method: "test/none"})
	if err != nil || a.Error == nil || a.Error.Code != wire.CodeMethodNotFound || a.Error.Message != "no test/none" {
		t.Errorf("got %+v, %v, want the server's own error", a, err)
	}
	d, err := u.Describe(within(t, patience), nil)
	if err != nil || d.Version != wire.Version20251125 || d.Instructions != "be good" || !strings.Contains(string(d.Info), "script") {
		t.Errorf("got %+v, %v", d, err)
	}
}

// TestEnvironment: a child gets what it needs and what is declared, and nothing else; what
// it repeats of a secret in its errors is hidden.
func TestEnvironment(t *testing.T) {
	t.Setenv("PAWL_TEST_TOKEN", "s3cr3t-s3cr3t")
	t.Setenv("PAWL_TEST_OTHER", "other")
	var log safeBuffer
	_, set := file(t, started(script("env"), "      env: {TOKEN: \"${env:PAWL_TEST_TOKEN}\", PLAIN: x}\n"),
		&Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	got := ask(t, set.Get("up"), callTool("env", `{}`))
	if !strings.Contains(got, "TOKEN=s3cr3t-s3cr3t") || !strings.Contains(got, "PLAIN=x") || !strings.Contains(got, "PATH=") {
		t.Errorf("got %s, want what is declared", got)
	}
	if strings.Contains(got, "PAWL_TEST") {
		t.Errorf("got %s, want nothing of ours", got)
	}
	for !strings.Contains(log.String(), "secret is") {
		time.Sleep(time.Millisecond)
	}
	if strings.Contains(log.String(), "s3cr3t") {
		t.Errorf("the log has the secret: %s", log.String())
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestDeafChild: a child that runs and has closed its input gets nothing, which is proved.
func TestDeafChild(t *testing.T) {
	t.Parallel()
	f, set := file(t, started(script("deaf")), nil)
	tool := port(t, f, "up/echo")
	if _, err := set.Get("up").Describe(within(t, patience), nil); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		e := send(t, within(t, 100*time.Millisecond), tool, `{"text":"x"}`)
		if e.Class == pawl.ClassNotSent && e.Proof == "no_bytes" && e.BytesBegun == 0 {
			return
		}
		// Until it has closed its input, the pipe takes what nobody will read.
		if e.Class != pawl.ClassAmbiguous || e.BytesBegun == 0 || time.Now().After(deadline) {
			t.Fatalf("got %s %s %d bytes, want NOT_SENT no_bytes, or AMBIGUOUS for bytes that were taken", e.Class, e.Proof, e.BytesBegun)
		}
	}
}

// TestBusyChild: a child that does not read is waited for until the caller's patience ends,
// and no longer. What was not taken was not sent; what was taken in part is doubt, and ends
// the child, since nothing can follow half a line.
func TestBusyChild(t *testing.T) {
	t.Parallel()
	f, _ := file(t, started(script("busy")), nil)
	tool := port(t, f, "up/echo")
	args := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 40<<10))
	classes := map[string]int{}
	for range 3 {
		e := send(t, within(t, 200*time.Millisecond), tool, args)
		classes[fmt.Sprint(e.Class, " ", e.BytesBegun > 0, " ", e.BytesBegun < 40<<10)]++
		if e.BytesBegun > 0 && e.BytesBegun < 40<<10 {
			break // it is ended
		}
	}
	for kind := range classes {
		switch kind {
		case "AMBIGUOUS true false", "AMBIGUOUS true true", "NOT_SENT false true":
		default:
			t.Errorf("got %s: want doubt for bytes that were taken, and NOT_SENT for none", kind)
		}
	}
	if len(classes) < 2 {
		t.Errorf("got %v, want a pipe that is full in the end", classes)
	}
}

// TestMuteChild: a handshake that is not answered ends with the time to start.
func TestMuteChild(t *testing.T) {
	t.Parallel()
	f, _ := file(t, started(script("mute"), "      start_timeout: 300ms\n"), nil)
	began := time.Now()
	e := send(t, within(t, patience), port(t, f, "up/echo"), `{}`)
	if e.Class != pawl.ClassNotSent || e.Proof != "no_session" || time.Since(began) > patience/2 {
		t.Errorf("got %s %s after %v, want NOT_SENT no_session", e.Class, e.Proof, time.Since(began))
	}
}

// TestLongLine: an answer beyond the limit is skipped, and nothing else with it.
func TestLongLine(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	u := set.Get("up")
	ctx, cancel := context.WithCancel(within(t, patience))
	ended := make(chan error, 1)
	go func() {
		_, err := u.Call(ctx, callTool("long", `{}`))
		ended <- err
	}()
	if got := ask(t, u, callTool("echo", `{"text":"short"}`)); !strings.Contains(got, "short") {
		t.Errorf("got %s, want the other answer", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnsent) {
		t.Errorf("got %v, want ErrLost", err)
	}
	if got := ask(t, u, callTool("echo", `{"text":"after"}`)); !strings.Contains(got, "after") {
		t.Errorf("got %s, want an answer after it", got)
	}
}
