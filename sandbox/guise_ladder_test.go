package sandbox_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/storetest"
)

var update = flag.Bool("update", false, "rewrite docs/preset-drills.md")

// arguments are a call of each preset. The text of the field behind it is refused when it
// begins with "declined".
var arguments = map[string]struct{ args, declines string }{
	"stripe/v1/payment_intents.create":         {`{"amount":4990,"currency":"eur","payment_method":"pm_1","reference":"A-1"}`, "payment_method"},
	"stripe/v1/refunds.create":                 {`{"payment_intent":"pi_1","amount":4990,"reason":"requested_by_customer"}`, "payment_intent"},
	"stripe/v2/core/event_destinations.create": {`{"name":"n","type":"webhook_endpoint","event_payload":"thin","enabled_events":["a"]}`, "name"},
	"adyen/checkout/payments.create":           {`{"merchant_account":"m","reference":"A-1","value":4990,"currency":"EUR","payment_method":{"type":"scheme"},"return_url":"https://example.com"}`, "reference"},
	"adyen/checkout/payments.refund":           {`{"merchant_account":"m","payment":"P1","reference":"A-1","value":4990,"currency":"EUR"}`, "reference"},
	"paypal/v2/payments.captures.refund":       {`{"capture_id":"C1","value":"49.90","currency_code":"EUR","note_to_payer":"sorry"}`, "note_to_payer"},
	"paypal/v2/checkout/orders.capture":        {`{"order_id":"O1"}`, ""},
	"square/payments.create":                   {`{"source_id":"cnon","amount":4990,"currency":"EUR","reference_id":"A-1"}`, "source_id"},
	"square/refunds.create":                    {`{"payment_id":"P1","amount":4990,"currency":"EUR"}`, "payment_id"},
	"gocardless/payments.create":               {`{"mandate":"MD1","amount":4990,"currency":"EUR"}`, ""},
	"increase/ach_transfers.create":            {`{"account_id":"a","amount":4990,"statement_descriptor":"rent","external_account_id":"e"}`, "statement_descriptor"},
	"checkout/payments.create":                 {`{"source":{"type":"token","token":"t"},"amount":4990,"currency":"EUR","reference":"A-1"}`, "reference"},
	"checkout/payments.refund":                 {`{"payment_id":"pay_1","amount":4990,"reference":"A-1"}`, "reference"},
	"resend/emails.send":                       {`{"from":"a@example.com","to":"b@example.com","subject":"s","text":"t","reference":"A-1"}`, "subject"},
	"twilio/messages.create":                   {`{"account_sid":"AC1","from":"+1","to":"+2","body":"hello","reference":"A-1"}`, "body"},
	"sendgrid/mail.send":                       {`{"from":"a@example.com","to":"b@example.com","subject":"s","text":"t","reference":"A-1"}`, "subject"},
	"github/issues.create":                     {`{"owner":"o","repo":"r","title":"t","body":"b"}`, "title"},
	"github/issues.comments.create":            {`{"owner":"o","repo":"r","issue_number":7,"body":"b","reference":"A-1"}`, "body"},
	"slack/chat.postMessage":                   {`{"channel":"C1","text":"hello","reference":"A-1"}`, "text"},
	"google-calendar/events.insert":            {`{"calendar":"primary","summary":"s","start":"2026-12-24T18:00:00Z","end":"2026-12-24T19:00:00Z"}`, "summary"},
	"aws/ec2.RunInstances":                     {`{"image_id":"ami-1","instance_type":"t3.micro","count":1,"reference":"A-1"}`, "image_id"},
	"aws/sqs.SendMessage.fifo":                 {`{"queue_url":"https://sqs/q.fifo","message_group_id":"g","message_body":"b","reference":"A-1"}`, "message_body"},
	"aws/stepfunctions.StartExecution":         {`{"state_machine_arn":"arn:aws:states:eu-central-1:1:stateMachine:m","input":"{}","reference":"A-1"}`, "input"},
}

