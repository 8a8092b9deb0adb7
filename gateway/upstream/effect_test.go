package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/mcptest"
)

const order = `{"order_id":"A-1","sku":"tea"}`

// TestFaults plays what can go wrong with the answer to an effect, over both transports and
// in both eras, with a tool that nobody has declared. The effect is counted at the server;
// no evidence says that it is none, and the server takes the next call in every case.
func TestFaults(t *testing.T) {
	t.Parallel()
	type row struct {
		fault   mcptest.Fault
		effects int
		stdio   string // class and proof
		http    string
	}
	const lost = "AMBIGUOUS no_answer"
	rows := []row{
		{"", 1, "SUCCEEDED result", "SUCCEEDED result"},
		{mcptest.Die, 1, lost, lost},
		{mcptest.DieBefore, 0, lost, lost},
		{mcptest.Reset, 1, lost, lost},
		{mcptest.Status400, 1, lost, lost},
		{mcptest.Status404, 1, lost, lost},
		{mcptest.Status500, 1, lost, lost},
		{mcptest.Status503, 1, lost, lost},
		{mcptest.StreamEnds, 1, lost, lost},
		{mcptest.CutJSON, 1, lost, lost},
		{mcptest.Page, 1, lost, lost},
		{mcptest.UnknownContent, 1, "AMBIGUOUS unknown_content", "AMBIGUOUS unknown_content"},
		{mcptest.TaskResult, 1, "AMBIGUOUS result_type", "AMBIGUOUS result_type"},
		{mcptest.UnknownResult, 1, "AMBIGUOUS result_type", "AMBIGUOUS result_type"},
		{mcptest.Internal, 1, "AMBIGUOUS protocol_error", "AMBIGUOUS protocol_error"},
		{mcptest.IsError, 1, "EFFECT_POSSIBLE is_error", "EFFECT_POSSIBLE is_error"},
		{mcptest.StrayLine, 1, "SUCCEEDED result", "SUCCEEDED result"},
		{mcptest.IDAsString, 1, "SUCCEEDED result", "SUCCEEDED result"},
		{mcptest.OtherID, 1, lost, lost},
		{mcptest.Doubled, 1, "SUCCEEDED result", "SUCCEEDED result"},
		{mcptest.Empty, 0, "AMBIGUOUS empty_success", "AMBIGUOUS empty_success"},
	}
	for name, make := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, yaml := make()
			for _, r := range rows {
				f, set := file(t, yaml, nil)
				tool := port(t, f, "up/place_order")
				if _, err := set.Get("up").Tools(within(t, patience), nil); err != nil {
					t.Fatal(err)
				}
				want := r.stdio
				if strings.HasPrefix(name, "http") {
					want = r.http
				}
				before := len(up.Effects(t))
				if r.fault != "" {
					up.Fail(t, r.fault)
				}
				e := sendUntil(t, tool, func() bool { return r.fault != "" && up.Failed(t) })
				if got := strings.TrimSpace(string(e.Class) + " " + e.Proof); got != want {
					t.Errorf("%s: got %s (%s, code %d, %s), want %s", r.fault, got, e.Error, e.Code, e.Body, want)
				}
				if got := len(up.Effects(t)) - before; got != r.effects {
					t.Errorf("%s: effects at the server: got %d, want %d", r.fault, got, r.effects)
				}
				if e.Class == pawl.ClassSucceeded && !strings.Contains(string(e.Result), `"content"`) {
					t.Errorf("%s: got result %s, want the server's own", r.fault, e.Result)
				}
				if strings.HasPrefix(name, "http") && (r.fault == mcptest.Die || r.fault == mcptest.DieBefore) {
					up.Exited()
					up.Start(t)
				}
				if got := ask(t, set.Get("up"), callTool("echo", `{"text":"on"}`)); !strings.Contains(got, `"on"`) {
					t.Errorf("after %s: got %s, want an echo", r.fault, got)
				}
				set.Close()
			}
		})
	}
}

