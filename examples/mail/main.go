// Command mail sends two mails through a server that takes no key and cannot be asked what it
// has sent. The answer to each is lost: the first mail is out, the second never arrived. pawl
// knows neither and sends neither again. Mara looks into the server's log and decides; that
// the second was not sent she may say only when it cannot arrive any more. The server is a
// pretend one with a ledger of its own, which has the last word.
//
//	go run ./examples/mail
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/sqlite"
)

//go:embed pawl.yaml
var contracts string

func main() {
	if err := play(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mail:", err)
		os.Exit(1)
	}
}

// A desk is an agent's access to the mail server, through pawl.
type desk struct {
	ex  *pawl.Executor
	out io.Writer
}

func play(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mail-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	box, url, stop, err := server(ctx, dir)
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

	const ana, ben = `{"to":"ana@example.com","template":"refund_confirmed"}`, `{"to":"ben@example.com","template":"refund_confirmed"}`
	for _, lost := range []string{"reset after", "reset before"} {
		if _, err := box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Method: http.MethodPost, Path: "/v1/emails"}, Line: lost, Times: 1}); err != nil {
			return err
		}
	}
	first, err := d.ask(ctx, "1", ana)
	if err != nil {
		return err
	}
	second, err := d.ask(ctx, "2", ben)
	if err != nil {
		return err
	}
	if _, err := d.ask(ctx, "1", `{"to":"Ana@example.com","template":"refund_confirmed","subject":"Once more"}`); err != nil {
		return err
	}

	sent, err := box.Effects(sandbox.Filter{}) // the server's log
	if err != nil {
		return err
	}
	if err := d.decide(ctx, first, pawl.Decision{Choice: pawl.ChoiceHappened, Why: "it is in the log", Ref: sent[0].ObjectID}); err != nil {
		return err
	}
	never := pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Why: "it is not in the log"}
	if err := d.decide(ctx, second, never); err != nil {
		return err
	}
	if err := d.waitUntilSafe(ctx, second); err != nil {
		return err
	}
	if err := d.decide(ctx, second, never); err != nil {
		return err
	}
	for step, args := range []string{ana, ben} {
		if _, err := d.ask(ctx, fmt.Sprint(step+1), args); err != nil {
			return err
		}
	}
	if sent, err = box.Effects(sandbox.Filter{}); err != nil {
		return err
	}
	fmt.Fprintln(out, "in the server's ledger:")
	for _, f := range sent {
		fmt.Fprintf(out, "   %s to %s\n", f.Kind, f.Subject)
	}
	return nil
}

// ask is a call as the agent makes it.
func (d *desk) ask(ctx context.Context, step, args string) (pawl.ID, error) {
	env, err := d.ex.Do(ctx, pawl.Call{Tool: "send_email", Run: "run-1", Step: step, Args: []byte(args)})
	if err != nil {
		return pawl.ID{}, err
	}
	fmt.Fprintf(d.out, "%s: %s (%s), next %s\n", env.Effect, env.Status, env.Reason, env.NextAction)
	return pawl.ParseID(env.OperationID)
}

// decide is what Mara does with `pawl reviews`, about the version that she has seen.
func (d *desk) decide(ctx context.Context, id pawl.ID, what pawl.Decision) error {
	review, err := d.ex.Review(ctx, "", id)
	if err != nil {
		return err
	}
	what.Who, what.Version = "Mara", review.Operation.Version
	env, err := d.ex.Decide(ctx, "", id, what)
	var refused *pawl.Refusal
	switch {
	case errors.As(err, &refused):
		fmt.Fprintf(d.out, "   Mara: %s, %s: refused (%s)\n", what.Choice, what.Why, refused.Why)
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintf(d.out, "   Mara: %s, %s: %s (%s)\n", what.Choice, what.Why, env.Status, env.Reason)
	return nil
}

// waitUntilSafe waits until no request of the operation can arrive any more.
func (d *desk) waitUntilSafe(ctx context.Context, id pawl.ID) error {
	review, err := d.ex.Review(ctx, "", id)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(review.SafeAt) + 10*time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// server starts the pretend mail server.
func server(ctx context.Context, dir string) (*sandbox.Sandbox, string, func() error, error) {
	box, err := sandbox.Open(&sandbox.Options{Ledger: filepath.Join(dir, "ledger.db"), NoDemo: true})
	if err != nil {
		return nil, "", nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
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