// A drill is one thing that goes wrong, and what may be true afterwards.
type drill struct {
	name  string
	fault string
	// before prepares the provider, with the request that pawl will send.
	before func(t *testing.T, d *played, request *pawl.Operation)
	// late lets the key's retention run out when the first answer has been recorded.
	late bool
	// declined sends arguments that the provider refuses.
	declined bool
	// effects is what the ledger shall hold if pawl adds nothing.
	effects int
}

var drills = []drill{
	{name: "answer", effects: 1},
	{name: "declined", declined: true},
	{name: "lost answer", fault: "reset after", effects: 1},
	{name: "lost request", fault: "reset before"},
	{name: "in flight", fault: "edge 504 work 1m", effects: 1},
	{name: "500 after the work", fault: "status 500 after", effects: 1},
	{name: "500 before the work", fault: "status 500 before"},
	{name: "retention over", fault: "reset after", late: true, effects: 1},
	{name: "hidden from reads", fault: "lie 400h absent; reset after", effects: 1},
	{name: "delivered twice", fault: "duplicate; reset after", effects: 1},
	{name: "key used otherwise", before: useKeyOtherwise, effects: 1},
}

// TestPresetDrills plays each preset against the guise of its provider: one effect at most
// comes of one intention, and what pawl says in the end is true in the ledger.
func TestPresetDrills(t *testing.T) {
	t.Parallel()
	if names := slices.DeleteFunc(contract.Presets(), ownReceiver); !slices.Equal(slices.Sorted(slices.Values(sandbox.Guises())), names) {
		t.Fatalf("presets %v and guises %v are not the same", names, slices.Sorted(slices.Values(sandbox.Guises())))
	}
	const page = "../docs/preset-drills.md"
	told, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	rows := map[string]string{}
	var all sync.WaitGroup
	room := make(chan struct{}, 16) // drills wait more than they work
	for _, preset := range sandbox.Guises() {
		for _, d := range drills {
			if d.declined && arguments[preset].declines == "" || d.before != nil && sandbox.DefaultMode(preset).Keys == sandbox.KeysIgnored {
				continue
			}
			all.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				t.Run(preset+"/"+d.name, func(t *testing.T) {
					row := play(t, preset, d)
					// Which rung comes first depends on the machine's load where two could settle it.
					for again := 0; again < 3 && !*update && !toldOf(string(told), preset, row); again++ {
						row = play(t, preset, d)
					}
					mu.Lock()
					defer mu.Unlock()
					rows[preset+"/"+d.name] = row
				})
			})
		}
	}
	all.Wait()
	var b strings.Builder
	b.WriteString(drillsHead)
	for _, preset := range sandbox.Guises() {
		fmt.Fprintf(&b, "\n## `%s`\n\n| what goes wrong | status | settled by | effects |\n|---|---|---|---|\n", preset)
		for _, d := range drills {
			b.WriteString(rows[preset+"/"+d.name])
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !*update && string(told) != b.String() {
		t.Errorf("docs/preset-drills.md is not what the drills do: look at what changed, then go test ./sandbox -run TestPresetDrills -update\n%s", b.String())
	}
}

// toldOf reports whether the page has a row for a preset.
func toldOf(page, preset, row string) bool {
	_, section, _ := strings.Cut(page, "\n## `"+preset+"`\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return strings.Contains(section, row)
}

const drillsHead = `# Preset drills

Each [preset](presets.md) against the sandbox [in the guise of its provider](sandbox.md#in-the-guise-of-providers): what
goes wrong with the first request, what pawl says in the end, and what the provider's ledger holds. UNKNOWN in
this table is an operation that a person is asked about. ` + "`TestPresetDrills`" + ` plays and writes it, and fails where a
statement is not true in the ledger or an intention has more than one effect.

- *lost request*, *500 before the work*: nothing was done; only a resend can have the effect.
- *in flight*: a proxy gives up while the provider works on for a minute.
- *500 after the work*: the provider has done it and says that it failed; a provider that keeps errors repeats that.
- *retention over*: nobody looks until the key is forgotten.
- *hidden from reads*: what was done does not show for 400 hours.
- *delivered twice*: something on the way repeats the request. Two effects where the provider takes no key are its
  doing, and pawl says so to a person.
- *key used otherwise*: somebody else has used our key with other parameters.
`

// ownReceiver reports whether a preset is of services that run pawl's own receiver.
func ownReceiver(name string) bool { return strings.HasPrefix(name, "pawl-receiver/") }

// played is one provider and one executor on one clock that only the drill moves.
type played struct {
	preset  string
	ahead   atomic.Int64
	sandbox *sandbox.Sandbox
	url     string
	store   *storetest.Memory
	ex      *pawl.Executor
	changed chan struct{}
	entries atomic.Int64
}

func (d *played) now() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) }

