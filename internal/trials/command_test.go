package trials

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/sandbox"
)

// do plays one line.
func (w *world) do(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	for _, table := range []map[string]func(*world, string){callCommands, recordCommands, providerCommands, executorCommands, runCommands, decisionCommands, permitCommands} {
		if f, ok := table[verb]; ok {
			f(w, strings.TrimSpace(rest))
			return
		}
	}
	w.fatalf("there is no command %q", verb)
}

// executorCommands change how calls are executed.
//
//	set TOOL/TERM VALUE           change a term of the contract file, while no executor is open
//	unset TOOL/TERM               take it away
//	copy TOOL NAME                declare a tool a second time
//	with NAME [lease=D] [batch=N] [worker=W]   how an executor or a process will be opened
//	sweep NAME                    start the sweeper of an executor
//	stop NAME                     end an executor, giving up what is out; a call by it opens it anew
//	close NAME POINT              hold an executor at a point of its store; see gate
//	closed NAME POINT             wait until it stands there
//	open NAME                     let it go on
//	lint TOOL CODE                print a weakness that lint finds in a tool, with its severity
var executorCommands = map[string]func(w *world, rest string){
	"set": func(w *world, rest string) {
		path, value, _ := strings.Cut(rest, " ")
		if value == "" {
			w.fatalf("want a value")
		}
		w.set(path, value)
	},
	"unset": func(w *world, path string) { w.set(path, "") },
	"copy": func(w *world, rest string) {
		from, to, _ := strings.Cut(rest, " ")
		w.copyTool(from, to)
	},
	"with": func(w *world, rest string) {
		words := strings.Fields(rest)
		t := w.how[words[0]]
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "lease":
				t.Lease = w.duration(value)
			case "batch":
				n, err := strconv.Atoi(value)
				w.check(err)
				t.Batch = n
			case "worker":
				t.Worker = value
			default:
				w.fatalf("%q is no option", word)
			}
		}
		w.how[words[0]] = t
	},
	"sweep": func(w *world, name string) { w.executor(name).Start() },
	"stop":  func(w *world, name string) { w.stop(name) },
	"close": func(w *world, rest string) {
		name, point, _ := strings.Cut(rest, " ")
		w.executor(name).store.close(point)
	},
	"closed": func(w *world, rest string) {
		name, point, _ := strings.Cut(rest, " ")
		w.await(w.executor(name).store.at(point).arrived, "nobody comes to "+point)
	},
	"open": func(w *world, name string) { w.executor(name).store.openAll() },
	"lint": func(w *world, rest string) {
		tool, code, _ := strings.Cut(rest, " ")
		w.lint(tool, code)
	},
}

// providerCommands move the pretend world.
//
//	seed ORDER AMOUNT CURRENCY    a paid order; its charge is ch_1001 and so on
//	mode SERVICE {…}              the contract that a service keeps; fields left out stay
//	fault [N x] METHOD PATH: LINE what becomes of the next such requests; see sandbox.Fault
//	reply METHOD PATH done|not STATUS BODY   words in place of the sandbox's, with the work
//	                              done or not; 429 asks to come again in 3 s
//	advance D                     the provider's clock
//	held N                        wait until N requests are held
//	release [first]               let them go on, or the first of them
//	happened N                    wait until the provider counts N effects
//	quiet                         wait until no request is worked on
//	down, up                      stop listening, and listen again
//	drop-idle                     close the connections that are kept for later
//	stranger METHOD PATH {…}      a request by somebody else
//	ledger                        print the effects
//	requests                      print the requests that wanted an effect
var providerCommands = map[string]func(w *world, rest string){
	"seed": func(w *world, rest string) {
		words := strings.Fields(rest)
		if len(words) != 3 {
			w.fatalf("want an order, an amount in minor units and a currency")
		}
		minor, err := strconv.ParseInt(words[1], 10, 64)
		w.check(err)
		w.check(w.provider.box.Seed([]sandbox.SeedOrder{{ID: words[0], Amount: minor, Currency: words[2]}}))
	},
	"mode": func(w *world, rest string) {
		service, text, _ := strings.Cut(rest, " ")
		m := w.provider.box.Modes()[service]
		w.check(json.Unmarshal([]byte(text), &m))
		w.check(w.provider.box.SetModes(map[string]sandbox.Mode{service: m}))
	},
	"fault": func(w *world, rest string) {
		times := 1
		if count, after, ok := strings.Cut(rest, " x "); ok {
			var err error
			times, err = strconv.Atoi(count)
			w.check(err)
			rest = after
		}
		target, line, ok := strings.Cut(rest, ": ")
		method, path, both := strings.Cut(target, " ")
		if !ok || !both {
			w.fatalf("want METHOD PATH: LINE")
		}
		_, err := w.provider.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Method: method, Path: path}, Line: line, Times: times})
		w.check(err)
	},
	"reply": func(w *world, rest string) {
		words := strings.SplitN(rest, " ", 5)
		if len(words) != 5 {
			w.fatalf("want METHOD PATH done|not STATUS BODY")
		}
		status, err := strconv.Atoi(words[3])
		w.check(err)
		w.provider.mu.Lock()
		defer w.provider.mu.Unlock()
		w.provider.replies = append(w.provider.replies, reply{words[0], words[1], words[2] == "done", status, words[4]})
	},
	"advance": func(w *world, d string) { w.check(w.provider.box.Advance(w.duration(d))) },
	"held": func(w *world, n string) {
		count, err := strconv.Atoi(n)
		w.check(err)
		w.check(w.provider.awaitHeld(count))
	},
	"release": func(w *world, which string) {
		seq := int64(0)
		if which == "first" {
			seq = w.provider.box.Held()[0]
		}
		w.provider.box.Release(seq)
	},
	"happened": func(w *world, n string) {
		count, err := strconv.Atoi(n)
		w.check(err)
		w.check(w.provider.awaitEffects(count))
	},
	"quiet": func(w *world, _ string) { w.check(w.provider.awaitQuiet()) },
	"down": func(w *world, _ string) {
		_, err := w.provider.dropIdle()
		w.check(err)
		w.provider.down()
	},
	"up": func(w *world, _ string) { w.provider.up(w.provider.addr) },
	"drop-idle": func(w *world, _ string) {
		n, err := w.provider.dropIdle()
		w.check(err)
		w.printf("%d dropped", n)
	},
	"stranger": func(w *world, rest string) {
		words := strings.SplitN(rest, " ", 3)
		status, id, err := w.provider.send(words[0], words[1], words[2])
		w.check(err)
		w.printf("%d %s", status, id)
	},
	"ledger":   func(w *world, _ string) { w.ledger() },
	"requests": func(w *world, _ string) { w.requests() },
}
