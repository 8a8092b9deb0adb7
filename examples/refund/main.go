// Command refund has an agent ask for refunds, of which those above 100.00 need a yes. The
// small one goes out at once. The large one waits, whatever the model says, until Mara agrees
// to exactly this refund; it is sent once, and her yes is used up by it. A third one she
// turns down. The shop is a pretend one with a ledger of its own, which has the last word.
//
//	go run ./examples/refund
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/sqlite"
)

//go:embed pawl.yaml
var contracts string

func main() {
	if err := play(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "refund:", err)
		os.Exit(1)
	}
}

// A desk is an agent's access to the shop, through pawl.
type desk struct {
	ex  *pawl.Executor
	out io.Writer
}

func play(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "refund-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	box, url, stop, err := shop(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	store, err := sqlite.Open(filepath.Join(dir, "pawl.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	file, err := contract.Parse("pawl.yaml", []byte(strings.ReplaceAll(contracts, "http://127.0.0.1:4110", url)), nil)
	if err != nil {
		return err
	}
	defer file.Close()
	tools, err := file.Tools()
	if err != nil {
		return err
	}
	d := &desk{pawl.New(store, &pawl.Options{Log: slog.New(slog.DiscardHandler)}), out}
	defer d.ex.Stop(ctx)
	for i := range tools {
		if err := d.ex.Register(&tools[i]); err != nil {
			return err
		}
	}

	if _, err := d.ask(ctx, "1", `{"order_id":"A-1","amount":49.90,"currency":"EUR","reason":"arrived broken"}`); err != nil {
		return err
	}
	large, err := d.ask(ctx, "2", `{"order_id":"A-2","amount":149.00,"currency":"EUR","reason":"arrived broken"}`)
	if err != nil {
		return err
	}
	if _, err := d.ask(ctx, "2", `{"order_id":"A-2","amount":149,"currency":"eur","reason":"my manager has approved it"}`); err != nil {
		return err
	}
	if err := d.decide(ctx, large, pawl.ChoiceApprove, "the photos show it"); err != nil {
		return err
	}
	for range 2 {
		if _, err := d.ask(ctx, "2", `{"order_id":"A-2","amount":149.00,"currency":"EUR","reason":"arrived broken"}`); err != nil {
			return err
		}
	}
	third, err := d.ask(ctx, "3", `{"order_id":"A-3","amount":199.00,"currency":"EUR","reason":"arrived broken"}`)
	if err != nil {
		return err
	}
	if err := d.decide(ctx, third, pawl.ChoiceReject, "it was delivered whole"); err != nil {
		return err
	}
	if _, err := d.ask(ctx, "3", `{"order_id":"A-3","amount":199.00,"currency":"EUR","reason":"arrived broken"}`); err != nil {
		return err
	}
	effects, err := box.Effects(sandbox.Filter{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "in the shop's ledger:")
	for _, f := range effects {
		fmt.Fprintf(out, "   %s of %d.%02d %s on %s\n", f.Kind, f.Amount/100, f.Amount%100, f.Currency, f.Subject)
	}
	return nil
}

// ask is a call as the agent makes it.
func (d *desk) ask(ctx context.Context, step, args string) (pawl.ID, error) {
	env, err := d.ex.Do(ctx, pawl.Call{Tool: "issue_refund", Run: "run-1", Step: step, Args: []byte(args)})
	if err != nil {
		return pawl.ID{}, err
	}
	fmt.Fprintf(d.out, "%s: %s, %s (%s)\n", env.Effect, env.ActionTaken, env.Status, env.Reason)
	return pawl.ParseID(env.OperationID)
}

// decide is what Mara does with `pawl reviews`: she looks at the exact call and at what can be
// decided, and decides about the version that she has seen.
func (d *desk) decide(ctx context.Context, id pawl.ID, choice pawl.Choice, why string) error {
	review, err := d.ex.Review(ctx, "", id)
	if err != nil {
		return err
	}
	env, err := d.ex.Decide(ctx, "", id, pawl.Decision{Choice: choice, Who: "Mara", Why: why, Version: review.Operation.Version})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "   Mara: %s, %s: %s (%s)\n", choice, why, env.Status, env.Reason)
	return nil
}

// shop starts the pretend shop, where three orders were paid.
func shop(ctx context.Context, dir string) (*sandbox.Sandbox, string, func() error, error) {
	box, err := sandbox.Open(&sandbox.Options{Ledger: filepath.Join(dir, "ledger.db"), NoDemo: true})
	if err != nil {
		return nil, "", nil, err
	}
	orders := []sandbox.SeedOrder{{ID: "A-1", Amount: 20000, Currency: "EUR"}, {ID: "A-2", Amount: 20000, Currency: "EUR"}, {ID: "A-3", Amount: 20000, Currency: "EUR"}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, box.Seed(orders)); err != nil {
		return nil, "", nil, errors.Join(err, box.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- box.Serve(ctx, ln) }()
	return box, "http://" + ln.Addr().String(), func() error {
		cancel()
		return errors.Join(<-served, box.Close())
	}, nil
}
