// Command model runs the settings of the protocol model with SPIN and compares each result
// with the table: which properties hold in the whole state space of the setting, and which
// break. docs/model.md says what that proves.
//
//	go run ./model            every row of settings.tsv
//	go run ./model -quick     the rows that take seconds
//	go run ./model K0 N21     the rows whose id begins so
//	go run ./model -trace traces N03
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed pawl.pml replan.pml settings.tsv formulas.tsv
var files embed.FS

// quickRows are one row of each kind of rule, those that SPIN searches in seconds.
var quickRows = []string{
	"K03", "K17", "K24", "K28", "K30", "K32", "K40", "N03", "N12", "N13", "N17", "N21", "N25", "P10", "LX0",
	"I00", "I01", "I02", "I03", "I04", "I05", "N11",
}

func main() {
	table := flag.String("table", "settings.tsv", "settings.tsv or formulas.tsv")
	quick := flag.Bool("quick", false, "only one row of each kind, those that take seconds")
	trace := flag.String("trace", "", "folder for the shortest counterexample of each row that breaks")
	at := flag.Int("j", 2, "rows at once")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./model [flags] [ID-PREFIX ...]")
		flag.PrintDefaults()
		fmt.Fprintln(flag.CommandLine.Output(), "\nexample: go run ./model -trace traces N03")
	}
	flag.Parse()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintf(os.Stderr, "model: %s is missing: apt-get install spin gcc\n", tool)
			os.Exit(2)
		}
	}
	rows, err := rowsOf(*table)
	if err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(2)
	}
	rows = slices.DeleteFunc(rows, func(r row) bool {
		return *quick && !slices.Contains(quickRows, r.id) || flag.NArg() > 0 && !slices.ContainsFunc(flag.Args(), func(p string) bool { return strings.HasPrefix(r.id, p) })
	})
	if len(rows) == 0 {
		fmt.Fprintln(os.Stderr, "model: no row matches")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if surprises := runAll(ctx, rows, max(1, *at), *trace); surprises > 0 || ctx.Err() != nil {
		os.Exit(1)
	}
}

// runAll runs the rows, prints a line for each in their order, and returns how many
// surprised.
func runAll(ctx context.Context, rows []row, at int, trace string) int {
	start, surprises := time.Now(), 0
	results := make([]chan outcome, len(rows))
	room := make(chan struct{}, at)
	var wg sync.WaitGroup
	for i, r := range rows {
		results[i] = make(chan outcome, 1)
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			results[i] <- judge(ctx, r, trace)
		})
	}
	for i, r := range rows {
		o := <-results[i]
		verdict := "ok"
		if o.surprise != "" {
			verdict = "SURPRISE: " + o.surprise
			surprises++
		}
		fmt.Printf("%-5s %-15s %10d states %6.1fs  %s  %s\n", r.id, o.got, o.states, o.took.Seconds(), verdict, r.meaning)
	}
	wg.Wait()
	fmt.Printf("%d rows, %d surprises, %.0fs\n", len(rows), surprises, time.Since(start).Seconds())
	return surprises
}
