package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// A wish is a call as a script writes it:
//
//	TOOL [by=NAME] [run=R] [parent=R] [step=S] [again] [tenant=T] [actor=A] [id=CALL] [deadline=D] [within=D] {arguments}
//
// The run is "r" and the executor is A unless it says otherwise. The deadline is the
// turn's, within how long it may take at most where that is less. Of several names after
// by, repetitions take one after the other. $i stands for the number
// of a repetition.
type wish struct {
	by       string
	deadline time.Duration
	within   time.Duration
	call     pawl.Call
}

func (w *world) wish(text string) wish {
	head, args := text, "{}"
	if i := strings.Index(text, "{"); i >= 0 {
		head, args = text[:i], text[i:]
	}
	words := strings.Fields(head)
	if len(words) == 0 {
		w.fatalf("a call names its tool")
	}
	q := wish{by: "A", call: pawl.Call{Tool: words[0], Run: "r", Args: json.RawMessage(args)}}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "by":
			q.by = value
		case "run":
			q.call.Run = value
		case "parent":
			q.call.ParentRun = value
		case "step":
			q.call.Step = value
		case "again":
			q.call.Again = true
		case "tenant":
			q.call.Tenant = value
		case "actor":
			q.call.Actor = value
		case "id":
			q.call.Attributes = map[string]string{"tool_call_id": value}
		case "deadline":
			q.deadline = w.duration(value)
		case "within":
			q.within = w.duration(value)
		default:
			w.fatalf("%q is no word of a call", word)
		}
	}
	return q
}

func (w *world) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	w.check(err)
	return d
}

// errLate: an answer that came long after its deadline. The slack is for a busy machine.
var errLate = errors.New("the answer came after the deadline")

const slack = time.Second

// ask makes a call.
func (w *world) ask(ctx context.Context, e *executor, q wish) (pawl.Envelope, error) {
	if q.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.deadline)
		defer cancel()
	}
	began, most := time.Now(), turn+slack
	if q.deadline > 0 {
		most = q.deadline + slack
	}
	if q.within > 0 {
		most = q.within
	}
	env, err := e.Do(ctx, q.call)
	if took := time.Since(began); took > most && err == nil {
		err = fmt.Errorf("%v instead of %v: %w", took, most, errLate)
	}
	return env, err
}

