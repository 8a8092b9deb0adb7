package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "point":
			return work(ctx, args[1:], measurePoint)
		case "fill":
			return work(ctx, args[1:], fill)
		case "crash":
			return work(ctx, args[1:], crash)
		case "start":
			return work(ctx, args[1:], firstSweep)
		case "provider":
			return serveProvider()
		}
	}
	o, err := readFlags(args)
	if err != nil {
		return err
	}
	return o.run(ctx)
}

// work does what an order says and writes what came of it to standard output. It ends
// early when its input ends, which is when the process that gave the order is gone.
func work[T any](ctx context.Context, args []string, do func(context.Context, *order) (T, error)) error {
	var o order
	if len(args) != 1 {
		return errors.New("want an order")
	}
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel(errors.New("nobody waits for the figure"))
	}()
	result, err := do(ctx, &o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// options are the flags of one run.
type options struct {
	length  time.Duration
	callers []int
	rounds  int
	only    []string
	settled int
	out     string
	json    string
	dir     string
	check   bool
}

func readFlags(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	seconds := f.Float64("seconds", 0.7, "how long each point is measured, after a third of it to warm up")
	callers := f.String("callers", "1,16,64,256", "numbers of callers")
	only := f.String("only", "", "contestants, as patterns such as sqlite/*,disk/*; default all whose means are there")
	f.IntVar(&o.rounds, "rounds", 3, "rounds, of which medians are taken")
	f.IntVar(&o.settled, "settled", 1_000_000, "settled operations in the grown store; 0 leaves growth and start-up out")
	f.StringVar(&o.out, "out", "", "Markdown file between whose markers the tables are written, and beside it the plot, as .svg")
	f.StringVar(&o.json, "json", "", "file for every figure as JSON")
	f.StringVar(&o.dir, "dir", "", "folder on the disk to measure; default the system's temporary folder")
	f.BoolVar(&o.check, "check", false, "exit with 1 if a floor is not reached")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("what is %q? Only flags are taken", f.Arg(0))
	}
	o.length = time.Duration(*seconds * float64(time.Second))
	for c := range strings.SplitSeq(*callers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(c))
		if err != nil || n < 1 || n > maxCallers {
			return nil, fmt.Errorf("-callers: %q is no number from 1 to %d", c, maxCallers)
		}
		o.callers = append(o.callers, n)
	}
	for p := range strings.SplitSeq(*only, ",") {
		if p = strings.TrimSpace(p); p != "" {
			o.only = append(o.only, p)
		}
	}
	switch {
	case o.length < time.Millisecond || o.length > time.Hour:
		return nil, errors.New("-seconds: want from 0.001 to 3600")
	case o.rounds < 1:
		return nil, errors.New("-rounds: want at least 1")
	case o.settled < 0:
		return nil, errors.New("-settled: want at least 0")
	}
	return o, nil
}

// maxCallers is what a daemon's limit on connections leaves room for.
const maxCallers = 1000
