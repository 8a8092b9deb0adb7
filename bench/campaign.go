package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// campaign is one run: the means that its points share, and what was measured.
type campaign struct {
	*options
	self     string // this program
	dir      string
	pawl     string
	provider *child
	cluster  *cluster // nil where nobody needs PostgreSQL, or it is not installed
	entries  []*entry

	result
}

// result is what a campaign found.
type result struct {
	Machine machine   `json:"machine"`
	Figures figures   `json:"figures"`
	Starts  []startup `json:"starts"`
	Settled int       `json:"settled"`
}

func (o *options) run(ctx context.Context) (err error) {
	c := &campaign{options: o}
	if c.entries, err = o.choose(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.measure(ctx); err != nil {
		return err
	}
	return c.report()
}

// choose picks the contestants that the flags ask for.
func (o *options) choose() ([]*entry, error) {
	var chosen []*entry
	used := make(map[string]bool)
	for i := range entries {
		e := &entries[i]
		wanted := len(o.only) == 0
		for _, pattern := range o.only {
			if fits, err := path.Match(pattern, e.name); err != nil {
				return nil, fmt.Errorf("-only: %q: %w", pattern, err)
			} else if fits {
				wanted, used[pattern] = true, true
			}
		}
		if wanted && (!e.grown || o.settled > 0) {
			chosen = append(chosen, e)
		}
	}
	for _, pattern := range o.only {
		if !used[pattern] {
			return nil, fmt.Errorf("-only: no contestant is called %q", pattern)
		}
	}
	return chosen, nil
}

func (c *campaign) open(ctx context.Context) (err error) {
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp(c.options.dir, "pawl-bench-"); err != nil {
		return err
	}
	// A database server runs as another user and has its folder in here.
	if err := os.Chmod(c.dir, 0o755); err != nil {
		return err
	}
	if inMemory(c.dir) {
		fmt.Fprintf(os.Stderr, "bench: %s is in memory, where a sync costs nothing: name a folder on a disk with -dir\n", c.dir)
	}
	c.Machine = describe()
	c.Settled = c.settled
	if err := c.build(ctx); err != nil {
		return fmt.Errorf("build pawl: %w", err)
	}
	if c.provider, err = c.spawn(ctx, "provider"); err != nil {
		return err
	}
	return c.openCluster(ctx)
}

// openCluster starts PostgreSQL where a contestant needs it. If it is not installed, these
// contestants are left out, unless they were asked for by name.
func (c *campaign) openCluster(ctx context.Context) (err error) {
	needed := func(e *entry) bool { return e.group() == "postgres" }
	if !slices.ContainsFunc(c.entries, needed) {
		return nil
	}
	c.cluster, err = startCluster(ctx, c.dir)
	if err != nil && len(c.only) == 0 {
		fmt.Fprintln(os.Stderr, "bench: without PostgreSQL:", err)
		c.entries = slices.DeleteFunc(c.entries, needed)
		return nil
	} else if err != nil {
		return err
	}
	c.Machine.Versions["PostgreSQL"] = c.cluster.version
	return nil
}

// build makes the binary in its own module, from the versions that it ships with.
func (c *campaign) build(ctx context.Context) error {
	folder, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pawl-dev/pawl").Output()
	if err != nil {
		return fmt.Errorf("find its module (run bench in its own folder): %w", err)
	}
	c.pawl = filepath.Join(c.dir, "pawl")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", c.pawl, "./cmd/pawl")
	cmd.Dir = strings.TrimSpace(string(folder))
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

func (c *campaign) close() error {
	var err error
	if c.cluster != nil {
		c.cluster.close()
	}
	if c.provider != nil {
		err = c.provider.end()
	}
	if c.dir != "" {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}

// measure plays the rounds: in each, for each number of callers, every contestant once.
func (c *campaign) measure(ctx context.Context) error {
	if c.hasGrown() {
		if err := c.fillGrown(ctx); err != nil {
			return err
		}
	}
	for round := range c.rounds {
		for _, callers := range c.callers {
			for _, e := range c.entries {
				if !e.takes(callers) {
					continue
				}
				f, err := c.point(ctx, e, callers)
				if err != nil {
					return fmt.Errorf("%s with %d callers: %w", e.name, callers, err)
				}
				f.Contestant, f.Callers, f.Round = e.name, callers, round
				c.Figures = append(c.Figures, f)
				fmt.Fprintf(os.Stderr, "%d/%d  %-24s %3d callers %9.0f/s  p50 %-9s p99 %-9s cpu %-9s %5.1f kB  %5.2f flushes  %3.0f MB\n", round+1, c.rounds, e.name, callers,
					f.PerSecond, short(f.P50), short(f.P99), short(f.CPU), f.Written/1e3, f.Flushes, float64(f.Memory)/1e6)
			}
		}
	}
	if c.hasGrown() {
		return c.startUp(ctx)
	}
	return nil
}

func (c *campaign) hasGrown() bool {
	for _, e := range c.entries {
		if e.grown {
			return true
		}
	}
	return false
}

// grownDir is the folder of the store with many settled operations.
func (c *campaign) grownDir() string { return filepath.Join(c.dir, "grown") }

func (c *campaign) point(ctx context.Context, e *entry, callers int) (*figure, error) {
	o := &order{
		Contestant: e.name, Callers: callers, Warm: c.length / 3, Length: c.length,
		Dir: filepath.Join(c.dir, "point"), Pawl: c.pawl, Provider: c.provider.said,
	}
	if e.grown {
		o.Dir = c.grownDir()
	} else {
		defer os.RemoveAll(o.Dir)
	}
	f := &figure{}
	if e.group() != "postgres" {
		return f, c.do(ctx, "point", o, f)
	}
	database, drop, err := c.cluster.database(ctx)
	if err != nil {
		return nil, err
	}
	o.Database, o.Postmaster = database, c.cluster.postmaster
	return f, errors.Join(c.do(ctx, "point", o, f), drop())
}

// do has a process of its own work on an order.
func (c *campaign) do(ctx context.Context, command string, o *order, result any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.self, command, string(text))
	in, err := cmd.StdinPipe() // its end tells the process that this one is gone
	if err != nil {
		return err
	}
	defer in.Close()
	cmd.Cancel = in.Close
	cmd.WaitDelay = 30 * time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return json.Unmarshal(out.Bytes(), result)
}

// child is a process that runs until its input ends.
type child struct {
	cmd  *exec.Cmd
	in   io.Closer
	said string // its first line
}

func (c *campaign) spawn(ctx context.Context, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, c.self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &child{cmd: cmd, in: in}
	if _, err := fmt.Fscanln(out, &p.said); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", strings.Join(args, " "), err), p.end())
	}
	return p, nil
}

func (p *child) end() error {
	p.in.Close()
	return p.cmd.Wait()
}

// short is a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.2fµs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0fµs", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2fms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
}
