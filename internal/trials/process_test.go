package trials

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/pawl-dev/pawl"
)

// jobEnv holds the job of a process that this test starts of itself.
const jobEnv = "PAWL_TRIALS_JOB"

// A job is what such a process does: all its calls at once.
type job struct {
	Config, Store, Name string
	Terms               terms
	Calls               []pawl.Call
}

// answer is what a process tells of one call.
type answer struct {
	Envelope pawl.Envelope
	Error    string
}

// work does a job in the process that was started for it.
func work(text string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fail(err)
	}
	e, err := openExecutor(j.Config, j.Store, j.Terms.options(j.Name))
	if err != nil {
		return fail(err)
	}
	answers := make([]answer, len(j.Calls))
	var wg sync.WaitGroup
	for i, c := range j.Calls {
		wg.Go(func() {
			env, err := e.Do(context.Background(), c)
			answers[i].Envelope = env
			if err != nil {
				answers[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.close(ctx); err != nil { // waits for late answers
		return fail(err)
	}
	out := json.NewEncoder(os.Stdout)
	for _, a := range answers {
		if err := out.Encode(a); err != nil {
			return fail(err)
		}
	}
	return 0
}

// A process is this test in a process of its own.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	answer []answer
	done   bool
}

func (w *world) startProcess(name string, calls []pawl.Call) {
	j, err := json.Marshal(job{Config: w.write(), Store: w.storeAt(), Name: name, Terms: w.how[name], Calls: calls})
	w.check(err)
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), jobEnv+"="+string(j))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	w.check(err)
	p.out = bufio.NewReader(out)
	w.check(p.cmd.Start())
	w.processes[name] = p
}

// join reads the answers of a process that ends by itself.
func (p *process) join() error {
	for {
		var a answer
		line, err := p.out.ReadBytes('\n')
		if len(line) == 0 {
			break
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return err
		}
		p.answer = append(p.answer, a)
	}
	p.done = true
	return p.cmd.Wait()
}

// kill ends a process as kill -9 does.
func (p *process) kill() error {
	p.done = true
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	var ended *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &ended) {
		return fmt.Errorf("the process ended before it was killed: %w", err)
	}
	return nil
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// end sees to it that a process is gone.
func (p *process) end() {
	if !p.done {
		_ = p.kill() // it may have ended by itself
	}
}
