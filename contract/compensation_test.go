package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

const trip = `version: 1
upstreams:
  travel:
    url: http://127.0.0.1:1
tools:
  book_hotel:
    upstream: travel
    class: unsafe
    identity: {guest: text, price: decimal(2)}
    request: {method: POST, path: /hotels, body: args}
    result_ref: /id
    compensation:
      tool: cancel_hotel
      args:
        booking: result.id
        refund: args.price - 5.00
        who: "'guest ' + identity.guest"
        note: args.?note
        earlier: before
      within: 24h
      leaves: the fee of 5.00 EUR
  cancel_hotel:
    upstream: travel
    class: unsafe
    identity: [booking]
    request: {method: POST, path: /cancellations, body: args}
  send_email:
    upstream: travel
    class: unsafe
    identity: [to]
    request: {method: POST, path: /mails, body: args}
    irreversible: true
    corrective: send a correction e-mail
  look:
    upstream: travel
    class: read
    request: {path: /hotels}
`

func compiled(t *testing.T, src string) map[string]pawl.Tool {
	t.Helper()
	f, err := Parse("pawl.yaml", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]pawl.Tool{}
	for _, tool := range tools {
		byName[tool.Contract.Tool] = tool
	}
	return byName
}

func booked(c *pawl.Contract, result string) *pawl.Operation {
	return &pawl.Operation{
		Intent: pawl.Intent{
			Tool: c.Tool, Contract: c, Args: json.RawMessage(`{"guest":"Ana","price":49.90}`),
			Identity: json.RawMessage(`{"guest":"Ana","price":"49.90"}`),
		},
		State: pawl.State{Status: pawl.Succeeded, Result: json.RawMessage(result), Before: json.RawMessage(`{"rooms":3}`)},
	}
}

func TestCompensationArguments(t *testing.T) {
	t.Parallel()
	tools := compiled(t, trip)
	hotel := tools["book_hotel"]
	k := hotel.Contract.Compensation
	if k == nil || k.Tool != "cancel_hotel" || k.Within.Hours() != 24 || k.Leaves != "the fee of 5.00 EUR" {
		t.Fatalf("got %+v", k)
	}
	args, err := hotel.Port.(pawl.Compensator).Compensation(booked(&hotel.Contract, `{"id":9007199254740993}`))
	want := `{"booking":9007199254740993,"earlier":{"rooms":3},"refund":44.90,"who":"guest Ana"}`
	if err != nil || string(args) != want {
		t.Errorf("got %s, %v; want %s", args, err, want)
	}
	if _, err := hotel.Port.(pawl.Compensator).Compensation(booked(&hotel.Contract, `{"no":1}`)); err == nil || strings.Contains(err.Error(), "Ana") {
		t.Errorf("a result without an id: got %v, want an error that tells no value", err)
	}
	if got := tools["send_email"].Contract.Corrective; got != "send a correction e-mail" {
		t.Errorf("got %q", got)
	}
}

// TestCompensationIsPinned: what undoes an operation is what its contract said when it began.
func TestCompensationIsPinned(t *testing.T) {
	t.Parallel()
	old := compiled(t, trip)["book_hotel"]
	today := compiled(t, strings.Replace(trip, "booking: result.id", "booking: \"'always the same'\"", 1))["book_hotel"]
	args, err := today.Port.(pawl.Compensator).Compensation(booked(&old.Contract, `{"id":"h-1"}`))
	if err != nil || !strings.Contains(string(args), `"booking":"h-1"`) {
		t.Errorf("got %s, %v; want the booking of the old contract", args, err)
	}
}

func TestCompensationFaults(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ old, new, want string }{
		{"tool: cancel_hotel", "tool: cancel_hotels", `there is no tool "cancel_hotels"; did you mean "cancel_hotel"?`},
		{"tool: cancel_hotel", "tool: look", "look only reads"},
		{"tool: cancel_hotel", "tool: book_hotel", "a tool does not undo itself"},
		{"booking: result.id", "booking: response.body.id", "undeclared reference to 'response'"},
		{"leaves: the fee of 5.00 EUR", "leaves: the fee\n    irreversible: true", "an irreversible effect has none"},
		{"irreversible: true\n    corrective", "corrective", "corrective"},
	} {
		_, err := Parse("pawl.yaml", []byte(strings.Replace(trip, x.old, x.new, 1)), nil)
		if x.want == "corrective" {
			if err != nil {
				t.Errorf("corrective without irreversible: got %v, want it taken", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.new, err, x.want)
		}
	}
}

func TestCompensationLint(t *testing.T) {
	t.Parallel()
	src := strings.Replace(trip, "within: 24h", "within: 5m", 1)
	src = strings.Replace(src, "    corrective: send a correction e-mail\n", "", 1)
	src += strings.Replace(strings.Split(strings.Split(trip, "  cancel_hotel:")[1], "  send_email:")[0], "\n", "  book_train:\n", 1)
	f, err := Parse("pawl.yaml", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]string{}
	for _, x := range Lint(f) {
		if strings.Contains(x.Code, "compensation") || x.Code == "no_corrective" {
			got[x.Tool+" "+x.Code] = x.Message
		}
	}
	want := []string{"book_hotel short_compensation", "send_email no_corrective", "book_train no_compensation"}
	if len(got) != len(want) {
		t.Errorf("got %v, want %q", got, want)
	}
	for _, w := range want {
		if got[w] == "" {
			t.Errorf("got %v, want %s", got, w)
		}
	}
}
