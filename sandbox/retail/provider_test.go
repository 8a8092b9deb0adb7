package retail

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve starts a provider with a shop for the tenant t, whose requests all meet one fault.
func serve(t *testing.T, f Fault) (shop *Shop, url string) {
	t.Helper()
	p := New(small(), &Options{Faults: func(Arrival) Fault { return f }})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p.Open("t"), "http://" + ln.Addr().String() + "/t"
}

// answer is what a client gets.
type answer struct {
	status int
	body   string
	err    error
}

func ask(ctx context.Context, method, url, body string) answer {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, string(b), err}
}

const cancelPath = "/orders/%23W0000001/cancel"

// TestFaults holds for each fault what the client sees and what the shop has done.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   Fault
		status  int // 0: no whole answer
		effects int
	}{
		"none":        {Fault{}, 200, 1},
		"reset":       {Fault{Answer: AnswerReset}, 0, 1},
		"closed":      {Fault{Answer: AnswerClosed}, 0, 1},
		"cut":         {Fault{Answer: AnswerCut}, 0, 1},
		"500":         {Fault{Answer: AnswerFailed}, 500, 1},
		"502":         {Fault{Answer: AnswerPage}, 502, 1},
		"late":        {Fault{Delay: 20 * time.Millisecond}, 200, 1},
		"lands":       {Fault{Lands: 20 * time.Millisecond}, 200, 1},
		"lands, lost": {Fault{Lands: 20 * time.Millisecond, Answer: AnswerReset}, 0, 1},
		"lost, reset": {Fault{Lost: true, Answer: AnswerReset}, 0, 0},
		"lost, 500":   {Fault{Lost: true, Answer: AnswerFailed}, 500, 0},
		"lost, 429":   {Fault{Lost: true, Answer: AnswerBusy}, 429, 0},
		"too late":    {Fault{Lands: 2100 * time.Millisecond}, 410, 0},
		"twice":       {Fault{Twice: true}, 409, 1}, // of what can be done once
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop, url := serve(t, c.fault)
			got := ask(t.Context(), "POST", url+cancelPath, `{"reason":"no longer needed"}`)
			if (got.err == nil) != (c.status != 0) || c.status != 0 && got.status != c.status {
				t.Errorf("%s: got %+v, want status %d", c.fault, got, c.status)
			}
			if err := shop.AwaitQuiet(t.Context()); err != nil {
				t.Error(err)
			}
			if n := shop.Effects()[Cancel]; n != c.effects {
				t.Errorf("%s: got %d effects, want %d", c.fault, n, c.effects)
			}
		})
	}
}

// TestSilence: the effect is there, and the answer does not come for as long as one waits.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, f := range []Fault{{Answer: AnswerNone}, {Lost: true}} {
		shop, url := serve(t, f)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		got := ask(ctx, "POST", url+cancelPath, `{"reason":"no longer needed"}`)
		cancel()
		if !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("%s: got %+v, want no answer", f, got)
		}
		if n, want := shop.Effects()[Cancel], 1; f.Lost && n != 0 || !f.Lost && n != want {
			t.Errorf("%s: got %d effects", f, n)
		}
	}
}

// TestWhoHangsUpStopsNothing: a request lands although its client has gone.
func TestWhoHangsUpStopsNothing(t *testing.T) {
	t.Parallel()
	shop, url := serve(t, Fault{Lands: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := ask(ctx, "POST", url+cancelPath, `{"reason":"no longer needed"}`); got.err == nil {
		t.Fatalf("got %+v, want it given up", got)
	}
	if err := shop.AwaitQuiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := shop.Effects()[Cancel]; n != 1 {
		t.Errorf("got %d effects, want 1", n)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	_, url := serve(t, Fault{})
	for _, c := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"GET", "/orders/%23W0000001", "", 200, `"status":"pending"`},
		{"GET", "/users/ana_1", "", 200, `"balance":50.00`},
		{"GET", "/orders/%23W9999999", "", 404, `"code":"not_found"`},
		{"PUT", "/users/ana_1/address", `{"address1":"2 New Street","city":"Waco"}`, 200, `"city":"Waco"`},
		{"PUT", "/users/ana_1/address", `{"street":"2 New Street"}`, 422, `"code":"invalid_body"`},
		{"POST", "/orders/%23W0000002/return", `{"item_ids":["77"],"payment_method_id":"gift_card_1"}`, 422, `"code":"item_not_found"`},
		{"POST", "/orders/%23W0000001/cancel", `{"reason":"ordered by mistake"}`, 200, `"status":"cancelled"`},
	} {
		got := ask(t.Context(), c.method, url+c.path, c.body)
		if got.err != nil || got.status != c.status || !strings.Contains(got.body, c.has) {
			t.Errorf("%s %s: got %+v, want %d with %s", c.method, c.path, got, c.status, c.has)
		}
	}
	if got := ask(t.Context(), "GET", strings.TrimSuffix(url, "/t")+"/other/users/ana_1", ""); got.status != 404 {
		t.Errorf("another tenant: got %+v, want 404", got)
	}
}

// TestArrivalsAreNumbered: the same kind of request has a number of its own, so that what
// goes wrong with it can be repeated.
func TestArrivalsAreNumbered(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []Arrival
	p := New(small(), &Options{Faults: func(a Arrival) Fault {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, a)
		return Fault{}
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, ln) }()
	p.Open("t")
	for range 2 {
		ask(t.Context(), "PUT", "http://"+ln.Addr().String()+"/t/users/ana_1/address", "{}")
	}
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	want := Arrival{Tenant: "t", Kind: "PUT /users/ana_1/address", N: 2, Write: true, Converges: true}
	if len(seen) != 2 || seen[1] != want {
		t.Errorf("got %+v, want the second to be %+v", seen, want)
	}
}