// show is an envelope on one line: status, reason, what this call did, what to do next,
// and, unless it is one of many, the operation, the provider's id, and what differs.
func (w *world) show(env *pawl.Envelope, many bool) string {
	words := []string{string(env.Status), string(env.Reason), string(env.ActionTaken), string(env.NextAction)}
	if many {
		return strings.Join(words, " ")
	}
	if env.OperationID != "" {
		words = append(words, w.name(env.OperationID))
	}
	if env.ResultRef != "" {
		words = append(words, env.ResultRef)
	}
	if len(env.Differs) > 0 {
		words = append(words, "differs="+strings.Join(env.Differs, ","))
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// tell prints several answers in order of their text, equal ones once with their number.
func (w *world) tell(answers []answer) {
	var lines []string
	count := map[string]int{}
	for _, a := range answers {
		if a.Error != "" {
			w.fatalf("%s", a.Error)
		}
		w.last = &a.Envelope
		line := w.show(&a.Envelope, len(answers) > maxShown)
		if count[line]++; count[line] == 1 {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		if count[line] > 1 {
			w.printf("%d x %s", count[line], line)
		} else {
			w.printf("%s", line)
		}
	}
}

// background is a call that a script goes on beside.
type background struct {
	cancel  context.CancelFunc
	done    chan struct{}
	answers []answer
}

// maxAtOnce is how many calls of one start are made at a time.
const maxAtOnce = 50

// begin makes calls at once without waiting for them.
func (w *world) begin(name string, list []wish) {
	if len(list) == 0 {
		w.fatalf("nothing to begin")
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{cancel: cancel, done: make(chan struct{}), answers: make([]answer, len(list))}
	open := make([]*executor, len(list)) // only the script's own goroutine opens
	for i, q := range list {
		open[i] = w.executor(q.by)
	}
	w.calls[name] = b
	go func() {
		defer close(b.done)
		var wg sync.WaitGroup
		places := make(chan struct{}, maxAtOnce)
		for i, q := range list {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				env, err := w.ask(ctx, open[i], q)
				b.answers[i].Envelope = env
				if err != nil {
					b.answers[i].Error = err.Error()
				}
			})
		}
		wg.Wait()
	}()
}

// join waits for what was started.
func (w *world) join(name string) []answer {
	if p := w.processes[name]; p != nil {
		w.check(p.join())
		return p.answer
	}
	b := w.calls[name]
	if b == nil {
		w.fatalf("nothing runs under the name %s", name)
	}
	select {
	case <-b.done:
	case <-time.After(patience):
		w.fatalf("%s does not end", name)
	}
	return repeated(b.answers)
}

// outcomes prints how many answers there are of each status.
func (w *world) outcomes(answers []answer) {
	n := map[pawl.Status]int{}
	for _, a := range answers {
		if a.Error != "" {
			w.fatalf("%s", a.Error)
		}
		n[a.Envelope.Status]++
	}
	for _, s := range slices.Sorted(maps.Keys(n)) {
		w.printf("%d x %s", n[s], s)
	}
}

// repeated gives attached and replayed one word: which of the two a call beside another
// one gets is chance.
func repeated(answers []answer) []answer {
	for i := range answers {
		if a := &answers[i].Envelope.ActionTaken; *a == pawl.Attached || *a == pawl.Replayed {
			*a = "repeated"
		}
	}
	return answers
}

// wishes reads "[N x] call ..." and "[N x] CALL": as many wishes, $i numbered from 1.
func (w *world) wishes(text string) []wish {
	n := 1
	if count, rest, ok := strings.Cut(text, " x "); ok && !strings.ContainsAny(count, " {") {
		var err error
		n, err = strconv.Atoi(count)
		w.check(err)
		text = rest
	}
	list := make([]wish, n)
	for i := range list {
		list[i] = w.wish(strings.ReplaceAll(text, "$i", fmt.Sprint(i+1)))
		names := strings.Split(list[i].by, ",")
		list[i].by = names[i%len(names)]
	}
	return list
}

// callCommands make calls.
//
//	call [N x] CALL          make a call and print its envelope; N of them one after the other
//	start NAME [N x] CALL    begin a call, or N at once (at most 50 at a time), and go on
//	join NAME                wait for what was started and print the answers; attached and
//	                         replayed are both shown as repeated
//	wait NAME                the same, and print nothing
//	outcomes NAME            the same, but print only how many there are of each status
//	hang-up NAME             end the context of what was started
//	process NAME [N x] CALL  the same as start, in a process of its own
//	kill, freeze, thaw NAME  SIGKILL, SIGSTOP, SIGCONT to a process
//	told                     print what the last envelope says in words
var callCommands = map[string]func(w *world, rest string){
	"call": func(w *world, rest string) {
		var answers []answer
		for _, q := range w.wishes(rest) {
			env, err := w.ask(context.Background(), w.executor(q.by), q)
			w.check(err)
			answers = append(answers, answer{Envelope: env})
		}
		w.tell(answers)
	},
	"start": func(w *world, rest string) {
		name, call, _ := strings.Cut(rest, " ")
		w.begin(name, w.wishes(call))
	},
	"join":     func(w *world, name string) { w.tell(w.join(name)) },
	"wait":     func(w *world, name string) { w.join(name) },
	"outcomes": func(w *world, name string) { w.outcomes(w.join(name)) },
	"hang-up":  func(w *world, name string) { w.calls[name].cancel() },
	"process": func(w *world, rest string) {
		name, text, _ := strings.Cut(rest, " ")
		var calls []pawl.Call
		for _, q := range w.wishes(text) {
			calls = append(calls, q.call)
		}
		w.startProcess(name, calls)
	},
	"kill":   func(w *world, name string) { w.check(w.processes[name].kill()) },
	"freeze": func(w *world, name string) { w.check(w.processes[name].freeze()) },
	"thaw":   func(w *world, name string) { w.check(w.processes[name].thaw()) },
	"told": func(w *world, _ string) {
		w.printf("%s", w.last.Effect)
		w.printf("%s", w.last.Message)
	},
}
