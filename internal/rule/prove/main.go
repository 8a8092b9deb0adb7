// Prove switches the rules off, one at a time, and shows that a test of each fails.
//
//	go run ./internal/rule/prove [-only NAME] [-simulation N]
//
// It builds the tests with the tag mutants and prints a line per rule: its switch, its
// number, the test, and how long it took to fail. A test that fails with every rule on, or
// passes with its rule off, makes the exit status 1.
//
// With -simulation it lets TestSimulation play up to N schedules instead, and prints which
// rules it misses. What it does not miss is no failure: it has to be kept by other tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/rule"
)

const (
	atOnce  = 2
	patient = 2 * time.Minute // with a test that hangs
)

func main() {
	only := flag.String("only", "", "prove the rule with this switch alone")
	schedules := flag.Int("simulation", 0, "play this many schedules of the simulation instead of the named tests")
	flag.Parse()
	unproven, err := prove(*only, *schedules)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
	}
	if err != nil || unproven > 0 {
		os.Exit(1)
	}
}

func prove(only string, schedules int) (unproven int, err error) {
	switches, err := rule.Switches()
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "pawl-rules-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	p := &prover{folder: folder, passed: map[string]error{}}
	var mine []rule.Switch
	for _, s := range switches {
		if schedules > 0 {
			if s.Package != "." {
				continue // the simulation has a provider and stores of its own
			}
			s.Test = "TestSimulation"
		}
		if only == "" || only == s.Name {
			mine = append(mine, s)
		}
	}
	if len(mine) == 0 {
		return 0, fmt.Errorf("no rule has the switch %q", only)
	}
	for _, s := range mine {
		if err := p.build(s.Package); err != nil {
			return 0, err
		}
	}
	lines := make([]chan string, len(mine))
	turns := make(chan struct{}, atOnce)
	var mu sync.Mutex
	for i, s := range mine {
		lines[i] = make(chan string, 1)
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			show := p.named
			if schedules > 0 {
				show = func(s rule.Switch) (string, bool) { return p.simulate(s, schedules) }
			}
			text, ok := show(s)
			if !ok {
				mu.Lock()
				unproven++
				mu.Unlock()
			}
			lines[i] <- fmt.Sprintf("%-25s %-9s %-52s %s", s.Name, s.Rule, s.Test, text)
		}()
	}
	for _, line := range lines {
		fmt.Println(<-line)
	}
	mu.Lock()
	defer mu.Unlock()
	fmt.Printf("%d rules, %d missed by no test\n", len(mine), unproven)
	if schedules > 0 {
		return 0, nil
	}
	return unproven, nil
}

// prover runs tests that were built once per package.
type prover struct {
	folder string
	mu     sync.Mutex
	passed map[string]error // by package and test, with every rule on
}

func (p *prover) binary(pkg string) string {
	return filepath.Join(p.folder, strings.NewReplacer("/", "_", ".", "root").Replace(pkg)+".test")
}

func (p *prover) build(pkg string) error {
	if _, err := os.Stat(p.binary(pkg)); err == nil {
		return nil
	}
	out, err := exec.Command("go", "test", "-c", "-tags", "mutants", "-o", p.binary(pkg), "./"+pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build tests of %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// run runs one test with a rule off, or with none off.
func (p *prover) run(s rule.Switch, off string, args ...string) (output string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patient+time.Minute)
	defer cancel()
	parts := strings.Split(s.Test, "/")
	for i := range parts {
		parts[i] = "^" + parts[i]
	}
	parts[0] += "$"
	cmd := exec.CommandContext(ctx, p.binary(s.Package), append(args, "-test.v", "-test.timeout", patient.String(), "-test.run", strings.Join(parts, "/"))...)
	cmd.Dir = s.Package
	cmd.Env = append(os.Environ(), "PAWL_MUTANT="+off)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	return string(out), time.Since(began), err
}

// named shows that the test of a rule passes, and fails without the rule.
func (p *prover) named(s rule.Switch) (text string, ok bool) {
	if err := p.passes(s); err != nil {
		return "NOT PROVEN: " + err.Error(), false
	}
	out, took, err := p.run(s, s.Name)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "NOT PROVEN: the test passes with the rule off", false
	case !errors.As(err, &exit) || !strings.Contains(out, "--- FAIL: ") && !strings.Contains(out, "panic: "):
		return fmt.Sprintf("NOT PROVEN: the test did not end: %v", err), false
	}
	return fmt.Sprintf("fails without it in %.2f s", took.Seconds()), true
}

// passes runs a test once with every rule on.
func (p *prover) passes(s rule.Switch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := s.Package + " " + s.Test
	if err, known := p.passed[name]; known {
		return err
	}
	out, _, err := p.run(s, "")
	test, _, _ := strings.Cut(s.Test, "/")
	switch {
	case err != nil:
		err = fmt.Errorf("the test fails with every rule on: %w", err)
	case !strings.Contains(out, "--- PASS: "+test):
		err = fmt.Errorf("the test was not run")
	}
	p.passed[name] = err
	return err
}

var brokenIn = regexp.MustCompile(`broken in seed (\d+):\n\s*(.*)`)

// simulate lets the simulation look for a schedule that breaks a promise.
func (p *prover) simulate(s rule.Switch, schedules int) (text string, ok bool) {
	out, took, _ := p.run(s, s.Name, "-simulation.seeds", fmt.Sprint(schedules))
	m := brokenIn.FindStringSubmatch(out)
	if m == nil {
		return fmt.Sprintf("not found in %d schedules", schedules), false
	}
	_, what, _ := strings.Cut(m[2], "BROKEN ")
	return fmt.Sprintf("found by seed %s in %.1f s: %s", m[1], took.Seconds(), what), true
}
