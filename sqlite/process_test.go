package sqlite

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestMain runs this binary as a process of its own when a test starts it so.
func TestMain(m *testing.M) {
	if name := os.Getenv("PAWL_TEST_PROCESS"); name != "" {
		if err := processes[name](os.Getenv("PAWL_TEST_PATH")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

var processes = map[string]func(path string) error{"race": raceProcess, "write": writeProcess}

// process is another process on the same file.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, name, path string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_TEST_PROCESS="+name, "PAWL_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{cmd, in, bufio.NewScanner(out)}
}

const raced = 200

// raceProcess begins the same identities as its twin and says which it inserted. It
// opens the file, which is new, together with it.
func raceProcess(path string) error {
	bufio.NewReader(os.Stdin).ReadString('\n')
	db, err := Open(path, small())
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for caller := range 4 {
		wg.Go(func() {
			for i := caller; i < raced; i += 4 {
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(i)})
				standing, err := db.Begin(context.Background(), op, first)
				mu.Lock()
				switch {
				case err != nil:
					fmt.Println("error", err)
				case standing == nil:
					fmt.Println("inserted", i, hex.EncodeToString(op.ID[:]))
				default:
					fmt.Println("standing", i, hex.EncodeToString(standing.Op.ID[:]))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return db.Close()
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	pair := []*process{start(t, "race", path), start(t, "race", path)}
	for _, p := range pair {
		io.WriteString(p.in, "go\n")
	}
	inserted, told := map[string]string{}, map[string][]string{}
	for _, p := range pair {
		for p.out.Scan() {
			f := strings.Fields(p.out.Text())
			switch f[0] {
			case "inserted":
				if inserted[f[1]] != "" {
					t.Errorf("identity %s was inserted twice", f[1])
				}
				inserted[f[1]] = f[2]
				told[f[1]] = append(told[f[1]], f[2])
			case "standing":
				told[f[1]] = append(told[f[1]], f[2])
			default:
				t.Errorf("process: %s", p.out.Text())
			}
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("process: %v", err)
		}
	}
	if len(inserted) != raced {
		t.Errorf("inserted: got %d identities, want %d", len(inserted), raced)
	}
	for i, ids := range told {
		if len(ids) != 2 || ids[0] != ids[1] {
			t.Errorf("identity %s: the two were told of %v, want one operation", i, ids)
		}
	}
	found, err := openTest(t, path, small()).Find(t.Context(), pawl.Query{Limit: 1000})
	if err != nil || len(found) != raced {
		t.Errorf("find: got %d operations, %v; want %d", len(found), err, raced)
	}
}

// writeProcess writes until it is killed and tells each acknowledgement.
func writeProcess(path string) error {
	db, err := Open(path, small())
	if err != nil {
		return err
	}
	var mu sync.Mutex
	tell := func(id pawl.ID, version int) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(id, version)
	}
	errs := make(chan error)
	for caller := range 8 {
		go func() {
			for n := 0; ; n++ {
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: fmt.Sprint(os.Getpid(), caller), Identity: fmt.Sprint(n)})
				if _, err := db.Begin(context.Background(), op, first); err != nil {
					errs <- err
				}
				tell(op.ID, 1)
				if err := db.Apply(context.Background(), storetest.Move(op, pawl.Succeeded, nil)); err != nil {
					errs <- err
				}
				tell(op.ID, 2)
			}
		}()
	}
	return <-errs
}

func TestKilled(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	acknowledged := map[pawl.ID]int{}
	for round := range 20 {
		p := start(t, "write", path)
		for n := 0; p.out.Scan(); n++ {
			var text string
			var version int
			if _, err := fmt.Sscan(p.out.Text(), &text, &version); err != nil {
				t.Fatalf("process said %q: %v", p.out.Text(), err)
			}
			id, err := pawl.ParseID(text)
			if err != nil {
				t.Fatal(err)
			}
			acknowledged[id] = max(acknowledged[id], version)
			if n == 20+7*round {
				p.cmd.Process.Kill() // what it still says before it dies counts too
			}
		}
		p.cmd.Wait()
	}
	db := openTest(t, path, small())
	for id, version := range acknowledged {
		if entries, err := db.History(t.Context(), "", id); err != nil || len(entries) < version {
			t.Errorf("acknowledged %s, version %d: got %d entries, %v", id, version, len(entries), err)
		}
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := db.Recovery(); err != nil {
		t.Errorf("recovery: got %v, want nil: a crash is no restore", err)
	}
	if len(acknowledged) < 500 {
		t.Errorf("acknowledged: got %d operations, want some hundreds", len(acknowledged))
	}
}
