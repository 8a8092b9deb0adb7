package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pawl": main})
}

// TestScripts runs testdata/script. Beside testscript's own commands there are
//
//	desk [FILE...]        start a sandbox and put its address into the files in place of
//	                      http://127.0.0.1:4110; without files, write the demo's contract
//	                      file as pawl.yaml
//	fault SERVICE LINE [TIMES]
//	                      something goes wrong with the next requests to a service
//	effects N [RUN]       the sandbox's ledger has N effects (of a run)
//	requests N            N requests that want an effect reached the sandbox
//	held N                wait until the sandbox holds N requests
//	serve [ARG...]        start pawl serve on a free port, in a process of its own
//	http STATUS METHOD PATH [BODY|FILE.json [Bearer:TOKEN]]
//	                      ask it, expect a status, and put the answer on stdout
//	drain                 end it with SIGTERM, expect exit code 0, and put its log on stderr
//	exits N COMMAND...    run a command and expect an exit code
//	get VAR PATH          set VAR to a member (a.b.0, a.len) of the JSON on the last stdout
//	is PATH VALUE         a member of the JSON on the last stdout has a value
//	sql FILE STATEMENTS   change an SQLite file
//	lock FILE             hold the write lock of an SQLite file until the script ends
//	big FILE N            write JSON arguments of N bytes
//
// the condition [root], and in the environment README, its path, and PORT, a free port.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/script", nil)
}

// TestScriptsOnPostgres runs testdata/postgres, where PAWL_STORE and PAWL_COPY are the URLs
// of two empty databases, and
//
//	query STATEMENT       runs a statement on PAWL_STORE
//	clone                 makes PAWL_COPY a copy of PAWL_STORE
func TestScriptsOnPostgres(t *testing.T) {
	t.Parallel()
	store, copied := pgtest.Database(t), pgtest.Database(t)
	runScripts(t, "testdata/postgres", map[string]string{"PAWL_STORE": store, "PAWL_COPY": copied})
}

func runScripts(t *testing.T, dir string, environment map[string]string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[deskKey{}] = &scriptDesk{}
			env.Values[daemonKey{}] = new(*daemon)
			readme, err := filepath.Abs("../../README.md")
			if err != nil {
				return err
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			for name, value := range environment {
				env.Setenv(name, value)
			}
			_, port, err := net.SplitHostPort(ln.Addr().String())
			env.Setenv("README", readme)
			env.Setenv("PORT", port)
			return errors.Join(err, ln.Close())
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"desk": cmdDesk, "fault": cmdFault, "effects": cmdEffects, "requests": cmdRequests, "held": cmdHeld, "exits": cmdExits,
			"get": cmdGet, "is": cmdIs, "sql": cmdSQL, "lock": cmdLock, "big": cmdBig,
			"serve": cmdServe, "http": cmdHTTP, "drain": cmdDrain, "query": cmdQuery, "clone": cmdClone,
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
	})
}
