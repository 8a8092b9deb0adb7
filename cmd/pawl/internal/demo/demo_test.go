package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDemoFailsLoudly books a refund behind pawl's back: the ledger knows, so the demo
// must fail and say so.
func TestDemoFailsLoudly(t *testing.T) {
	t.Parallel()
	behind := func(ctx context.Context, d *desk, s *Scene) error {
		if _, err := d.ask(ctx, s, "issue_refund", "1", s.refund("10.00", "EUR", "x")); err != nil {
			return err
		}
		contract, err := os.ReadFile(d.config())
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(contract), "    url: ")
		url, _, _ := strings.Cut(rest, "\n")
		body := strings.NewReader(fmt.Sprintf(`{"order_id":%q,"amount":10,"currency":"EUR"}`, s.order))
		req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/refunds", body)
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Pawl-Run", s.run)
		req.Close = true // leaves no idle connection
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != 201 {
			return fmt.Errorf("book behind pawl's back: %d %s", resp.StatusCode, raw)
		}
		return nil
	}
	var out bytes.Buffer
	list := []*Scene{{Name: "behind", Expected: 1, title: "Behind pawl's back", play: behind}}
	r, err := run(t.Context(), &Options{Show: terminal.New(&out)}, list)
	if err != nil {
		t.Fatal(err)
	}
	if r.OK || r.Scenes[0].OK() {
		t.Errorf("got ok, want a failure: %d effects, expected %d", r.Scenes[0].Effects, r.Scenes[0].Expected)
	}
	if r.Scenes[0].Status != pawl.Succeeded {
		t.Errorf("got %s in the record, want SUCCEEDED: the record knows nothing of it", r.Scenes[0].Status)
	}
	for _, want := range []string{"2 effects, WRONG, expected 1", "THE DEMO FAILED: 2 effects in the ledger, 1 expected"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got no %q in\n%s", want, out.String())
		}
	}
}

func TestContractIsSound(t *testing.T) {
	t.Parallel()
	for _, text := range []string{Contract, tripContract} {
		f, err := contract.Parse("pawl.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := strings.Count(text, contractURL); got != 1 {
			t.Errorf("got %d places with the upstream's address, want 1", got)
		}
	}
}
