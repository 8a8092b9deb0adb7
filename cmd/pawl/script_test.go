package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/demo"
	"github.com/pawl-dev/pawl/sandbox"
)

// scriptDesk is the sandbox of a script, once it has one.
type scriptDesk struct {
	box *sandbox.Sandbox
	url string
}

type deskKey struct{}

// exampleURL is the address in contract files that desk replaces.
const exampleURL = "http://127.0.0.1:4110"

func cmdDesk(ts *testscript.TestScript, neg bool, files []string) {
	d := ts.Value(deskKey{}).(*scriptDesk)
	if neg || d.box != nil {
		ts.Fatalf("usage: desk [FILE...], once")
	}
	var err error
	d.box, err = sandbox.Open(&sandbox.Options{Ledger: ts.MkAbs("ledger.db")})
	ts.Check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	d.url = "http://" + ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.box.Serve(ctx, ln) }()
	ts.Defer(func() {
		stop()
		ts.Check(errors.Join(<-served, d.box.Close()))
	})
	if len(files) == 0 {
		ts.Check(os.WriteFile(ts.MkAbs("pawl.yaml"), []byte(strings.ReplaceAll(demo.Contract, exampleURL, d.url)), 0o600))
	}
	for _, f := range files {
		text := strings.ReplaceAll(ts.ReadFile(f), exampleURL, d.url)
		ts.Check(os.WriteFile(ts.MkAbs(f), []byte(text), 0o600))
	}
}

// box is the script's sandbox.
func box(ts *testscript.TestScript) *sandbox.Sandbox {
	d := ts.Value(deskKey{}).(*scriptDesk)
	if d.box == nil {
		ts.Fatalf("there is no sandbox: begin with desk")
	}
	return d.box
}

func cmdFault(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: fault SERVICE LINE [TIMES]")
	}
	q := sandbox.QueuedFault{Match: sandbox.Match{Service: args[0]}, Line: args[1]}
	if len(args) == 3 {
		var err error
		q.Times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	_, err := box(ts).AddFault(q)
	ts.Check(err)
}

func cmdEffects(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: effects N [RUN]")
	}
	f := sandbox.Filter{Pending: true}
	if len(args) == 2 {
		f.Run = args[1]
	}
	list, err := box(ts).Effects(f)
	ts.Check(err)
	if got := strconv.Itoa(len(list)); got != args[0] {
		ts.Fatalf("effects in the ledger: got %s, want %s: %v", got, args[0], list)
	}
}

func cmdHeld(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: held N")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ts.Check(box(ts).AwaitHeld(ctx, n))
}

func cmdRequests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: requests N")
	}
	list, err := box(ts).Requests(sandbox.Filter{Method: "POST"})
	ts.Check(err)
	if got := strconv.Itoa(len(list)); got != args[0] {
		ts.Fatalf("requests that want an effect: got %s, want %s", got, args[0])
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got := strconv.Itoa(code); got != args[0] {
		ts.Fatalf("%s: got exit code %s, want %s\n%s%s", strings.Join(args[1:], " "), got, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// member finds a member of the JSON value on the last standard output.
func member(ts *testscript.TestScript, path string) string {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &v); err != nil {
		ts.Fatalf("stdout is not one JSON value: %v", err)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[name]; !ok {
				ts.Fatalf("there is no %q on the way of %s", name, path)
			}
		case []any:
			if name == "len" {
				return strconv.Itoa(len(x))
			}
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				ts.Fatalf("there is no element %q on the way of %s, which has %d", name, path, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("there is no %q on the way of %s", name, path)
		}
	}
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get VAR PATH")
	}
	ts.Setenv(args[0], member(ts, args[1]))
}

func cmdIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] is PATH VALUE")
	}
	if got := member(ts, args[0]); (got == args[1]) == neg {
		ts.Fatalf("%s: got %s, want %s (negated: %v)", args[0], got, args[1], neg)
	}
}

func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENTS")
	}
	c, err := sqlite3.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(errors.Join(c.Exec(args[1]), c.Close()))
}

func cmdLock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lock FILE")
	}
	c, err := sqlite3.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(c.Exec(`BEGIN IMMEDIATE`))
	ts.Defer(func() { ts.Check(c.Close()) })
}

func cmdBig(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: big FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := `{"order_id":"A-1182","amount":49.90,"currency":"EUR","reason":"`
	text += strings.Repeat("x", n-len(text)-2) + `"}`
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
