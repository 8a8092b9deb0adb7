package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgbenchScript is the job as two statements, each a transaction of its own. The key is
// two random numbers; what a caller would send is written out.
const pgbenchScript = `\set a random(1, 9223372036854775806)
\set b random(1, 9223372036854775806)
INSERT INTO intents (key, run, step, tool, args, status, created) VALUES (int8send(:a) || int8send(:b), 'run-' || :a, 1, '%s', '%s', 0, 0);
UPDATE intents SET status = 2, result = '%s', updated = 1 WHERE key = int8send(:a) || int8send(:b);
`

const pgbenchSchema = `
CREATE TABLE intents (
	id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	key     BYTEA NOT NULL UNIQUE,
	run     TEXT NOT NULL,
	step    BIGINT NOT NULL,
	tool    TEXT NOT NULL,
	args    TEXT NOT NULL,
	status  SMALLINT NOT NULL,
	created BIGINT NOT NULL,
	updated BIGINT,
	result  TEXT
);
CREATE INDEX intents_open ON intents (created) WHERE status < 2`

// measurePgbench has PostgreSQL's own load generator run the two statements.
func measurePgbench(ctx context.Context, o *order) (*figure, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, o.Database)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, pgbenchSchema)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	script := filepath.Join(o.Dir, "job.sql")
	// A colon before a letter or a digit would begin one of pgbench's variables.
	apart := func(json string) string { return strings.ReplaceAll(json, `":`, `": `) }
	text := fmt.Sprintf(pgbenchScript, toolName, apart(string(newJobs(0).next().args)), apart(toolResult))
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if _, err := pgbench(ctx, o, script, o.Warm); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	t := team{database: o.Postmaster}
	before, children := usageOf(t, o.Dir), childrenCPU()
	runs, err := pgbench(ctx, o, script, o.Length)
	if err != nil {
		return nil, err
	}
	used := usageOf(t, o.Dir).since(before)
	used.cpu += childrenCPU() - children
	return newFigure(runs.took, runs.last.Sub(runs.first), used), nil
}

// pgbenchRuns are runs of the script.
type pgbenchRuns struct {
	took        []time.Duration
	first, last time.Time // the first run's start and the last one's end: connecting does not count
}

// connecting is how long a caller may take to connect, which counts in pgbench's duration.
const connecting = 10 * time.Millisecond

// pgbench runs the script for a while, in whole seconds.
func pgbench(ctx context.Context, o *order, script string, length time.Duration) (*pgbenchRuns, error) {
	program, err := pgbenchPath()
	if err != nil {
		return nil, err
	}
	logs := filepath.Join(o.Dir, "log")
	seconds := int(math.Ceil((length + time.Duration(o.Callers)*connecting).Seconds()))
	// The address goes by the environment, where nobody else reads the password. The plan of the
	// UPDATE is made while the table is empty, and would stay a scan of all of it.
	cmd := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-c", strconv.Itoa(o.Callers), "-j", strconv.Itoa(min(2, o.Callers)),
		"-T", strconv.Itoa(seconds), "-f", script, "-l", "--log-prefix", logs)
	config, err := pgx.ParseConfig(o.Database)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "PGHOST="+config.Host, "PGPORT="+strconv.Itoa(int(config.Port)), "PGUSER="+config.User,
		"PGPASSWORD="+config.Password, "PGDATABASE="+config.Database, "PGOPTIONS=-c enable_seqscan=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pgbench: %w: %s", err, said)
	}
	files, err := filepath.Glob(logs + ".*")
	if err != nil {
		return nil, err
	}
	runs := &pgbenchRuns{}
	for _, f := range files {
		if err := runs.read(f); err != nil {
			return nil, err
		}
	}
	if len(runs.took) == 0 {
		return nil, errors.New("pgbench: no run of the script in its logs")
	}
	return runs, nil
}

// read adds what one log says, and removes it.
func (r *pgbenchRuns) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var client, run, took, script, seconds, micros int64
		if _, err := fmt.Sscan(s.Text(), &client, &run, &took, &script, &seconds, &micros); err != nil {
			return fmt.Errorf("pgbench: its log has %q", s.Text())
		}
		length := time.Duration(took) * time.Microsecond
		end := time.Unix(seconds, micros*1000)
		if begin := end.Add(-length); r.first.IsZero() || begin.Before(r.first) {
			r.first = begin
		}
		if end.After(r.last) {
			r.last = end
		}
		r.took = append(r.took, length)
	}
	return errors.Join(s.Err(), os.Remove(path))
}

// pgbenchPath finds the program where Debian puts it or on the PATH.
func pgbenchPath() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	return exec.LookPath("pgbench")
}