// advance moves both clocks.
func (d *played) advance(by time.Duration) {
	d.ahead.Add(int64(by))
	if err := d.sandbox.Advance(by); err != nil {
		panic(err)
	}
}

func start(t *testing.T, preset string, late bool) *played {
	t.Helper()
	d := &played{preset: preset, changed: make(chan struct{}, 1), store: storetest.NewMemory()}
	d.store.SetClock(d.now)
	var err error
	if d.sandbox, err = sandbox.Open(&sandbox.Options{NoDemo: true, Ledger: filepath.Join(inMemory(t), "ledger.db")}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.sandbox.Handler())
	d.url = server.URL
	provider, rest, _ := strings.Cut(preset, "/")
	base, upstream := server.URL+"/as/"+provider, "use: "+provider+", url: "
	if provider == "aws" {
		service, _, _ := strings.Cut(rest, ".")
		base += "/" + service
		upstream = `aws: {service: ` + service + `, region: eu-central-1, access_key_id: "${env:ID}", secret_access_key: "${env:SECRET}"}, url: `
	}
	src := "version: 1\nupstreams:\n  there: {" + upstream + base + "}\ntools:\n  it:\n    use: " + preset +
		"\n    upstream: there\n    timeout: 3s\n    linger: 200ms\n    min_time: 10ms\n"
	f, err := contract.Parse("pawl.yaml", []byte(src), &contract.Options{Getenv: func(string) (string, bool) { return "a-credential-of-nobody", true }})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	d.ex = pawl.New(d.store, &pawl.Options{
		SweepEvery: 5 * time.Millisecond, Reserve: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Observers: []*pawl.Observer{{Changed: func(_ context.Context, op *pawl.Operation, e *pawl.Entry) {
			if late && e.Event == string(pawl.EventAnswer) && e.Attempt == 1 {
				d.advance(op.Contract.Retention + 25*time.Hour)
			}
			d.entries.Add(1)
			select {
			case d.changed <- struct{}{}:
			default:
			}
		}}},
	})
	if err := d.ex.Register(&tools[0]); err != nil {
		t.Fatal(err)
	}
	d.ex.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d.ex.Stop(ctx)
		f.Close()
		if err := d.sandbox.Close(); err != nil { // ends what still waits
			t.Error(err)
		}
		server.Close()
	})
	return d
}

// inMemory is a folder for what need not survive the machine.
func inMemory(t *testing.T) string {
	t.Helper()
	if fi, err := os.Stat("/dev/shm"); err != nil || !fi.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "pawl-drill-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// call makes the call and returns its operation.
func (d *played) call(t *testing.T, args string) *pawl.Operation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	env, err := d.ex.Do(ctx, pawl.Call{Tool: "it", Run: "run-1", Step: "1", Args: []byte(args)})
	if err != nil {
		t.Fatal(err)
	}
	if env.OperationID == "" {
		t.Fatalf("got no operation: %s %s", env.Reason, env.Message)
	}
	id, err := pawl.ParseID(env.OperationID)
	if err != nil {
		t.Fatal(err)
	}
	return d.read(t, id)
}