// sendUntil makes one attempt, which is given up a moment after the server has met it.
func sendUntil(t *testing.T, tool pawl.Tool, met func() bool) pawl.Evidence {
	t.Helper()
	ctx, giveUp := context.WithCancel(within(t, patience))
	defer giveUp()
	answered := sendLater(t, ctx, tool)
	for !met() {
		select {
		case e := <-answered:
			return e
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case e := <-answered:
		return e
	case <-time.After(500 * time.Millisecond):
		giveUp()
		return <-answered
	}
}

// TestNothingListens: a server that is not there gets nothing, and that is proved.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	for name, make := range fixtures(t) {
		if !strings.HasPrefix(name, "http") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, yaml := make()
			f, set := file(t, yaml, nil)
			tool := port(t, f, "up/place_order")
			up.Kill(t)
			for _, when := range []string{"before a session", "in a session"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				e := send(t, ctx, tool, order)
				cancel()
				if e.Class != pawl.ClassNotSent || e.Strength != pawl.P1 {
					t.Errorf("%s: got %s %s %s, want NOT_SENT P1", when, e.Class, e.Strength, e.Proof)
				}
				if when == "before a session" {
					up.Start(t)
					ask(t, set.Get("up"), callTool("echo", `{"text":"on"}`))
					up.Kill(t)
				}
			}
			if n := len(up.Effects(t)); n != 0 {
				t.Errorf("effects: got %d, want 0", n)
			}
		})
	}
}

// TestNoSuchProgram: a child that cannot be started gets nothing.
func TestNoSuchProgram(t *testing.T) {
	t.Parallel()
	f, _ := file(t, started([]string{"/nowhere/at/all"}), nil)
	e := send(t, within(t, time.Second), port(t, f, "up/place_order"), order)
	if e.Class != pawl.ClassNotSent || e.Proof != "no_session" {
		t.Errorf("got %s %s, want NOT_SENT no_session", e.Class, e.Proof)
	}
}

// TestLateAnswer: an attempt that is listened to takes an answer that comes late.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	for name, make := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, yaml := make()
			f, set := file(t, yaml, nil)
			tool := port(t, f, "up/place_order")
			up.Fail(t, mcptest.Late)
			answered := sendLater(t, within(t, patience), tool)
			for len(up.Effects(t)) == 0 {
				time.Sleep(time.Millisecond)
			}
			// The others are served meanwhile, and what the caller's patience is does not matter.
			ask(t, set.Get("up"), callTool("echo", `{"text":"meanwhile"}`))
			up.Release(t)
			if e := <-answered; e.Class != pawl.ClassSucceeded {
				t.Errorf("got %s %s, want SUCCEEDED", e.Class, e.Proof)
			}
			if n := len(up.Effects(t)); n != 1 {
				t.Errorf("effects: got %d, want 1", n)
			}
		})
	}
}

func sendLater(t *testing.T, ctx context.Context, tool pawl.Tool) <-chan pawl.Evidence {
	t.Helper()
	op, err := operation(t, tool, order)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan pawl.Evidence, 1)
	go func() {
		answered <- tool.Port.Send(ctx, &pawl.Sending{Operation: op, Attempt: 1, Permit: time.Now()})
	}()
	return answered
}

// TestArguments: what does not fit the server's schema is refused before anything is sent,
// and the refusal does not repeat the value.
func TestArguments(t *testing.T) {
	t.Parallel()
	up := mcptest.NewStdio(t, mcptest.Legacy)
	f, set := file(t, started(up.Command()), nil)
	tool := port(t, f, "up/place_order")
	if _, err := operation(t, tool, `{"order_id":7}`); err != nil {
		t.Errorf("before the tools are known: got %v, want what the server may judge", err)
	}
	if _, err := set.Get("up").Tools(within(t, patience), nil); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"order_id":"A-1"}`:                      `required: missing properties: ["sku"]`,
		`{"order_id":"A-1","sku":{"x":"s3cr3t"}}`: `at /properties/sku: type: want "string"`,
	} {
		_, err := operation(t, tool, args)
		if !errors.Is(err, ErrArguments) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	if _, err := operation(t, tool, order); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if n := len(up.Calls(t, "")); n != 0 {
		t.Errorf("calls: got %d, want 0", n)
	}
}
