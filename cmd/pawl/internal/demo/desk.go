package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/sqlite"
)

// desk is everything that runs during the demo: the provider, an executor in this
// process, and workers in processes of their own.
type desk struct {
	dir    string
	keep   bool
	box    *sandbox.Sandbox
	url    string // of box
	server *server.Server
	travel *server.Server // the agency of the trips, on the same store; nil before the first one
	stop   context.CancelFunc
	served chan error
}

// turnTime is the length of an agent's turn.
const turnTime = 45 * time.Second

// lease is how long the claim of a worker that dies lasts.
const lease = 3 * time.Second

// contractURL is the upstream's address in Contract; the sandbox of the demo has another port.
const contractURL = "http://127.0.0.1:4110"

func open(ctx context.Context, keep bool) (_ *desk, err error) {
	d := &desk{keep: keep, served: make(chan error, 1)}
	defer func() {
		if err != nil {
			d.keep = false
			err = errors.Join(err, d.close())
		}
	}()
	if d.dir, err = os.MkdirTemp("", "pawl-demo-"); err != nil {
		return d, err
	}
	if d.box, err = sandbox.Open(&sandbox.Options{Ledger: filepath.Join(d.dir, "ledger.db"), NoDemo: true}); err != nil {
		return d, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return d, fmt.Errorf("listen: %w", err)
	}
	var serving context.Context
	serving, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { d.served <- d.box.Serve(serving, ln) }()
	d.url = "http://" + ln.Addr().String()
	text := strings.Replace(Contract, contractURL, d.url, 1)
	if err := os.WriteFile(d.config(), []byte(text), 0o600); err != nil {
		return d, err
	}
	d.server, err = server.Open(ctx, &server.Options{
		Config: d.config(), SQLite: &sqlite.Options{WALSize: 1 << 20},
		Executor: pawl.Options{Worker: "desk", Log: slog.New(slog.DiscardHandler)},
	})
	return d, err
}

func (d *desk) config() string { return filepath.Join(d.dir, "pawl.yaml") }

// close ends everything and removes the files, in the reverse order of open.
func (d *desk) close() error {
	var errs []error
	if d.travel != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		errs = append(errs, d.travel.Close(ctx))
	}
	if d.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		errs = append(errs, d.server.Close(ctx))
	}
	if d.stop != nil {
		d.box.Release(0)
		d.stop()
		errs = append(errs, <-d.served)
	}
	if d.box != nil {
		errs = append(errs, d.box.Close())
	}
	if d.dir != "" && !d.keep {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// play runs one scene on an order, a customer and a run of its own, counts its effects in
// the ledger and writes its timeline.
func (d *desk) play(ctx context.Context, i int, s *Scene) error {
	s.run = "run-" + fmt.Sprint(i+1)
	s.order = fmt.Sprintf("A-%d", 1182+i)
	s.email = strings.ToLower([]string{"Ana", "Ben", "Chiyo", "Dalal", "Emil", "Fay", "Gus", "Hana", "Ines", "Jon", "Kai", "Lea"}[i]) + "@example.com"
	if err := d.box.Seed([]sandbox.SeedOrder{{ID: s.order, Email: s.email, Amount: 20000, Currency: "EUR"}}); err != nil {
		return err
	}
	if err := s.play(ctx, d, s); err != nil {
		return err
	}
	if err := d.conclude(ctx, s); err != nil {
		return err
	}
	d.box.Release(0)
	return nil
}

// conclude reads what the record and the ledger say about a scene.
func (d *desk) conclude(ctx context.Context, s *Scene) error {
	effects, err := d.box.Effects(sandbox.Filter{Run: s.run, Pending: true})
	if err != nil {
		return err
	}
	s.Effects = len(effects)
	ops, err := d.operations(ctx, s)
	if err != nil {
		return err
	}
	s.Status = s.Envelope.Status
	if len(ops) > 0 {
		first := ops[len(ops)-1] // they come newest first
		s.Status, s.SettledBy = first.Status, first.SettledBy
	}
	for _, op := range ops {
		entries, err := d.server.Store().History(ctx, "", op.ID)
		if err != nil {
			return err
		}
		s.addHistory(op, entries)
	}
	requests, err := d.box.Requests(sandbox.Filter{Run: s.run})
	if err != nil {
		return err
	}
	s.addRequests(requests)
	return nil
}

// operations are the scene's in the record.
func (d *desk) operations(ctx context.Context, s *Scene) ([]*pawl.Operation, error) {
	return d.server.Store().Find(ctx, pawl.Query{Run: s.run})
}

// requests counts what reached the provider with the intent to have an effect.
func (d *desk) requests(s *Scene) (int, error) {
	list, err := d.box.Requests(sandbox.Filter{Run: s.run, Method: "POST"})
	return len(list), err
}

// fault has something go wrong with the next request to a service that has an effect.
func (d *desk) fault(service, text string) error {
	_, err := d.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: service, Method: "POST"}, Line: text})
	return err
}

// ask makes a call as the agent does, in this process.
func (d *desk) ask(ctx context.Context, s *Scene, tool, step, args string) (*pawl.Envelope, error) {
	return askOf(ctx, d.server, s, tool, step, args)
}

// askOf is ask of a server.
func askOf(ctx context.Context, at *server.Server, s *Scene, tool, step, args string) (*pawl.Envelope, error) {
	s.addAsk("", tool, args)
	env, err := at.Executor().Do(ctx, pawl.Call{Tool: tool, Args: json.RawMessage(args), Run: s.run, Step: step})
	if err != nil {
		return nil, err
	}
	s.addEnvelope("", &env)
	s.Envelope = &env
	return &env, nil
}

// worker is this program in a process of its own.
type worker struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

func (d *desk) start(ctx context.Context, args ...string) (*worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, exe, append(args, "-c", d.config(), "--lease", lease.String(), "--json")...)}
	w.cmd.Args[0] = os.Args[0]
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.err
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return w, nil
}

// startCall has a worker make a call.
func (d *desk) startCall(ctx context.Context, s *Scene, name, step, args string) (*worker, error) {
	s.addAsk(name, "issue_refund", args)
	return d.start(ctx, "call", "issue_refund", "--run", s.run, "--step", step, "--args", args)
}

// envelope waits for a worker's call.
func (w *worker) envelope() (*pawl.Envelope, error) {
	if err := w.wait(); err != nil {
		return nil, err
	}
	var env pawl.Envelope
	if err := json.Unmarshal(w.out.Bytes(), &env); err != nil {
		return nil, fmt.Errorf("worker's answer: %w: %s", err, w.err.String())
	}
	return &env, nil
}

// wait waits for a worker that ends by itself with success.
func (w *worker) wait() error {
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("worker %d: %w: %s%s", w.cmd.Process.Pid, err, w.out.String(), w.err.String())
	}
	return nil
}

// kill ends a worker as kill -9 does.
func (w *worker) kill() error {
	if err := w.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill worker: %w", err)
	}
	var ended *exec.ExitError
	if err := w.cmd.Wait(); !errors.As(err, &ended) {
		return fmt.Errorf("worker %d ended by itself: %w: %s", w.cmd.Process.Pid, err, w.err.String())
	}
	return nil
}