func (d *played) read(t *testing.T, id pawl.ID) *pawl.Operation {
	t.Helper()
	op, err := d.store.Get(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// settle moves the clock to each time at which something is due, until the operation is
// settled or a person is asked.
func (d *played) settle(t *testing.T, op *pawl.Operation) *pawl.Operation {
	t.Helper()
	for range 400 {
		seen := d.entries.Load()
		op = d.read(t, op.ID)
		if !op.Status.Open() || !op.Review.IsZero() {
			return op
		}
		if op.Lease.IsZero() && !op.Due.IsZero() {
			if wait := op.Due.Sub(d.now()); wait > 0 {
				d.advance(wait + time.Millisecond)
			}
		}
		for d.entries.Load() == seen {
			select {
			case <-d.changed:
			case <-time.After(10 * time.Second):
				t.Fatalf("nothing moves: %s %s, due %v, now %v", op.Status, op.Reason, op.Due, d.now())
			}
		}
	}
	t.Fatalf("still %s %s after 400 moves", op.Status, op.Reason)
	return nil
}

// play runs one drill and returns its row.
func play(t *testing.T, preset string, c drill) string {
	args := arguments[preset].args
	if c.declined {
		field := `"` + arguments[preset].declines + `":"`
		args = strings.Replace(args, field, field+"declined ", 1)
	}
	d := start(t, preset, c.late)
	if c.before != nil {
		c.before(t, d, start(t, preset, false).call(t, args))
	}
	if c.fault != "" {
		if _, err := d.sandbox.AddFault(sandbox.QueuedFault{Line: c.fault, Match: sandbox.Match{Service: preset, Method: "POST"}}); err != nil {
			t.Fatal(err)
		}
	}
	op := d.settle(t, d.call(t, args))
	d.advance(time.Hour) // what is under way has landed
	effects, err := d.sandbox.Effects(sandbox.Filter{Service: preset})
	if err != nil {
		t.Fatal(err)
	}
	requests := asked(t, d.sandbox, preset)
	allowed := max(1, c.effects)
	if c.name == "delivered twice" && d.sandbox.Modes()[preset].Keys == sandbox.KeysIgnored {
		allowed = 2
	}
	if len(effects) > allowed || len(effects) < c.effects {
		t.Errorf("got %d effects, want %d to %d", len(effects), c.effects, allowed)
	}
	switch {
	case op.Status == pawl.Succeeded && len(effects) == 0, op.Status == pawl.FailedNoEffect && len(effects) > 0:
		t.Errorf("got %s with %d effects", op.Status, len(effects))
	case op.Status.Open() && op.Review.IsZero():
		t.Errorf("got %s that nobody is asked about", op.Status)
	}
	if k := op.Contract; k.Retention == 0 && requests > 1 && c.before == nil {
		t.Errorf("got %d requests without a retention, want 1", requests)
	}
	if c.late && requests > 1 {
		t.Errorf("got %d requests, the last past the key's retention", requests)
	}
	by := string(op.SettledBy)
	if op.Status.Open() {
		by = "a person is asked (" + string(op.ReviewReason) + ")"
	}
	return fmt.Sprintf("| %s | %s | %s | %d |\n", c.name, op.Status, strings.ReplaceAll(by, "_", " "), len(effects))
}

// asked counts the requests of the operation itself that pawl sent.
func asked(t *testing.T, s *sandbox.Sandbox, preset string) int {
	t.Helper()
	requests, err := s.Requests(sandbox.Filter{Service: preset, Method: "POST"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range requests {
		if r.Via == "" && r.Outcome != "read" && r.Outcome != "absent" && r.Run != "somebody" {
			n++
		}
	}
	return n
}

// useKeyOtherwise sends the request under the same key with another field.
func useKeyOtherwise(t *testing.T, d *played, op *pawl.Operation) {
	head, body, ok := bytes.Cut(op.Request, []byte("\n\n"))
	if !ok {
		t.Fatal("the stored request has no body")
	}
	lines := strings.Split(string(head), "\n")
	method, url, _ := strings.Cut(lines[0], " ")
	r, err := http.NewRequest(method, d.url+url[strings.Index(url, "/as/"):], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	r.Header.Set("Pawl-Run", "somebody")
	if strings.HasPrefix(string(body), "{") {
		body = bytes.Replace(body, []byte("{"), []byte(`{"somebody":"else",`), 1)
		body = bytes.Replace(body, []byte(`,}`), []byte(`}`), 1)
	} else {
		body = append(body, "&somebody=else"...)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode >= 300 {
		t.Fatalf("the other use was answered %d %s", res.StatusCode, answer)
	}
}
