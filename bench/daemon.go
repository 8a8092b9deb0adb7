package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// daemon is one running `pawl serve`.
type daemon struct {
	cmd  *exec.Cmd
	host string
}

// startDaemon runs the binary on a contract file and waits until it listens. What it logs
// goes into a file beside the contract.
func startDaemon(ctx context.Context, pawl, config string) (_ *daemon, err error) {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(config), "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, pawl, "serve", "-c", config, "--listen", "127.0.0.1:0", "--json")
	cmd.Stderr = log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &daemon{cmd: cmd}
	var up struct{ URL string }
	if err := json.NewDecoder(out).Decode(&up); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("pawl serve did not come up: %s", bytes.TrimSpace(said)), d.stop())
	}
	d.host = strings.TrimPrefix(up.URL, "http://")
	return d, nil
}

// stop ends the daemon and waits for it.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return d.cmd.Wait()
}

// daemons are processes of the real binary on one store, called over HTTP.
type daemons struct {
	all      []*daemon
	clients  []*client
	buffers  [][]byte
	database int
}

// openDaemons shares the callers among n daemons.
func openDaemons(n int) func(context.Context, *order) (contestant, error) {
	return func(ctx context.Context, o *order) (contestant, error) { return startDaemons(ctx, o, n) }
}

func startDaemons(ctx context.Context, o *order, n int) (contestant, error) {
	config, err := writeContract(o)
	if err != nil {
		return nil, err
	}
	d := &daemons{buffers: make([][]byte, o.Callers), database: o.Postmaster}
	for range n {
		one, err := startDaemon(ctx, o.Pawl, config)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.all = append(d.all, one)
	}
	for i := range o.Callers {
		c, err := dial(ctx, d.all[i%n].host)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.clients = append(d.clients, c)
	}
	return d, nil
}

var succeeded = []byte(`"status":"SUCCEEDED"`)

func (d *daemons) call(_ context.Context, caller int, j *job) error {
	b := fmt.Appendf(d.buffers[caller][:0], `{"tool":%q,"run":%q,"step":%q,"args":%s}`, toolName, j.run, j.step, j.args)
	d.buffers[caller] = b
	answer, err := d.clients[caller].post("/v1/calls", b)
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, succeeded) {
		return fmt.Errorf("got %s, want a success", answer)
	}
	return nil
}

func (d *daemons) team() team {
	t := team{database: d.database}
	for _, one := range d.all {
		t.daemons = append(t.daemons, one.cmd.Process.Pid)
	}
	return t
}

func (d *daemons) close() error {
	err := closeClients(d.clients)
	for _, one := range d.all {
		err = errors.Join(err, one.stop())
	}
	return err
}
