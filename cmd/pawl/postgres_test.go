package main

import (
	"context"
	"os/exec"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

func cmdQuery(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: query STATEMENT")
	}
	ctx := context.Background()
	c, err := pgx.Connect(ctx, ts.Getenv("PAWL_STORE"))
	ts.Check(err)
	defer c.Close(ctx)
	_, err = c.Exec(ctx, args[0])
	ts.Check(err)
}

func cmdClone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: clone")
	}
	dump, err := pgtest.Binary("pg_dump")
	ts.Check(err)
	psql, err := pgtest.Binary("psql")
	ts.Check(err)
	file := ts.MkAbs("dump.sql")
	for _, cmd := range []*exec.Cmd{
		exec.Command(dump, "--file", file, ts.Getenv("PAWL_STORE")),
		exec.Command(psql, "--quiet", "--set", "ON_ERROR_STOP=1", "--output", "/dev/null", "--file", file, ts.Getenv("PAWL_COPY")),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("%s: %v: %s", cmd.Path, err, out)
		}
	}
}
