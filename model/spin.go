package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// outcome is what came of one row.
type outcome struct {
	got      string
	states   int
	took     time.Duration
	surprise string
}

// judge runs a row: once with every property on, and where it breaks once for each property
// that is expected to.
func judge(ctx context.Context, r row, trace string) outcome {
	start := time.Now()
	o, err := judged(ctx, r, trace)
	if err != nil {
		o.surprise = err.Error()
	}
	o.took = time.Since(start)
	return o
}

func judged(ctx context.Context, r row, trace string) (o outcome, err error) {
	how := run{model: "pawl.pml", flags: r.flags("PROP=0"), large: r.states > 200_000}
	switch r.check {
	case "live":
		how = run{model: "pawl.pml", flags: r.flags("PROP=9", "LIVE"), live: true}
	case "replan":
		how = run{model: "replan.pml", flags: r.flags()}
	}
	found, err := how.spin(ctx)
	if err != nil {
		return o, err
	}
	o.states = found.states
	o.got = "HOLDS"
	if found.errors {
		o.got = "BREAKS"
	}
	switch {
	case found.errors == r.holds:
		return o, fmt.Errorf("expected %s", r.expected())
	case !found.errors && !found.complete:
		return o, errors.New("the search was not complete")
	case r.check != "safety" || r.holds:
		return o, nil
	}
	var broken []int
	for i, p := range r.breaks {
		one := run{model: "pawl.pml", flags: r.flags(fmt.Sprintf("PROP=%d", p)), shortest: trace != "" && i == 0}
		found, err := one.spin(ctx)
		if err != nil {
			return o, err
		}
		if found.errors {
			broken = append(broken, p)
		}
		if found.trace != "" {
			if err := write(trace, r, p, found.trace); err != nil {
				return o, err
			}
		}
	}
	o.got = strings.TrimSpace("BREAKS " + properties(broken))
	if !slices.Equal(broken, r.breaks) {
		return o, fmt.Errorf("expected %s", r.expected())
	}
	return o, nil
}

func write(folder string, r row, property int, trace string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# %s: %s\n# %s\n%s", r.id, r.meaning, strings.Join(r.macros, " "), trace)
	return os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-P%d.txt", r.id, property)), []byte(text), 0o644)
}

// run is one run of SPIN.
type run struct {
	model    string
	flags    []string
	live     bool
	shortest bool
	// large: the state space takes longer to search than its program to optimise.
	large bool
}

// found is what SPIN says.
type found struct {
	errors   bool
	states   int
	complete bool
	trace    string
}

var (
	errorsLine = regexp.MustCompile(`errors: (\d+)`)
	statesLine = regexp.MustCompile(`([\d.e+]+) states, stored`)
	eventLine  = regexp.MustCompile(`^ *(LOG|REM|NET|TIME|W[12]|HUM|SAGA|OPS) `)
)

func (r run) spin(ctx context.Context) (found, error) {
	dir, err := os.MkdirTemp("", "pawl-model-")
	if err != nil {
		return found{}, err
	}
	defer os.RemoveAll(dir)
	text, err := files.ReadFile(r.model)
	if err != nil {
		return found{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, r.model), text, 0o644); err != nil {
		return found{}, err
	}
	do := func(name string, args ...string) (string, error) {
		c := exec.CommandContext(ctx, name, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := do("spin", append(slices.Clone(r.flags), "-a", r.model)...); err != nil {
		return found{}, fmt.Errorf("spin: %w: %s", err, tail(out))
	}
	compile := []string{"-w", "-O0", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=7000", "-o", "pan", "pan.c"}
	search := []string{"-E", "-m300000"}
	if r.large {
		compile[1] = "-O2" // worth its time
	}
	if r.live {
		compile[1], compile[2] = "-O2", "-DNFAIR=3"
		search = []string{"-a", "-f", "-E", "-m400000"}
	}
	if r.shortest {
		compile = append([]string{"-DBFS"}, compile...)
	}
	if out, err := do("gcc", compile...); err != nil {
		return found{}, fmt.Errorf("gcc: %w: %s", err, tail(out))
	}
	out, err := do(filepath.Join(dir, "pan"), search...)
	errs, states := errorsLine.FindStringSubmatch(out), statesLine.FindStringSubmatch(out)
	if errs == nil || states == nil {
		return found{}, fmt.Errorf("pan ended without a result: %w: %s", err, tail(out))
	}
	n, err := strconv.ParseFloat(states[1], 64)
	if err != nil {
		return found{}, fmt.Errorf("pan: states: %w", err)
	}
	f := found{
		errors: errs[1] != "0", states: int(n),
		complete: !strings.Contains(out, "Search not completed") && !strings.Contains(out, "max search depth too small"),
	}
	if f.errors && r.shortest {
		out, _ := do("spin", append(slices.Clone(r.flags), "-t", r.model)...) // it ends at the failed assertion
		for line := range strings.SplitSeq(out, "\n") {
			if eventLine.MatchString(line) || strings.Contains(line, "assertion:") {
				f.trace += strings.TrimSpace(line) + "\n"
			}
		}
	}
	return f, nil
}

func tail(s string) string {
	if len(s) > 500 {
		s = s[len(s)-500:]
	}
	return strings.TrimSpace(s)
}
