package notify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

// receiver is an operator's end of the webhook. answer says what each request gets.
type receiver struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	answer func(n int, w http.ResponseWriter)
	got    []received
	came   chan received
}

type received struct {
	id   string
	body Message
	raw  string
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	rc := &receiver{t: t, answer: answer, came: make(chan received, 1000)}
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		if err := verifier.Verify(raw, r.Header); err != nil {
			t.Errorf("the signature: got %v, want one that holds", err)
		}
		x := received{id: r.Header.Get("webhook-id"), raw: string(raw)}
		if err := json.Unmarshal(raw, &x.body); err != nil {
			t.Errorf("the body: %v", err)
		}
		rc.mu.Lock()
		rc.got = append(rc.got, x)
		n := len(rc.got)
		rc.mu.Unlock()
		if rc.answer != nil {
			rc.answer(n, w)
		}
		rc.came <- x
	}))
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) next() received {
	rc.t.Helper()
	select {
	case x := <-rc.came:
		return x
	case <-time.After(10 * time.Second):
		rc.t.Fatal("nothing came")
		return received{}
	}
}

// quiet fails if anything comes for a while.
func (rc *receiver) quiet() {
	rc.t.Helper()
	select {
	case x := <-rc.came:
		rc.t.Errorf("got %+v, want nothing more", x)
	case <-time.After(150 * time.Millisecond):
	}
}

type desk struct {
	t     *testing.T
	store *storetest.Memory
	log   *bytes.Buffer
	rc    *receiver
}

func newDesk(t *testing.T, answer func(n int, w http.ResponseWriter)) *desk {
	t.Parallel()
	return &desk{t: t, store: storetest.NewMemory(), log: &bytes.Buffer{}, rc: newReceiver(t, answer)}
}

func (d *desk) notifier(edit func(*Options)) *Notifier {
	d.t.Helper()
	o := Options{
		URL: d.rc.URL + "/hook?token=hush", Secret: secret, Link: "https://pawl.example.com/reviews/{id}", Every: 20 * time.Millisecond,
		Pauses: []time.Duration{time.Millisecond, time.Millisecond}, Log: slog.New(slog.NewTextHandler(d.log, nil)),
	}
	if edit != nil {
		edit(&o)
	}
	n, err := New(d.store, o)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(n.Stop)
	return n
}

// waits begins an operation and has it wait for a person.
func (d *desk) waits(identity string) *pawl.Operation {
	d.t.Helper()
	op, first := storetest.Op(storetest.Seed{Tenant: "acme", Tool: "send_email", Run: "run-1", Identity: identity})
	if standing, err := d.store.Begin(d.t.Context(), op, first); err != nil || standing != nil {
		d.t.Fatalf("begin: %v, %v", standing, err)
	}
	d.move(op, pawl.Unknown, func(s *pawl.State) { s.Review, s.ReviewReason = op.Created, pawl.ReasonAmbiguous })
	return op
}

func (d *desk) move(op *pawl.Operation, to pawl.Status, edit func(*pawl.State)) {
	d.t.Helper()
	c := storetest.Move(op, to, edit)
	if err := d.store.Apply(d.t.Context(), c); err != nil {
		d.t.Fatal(err)
	}
	op.State = *c.State
}

// TestOperatorIsToldOnceOfEachFact, with a signature that holds and no argument in it.
func TestOperatorIsToldOnceOfEachFact(t *testing.T) {
	d := newDesk(t, nil)
	op := d.waits("ana@example.com")
	n := d.notifier(nil)
	if n.Notified(t.Context(), op) {
		t.Error("before: got notified, want not")
	}
	n.Start()
	n.Start()
	opened := d.rc.next()
	if m := opened.body; m.Type != pawl.ReviewOpened || m.Data.Operation != op.ID.String() || m.Data.Status != pawl.Unknown || m.Data.Tenant != "acme" ||
		m.Data.Reason != pawl.ReasonAmbiguous || m.Data.KeyUntil.IsZero() || m.Data.Link != "https://pawl.example.com/reviews/"+op.ID.String() {
		t.Errorf("got %+v, want the operation that waits", m)
	}
	if strings.Contains(opened.raw, "ana@example.com") {
		t.Errorf("got %s, want no argument in it", opened.raw)
	}
	d.rc.quiet()
	if !n.Notified(t.Context(), op) {
		t.Error("after: got not notified, want so")
	}
	d.move(op, pawl.Succeeded, func(s *pawl.State) {
		s.Review, s.ReviewReason, s.Reason = time.Time{}, "", pawl.ReasonLateNews
	})
	if closed := d.rc.next(); closed.body.Type != pawl.ReviewClosed || closed.body.Data.Status != pawl.Succeeded || closed.id == opened.id {
		t.Errorf("got %+v, want that it waits no longer", closed)
	}
	d.rc.quiet()
}

