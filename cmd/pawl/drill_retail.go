package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/sandbox/drill"
	"github.com/pawl-dev/pawl/sandbox/retail"
)

func newDrillRetail() *cobra.Command {
	var data, dir string
	var keep, asJSON, printContract bool
	var kill killValue
	o := &drill.Options{Pawl: itself}
	c := &cobra.Command{
		Use:   "retail",
		Short: "Play the tasks of tau-bench's retail shop",
		Long: `Play the tasks of tau-bench's retail shop: each task's true actions go through the
daemon to a pretend shop, and the shop's database must be, task by task, what it is
when each action is carried out once and nothing goes wrong. The exit code is 1 if a
single task differs.

--data is the folder with data/orders.json, data/users.json, data/products.json and
tasks_*.json, or one that has it as retail or tau-bench-v1/retail. --faults lost loses
every write's answer; mix adds faults of every kind, kills the daemon every 50 calls,
and makes calls that the tasks lack. What it prints is explained in docs/drill.md.`,
		Example: `  pawl drill retail --data tau-bench-v1/retail --faults mix --seed 7`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			out := terminal.New(c.OutOrStdout())
			if printContract {
				out.Printf("%s", retail.Contract)
				return nil
			}
			if data == "" {
				return usage("--data is missing: the folder with tau-bench's retail domain")
			}
			if o.Data, err = retail.Load(data); err != nil {
				var none *retail.NoDataError
				if errors.As(err, &none) {
					return usage("--data: %w", err)
				}
				return err
			}
			if o.Tasks > len(o.Data.Tasks) {
				return usage("--tasks: there are %d", len(o.Data.Tasks))
			}
			if dir, err = os.MkdirTemp("", "pawl-drill-"); err != nil {
				return err
			}
			defer func() {
				if !keep {
					err = errors.Join(err, os.RemoveAll(dir))
				}
			}()
			o.Dir = dir
			if c.Flags().Changed("kill-every") {
				o.KillEvery = (*drill.Every)(&kill)
			}
			talk := terminal.New(c.ErrOrStderr())
			if talk.People() {
				o.Progress = func(p drill.Progress) { showProgress(talk, o, p) }
			}
			r, err := drill.Run(c.Context(), o)
			if talk.People() {
				talk.Printf("\r\x1b[K")
			}
			if err != nil {
				if c.Context().Err() != nil {
					return errors.New("the drill was interrupted")
				}
				keep = true
				return fmt.Errorf("%w\nFiles of the drill: %s", err, dir)
			}
			if asJSON {
				err = writeJSON(out, r)
			} else {
				showDrill(out, r)
			}
			if keep || !r.OK {
				keep = true
				talk.Line("Files of the drill: ", terminal.Escape(dir))
			}
			if err == nil && !r.OK {
				err = errDrill
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&data, "data", "", "folder with the domain")
	f.Var((*faultsValue)(&o.Faults), "faults", "what goes wrong: none, lost or mix")
	o.Faults = drill.FaultsMix
	f.Uint64Var(&o.Seed, "seed", 1, "fixes what goes wrong and what is asked")
	wholeFlag(c, &o.Tasks, "tasks", 0, 1, 1<<20, "play only so many tasks, the first ones")
	wholeFlag(c, &o.AtOnce, "at-once", 48, 1, 256, "tasks that are played at the same time")
	f.StringVar(&o.Store, "store", "", "store of the daemons; a temporary SQLite file without it")
	wholeFlag(c, &o.Daemons, "daemons", 1, 1, 64, "daemons that share the store")
	f.Var(&kill, "kill-every", "kill a daemon after so many calls or so much time, such as 50 or 3s; 0 for never")
	f.BoolVar(&keep, "keep", false, "leave store, contract file and logs behind")
	f.BoolVar(&printContract, "contract", false, "print the shop's contract file instead")
	jsonFlag(c, &asJSON)
	return c
}

// itself is a command of this program.
func itself(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = os.Args[0]
	return cmd
}

// faultsValue is the value of --faults.
type faultsValue drill.Faults

func (v *faultsValue) String() string { return string(*v) }

func (*faultsValue) Type() string { return "faults" }

func (v *faultsValue) Set(text string) error {
	for _, m := range drill.Modes {
		if text == string(m) {
			*v = faultsValue(m)
			return nil
		}
	}
	return errors.New("want none, lost or mix")
}

// killValue is the value of --kill-every.
type killValue drill.Every

func (v *killValue) String() string {
	switch {
	case v.Calls > 0:
		return strconv.Itoa(v.Calls)
	case v.Time > 0:
		return v.Time.String()
	}
	return ""
}

func (*killValue) Type() string { return "calls|time" }

func (v *killValue) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		*v = killValue{Calls: n}
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 100*time.Millisecond {
		*v = killValue{Time: d}
		return nil
	}
	return errors.New("want a number of calls, or a time of at least 100ms")
}
