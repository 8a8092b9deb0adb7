package drill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// startTime bounds the start of a daemon, stopTime its end on SIGTERM.
	startTime = time.Minute
	stopTime  = time.Minute
)

// fleet is the daemons that share the store.
type fleet struct {
	opts    *Options
	args    []string
	members []*member

	// failed ends, with a cause, when a daemon ends by itself or does not start.
	failed context.Context
	fail   context.CancelCauseFunc

	every   Every
	answers atomic.Int64
	killed  atomic.Int64
	due     chan struct{} // a kill is due
	over    chan struct{} // closed when no kill is wanted any more
	killing sync.WaitGroup
}

// member is one daemon and those that are started in its place.
type member struct {
	log string

	mu   sync.Mutex
	url  string
	up   chan struct{} // closed when url holds
	cmd  *exec.Cmd
	ends chan error // what the process ended with
	// wanted: its end is our doing.
	wanted bool
}

func newFleet(o *Options, args ...string) *fleet {
	f := &fleet{opts: o, args: args, every: *o.KillEvery, due: make(chan struct{}, 1), over: make(chan struct{})}
	f.failed, f.fail = context.WithCancelCause(context.Background())
	for i := range o.Daemons {
		f.members = append(f.members, &member{log: filepath.Join(o.Dir, fmt.Sprintf("daemon-%d.log", i+1)), up: make(chan struct{})})
	}
	return f
}

// start starts every daemon and the killing.
func (f *fleet) start(ctx context.Context) error {
	for _, m := range f.members {
		if err := f.launch(ctx, m); err != nil {
			return err
		}
	}
	if f.every != (Every{}) {
		f.killing.Go(func() { f.kill(ctx) })
	}
	return nil
}

// launch starts a daemon and waits until it says where it listens.
func (f *fleet) launch(ctx context.Context, m *member) error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start daemon: %w", err)
	}
	defer log.Close() // the process has its own
	cmd := f.opts.Pawl(f.args...)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start daemon: %w", err)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "PAWL_KEY_SECRET=the secret of a drill is none")
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start daemon: %w", err)
	}
	ends := make(chan error, 1)
	first := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, r)
		err := cmd.Wait()
		ends <- err
		m.mu.Lock()
		wanted := m.wanted || m.cmd != cmd
		m.mu.Unlock()
		if !wanted {
			f.fail(fmt.Errorf("a daemon ended by itself: %w; its log: %s", orElse(err, errEnded), m.log))
		}
	}()
	m.mu.Lock()
	m.cmd, m.ends, m.wanted = cmd, ends, false
	m.mu.Unlock()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	var said struct {
		URL string `json:"url"`
	}
	select {
	case line := <-first:
		if err := json.Unmarshal([]byte(line), &said); err != nil || said.URL == "" {
			return fmt.Errorf("a daemon did not start; its log: %s", m.log)
		}
	case <-timer.C:
		return fmt.Errorf("a daemon did not start within %v; its log: %s", startTime, m.log)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.url = said.URL
	close(m.up)
	return nil
}

var errEnded = errors.New("exit code 0")

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// url is where a daemon listens. It waits while the daemon is down.
func (f *fleet) url(ctx context.Context, n int) (string, error) {
	m := f.members[n%len(f.members)]
	for {
		m.mu.Lock()
		url, up := m.url, m.up
		m.mu.Unlock()
		if url != "" {
			return url, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// answered counts a call's answer, and has a daemon killed when its time has come.
func (f *fleet) answered() {
	if n := f.answers.Add(1); f.every.Calls > 0 && n%int64(f.every.Calls) == 0 {
		select {
		case f.due <- struct{}{}:
		default: // one is due already
		}
	}
}

func (f *fleet) kills() int { return int(f.killed.Load()) }

// kill kills the daemons in turn, each time one is due, and starts another in its place.
func (f *fleet) kill(ctx context.Context) {
	var tick <-chan time.Time
	if f.every.Time > 0 {
		ticker := time.NewTicker(f.every.Time)
		defer ticker.Stop()
		tick = ticker.C
	}
	for n := 0; ; n++ {
		select {
		case <-f.due:
		case <-tick:
		case <-f.over:
			return
		case <-ctx.Done():
			return
		}
		m := f.members[n%len(f.members)]
		if err := m.end(syscall.SIGKILL, stopTime); err != nil {
			f.fail(err)
			return
		}
		f.killed.Add(1)
		if err := f.launch(ctx, m); err != nil {
			f.fail(err)
			return
		}
	}
}

// end signals a daemon and waits until it is gone.
func (m *member) end(signal syscall.Signal, most time.Duration) error {
	m.mu.Lock()
	m.wanted = true
	if m.url != "" {
		m.url, m.up = "", make(chan struct{})
	}
	cmd, ends := m.cmd, m.ends
	m.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(signal) // it may have ended already
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-ends:
		ends <- err
		if signal == syscall.SIGTERM && err != nil {
			return fmt.Errorf("a daemon did not end well: %w; its log: %s", err, m.log)
		}
		return nil
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-ends
		return fmt.Errorf("a daemon did not end within %v; its log: %s", most, m.log)
	}
}

// stop ends the killing and then every daemon.
func (f *fleet) stop() error {
	close(f.over)
	f.killing.Wait()
	var errs []error
	for _, m := range f.members {
		errs = append(errs, m.end(syscall.SIGTERM, stopTime))
	}
	f.fail(nil)
	return errors.Join(errs...)
}