// TestRefusedIsToldAgainUnderTheSameID and given up in the end.
func TestRefusedIsToldAgainUnderTheSameID(t *testing.T) {
	d := newDesk(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
	op := d.waits("a")
	n := d.notifier(nil)
	n.Start()
	first := d.rc.next()
	for range 2 {
		if again := d.rc.next(); again.id != first.id {
			t.Errorf("got id %s, want %s again", again.id, first.id)
		}
	}
	d.rc.quiet() // three tries, and no more
	n.Stop()
	if n.Notified(t.Context(), op) {
		t.Error("got notified, want not: nobody took it")
	}
	if log := d.log.String(); !strings.Contains(log, "given up") || strings.Contains(log, "hush") || strings.Contains(log, secret) {
		t.Errorf("got log %q, want that it is given up and nothing secret", log)
	}
}

// TestAnswerThatIsNotRecordedIsToldAgainUnderTheSameID: the process dies in between.
func TestAnswerThatIsNotRecordedIsToldAgainUnderTheSameID(t *testing.T) {
	d := newDesk(t, nil)
	d.waits("a")
	if _, err := d.store.GatherNotices(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	taken, err := d.store.TakeNotices(t.Context(), 10, time.Nanosecond) // by the one that dies
	if err != nil || len(taken) != 1 {
		t.Fatalf("got %v, %v; want one", taken, err)
	}
	n := d.notifier(nil)
	if _, err := n.post(t.Context(), taken[0]); err != nil {
		t.Fatal(err)
	}
	first := d.rc.next()
	n.Start()
	if again := d.rc.next(); again.id != first.id {
		t.Errorf("got id %s, want %s again", again.id, first.id)
	}
	d.rc.quiet()
}

// TestManyNotifiersShareOneOutbox: each fact is told by one of them.
func TestManyNotifiersShareOneOutbox(t *testing.T) {
	d := newDesk(t, nil)
	const many = 50
	for i := range many {
		d.waits(string(rune('A' + i)))
	}
	for range 4 {
		d.notifier(nil).Start()
	}
	seen := map[string]int{}
	for range many {
		seen[d.rc.next().id]++
	}
	d.rc.quiet()
	if len(seen) != many {
		t.Errorf("got %d facts, want %d, each once", len(seen), many)
	}
}

// TestReceiverThatIsGoneIsLeftAlone after 410, until a restart: then it is told what it was
// not told before.
func TestReceiverThatIsGoneIsLeftAlone(t *testing.T) {
	d := newDesk(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	d.waits("a")
	n := d.notifier(nil)
	n.Start()
	d.rc.next()
	d.waits("b")
	d.rc.quiet()
	n.Stop()
	if !strings.Contains(d.log.String(), "410") {
		t.Errorf("got log %q, want the 410 in it", d.log)
	}
	d.notifier(nil).Start()
	if a, b := d.rc.next(), d.rc.next(); a.id == b.id {
		t.Errorf("got %s twice, want both facts", a.id)
	}
}

// TestRedirectIsNotFollowed: a signed body goes to its receiver alone.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := newReceiver(t, nil)
	d := newDesk(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	d.waits("a")
	n := d.notifier(func(o *Options) { o.Pauses = []time.Duration{} })
	n.Start()
	d.rc.next()
	elsewhere.quiet()
}

// TestReceiverSaysWhenToComeAgain, within a bound.
func TestReceiverSaysWhenToComeAgain(t *testing.T) {
	d := newDesk(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	d.waits("a")
	n := d.notifier(nil)
	n.Start()
	d.rc.next()
	d.rc.quiet()
}

// TestObserverWakes: what this process does is told at once.
func TestObserverWakes(t *testing.T) {
	d := newDesk(t, nil)
	n := d.notifier(func(o *Options) { o.Every = time.Hour })
	n.Start()
	op := d.waits("a")
	n.Observer().Changed(t.Context(), op, &pawl.Entry{})
	d.rc.next()
}

// TestOptions: what cannot be used is named, and no secret is repeated.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url, secret, want string
	}{
		{"", secret, "URL"}, {"ftp://a.example.com", secret, "URL"}, {"https://user:hush@a.example.com", secret, "URL"},
		{"https://a.example.com", "", "Secret"}, {"https://a.example.com", "hushhushhushhushhushhushhush", "Secret"},
		{"https://a.example.com", "whsec_aHVzaA==", "Secret"}, {"https://a.example.com", "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "Secret"},
	} {
		_, err := New(storetest.NewMemory(), Options{URL: c.url, Secret: c.secret})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q, %q: got %v, want option %s refused and nothing repeated", c.url, c.secret, err, c.want)
		}
	}
	if _, err := New(struct{ pawl.Store }{storetest.NewMemory()}, Options{URL: "https://a.example.com", Secret: secret}); err == nil {
		t.Error("a store without an outbox: got no error")
	}
}

// TestStopInAnyOrder: without Start, twice, and Start after it.
func TestStopInAnyOrder(t *testing.T) {
	d := newDesk(t, nil)
	d.waits("a")
	n := d.notifier(nil)
	n.Stop()
	n.Stop()
	n.Start()
	d.rc.quiet()
	var wg sync.WaitGroup
	other := d.notifier(nil)
	for range 8 {
		wg.Go(other.Start)
		wg.Go(other.Stop)
	}
	wg.Wait()
}
