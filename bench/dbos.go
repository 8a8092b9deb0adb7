package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

// dbosInput is a job as DBOS keeps it.
type dbosInput struct {
	Run, Step, Tool, Args string
}

func dbosInputOf(j *job) dbosInput { return dbosInput{j.run, j.step, toolName, string(j.args)} }

// dbosTool is the tool that does nothing, as a step of a workflow.
func dbosTool(ctx dbos.Context) (string, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return toolResult, nil }, dbos.WithStepName(toolName))
}

// dbosWorkflows does each job as one workflow with one step: the row of the workflow is the
// intent, and the step's result and the workflow's are the outcome.
type dbosWorkflows struct {
	ctx      dbos.Context
	database int
}

func dbosWorkflow(ctx dbos.Context, _ dbosInput) (string, error) { return dbosTool(ctx) }

func (d *dbosWorkflows) call(_ context.Context, _ int, j *job) error {
	h, err := dbos.RunWorkflow(d.ctx, dbosWorkflow, dbosInputOf(j), dbos.WithWorkflowID(j.hex()))
	if err != nil {
		return err
	}
	_, err = h.GetResult()
	return err
}

func (d *dbosWorkflows) team() team { return team{database: d.database} }

func (d *dbosWorkflows) close() error {
	dbos.Shutdown(d.ctx, 10*time.Second)
	return nil
}

// dbosSteps does each job as one step of a long workflow, one such workflow per caller, as
// an agent's run would: DBOS records the step's result and nothing before the step.
type dbosSteps struct {
	dbosWorkflows
	runs []dbosRun // by caller
}

// dbosRun is the workflow that does the jobs of one caller.
type dbosRun struct {
	work chan struct{} // one step is wanted
	done chan error
	left int // steps until the workflow ends
}

// stepsPerRun is the length of a workflow.
const stepsPerRun = 200

// dbosRuns are the runs by workflow: a workflow can be handed values, not channels.
var dbosRuns sync.Map

func dbosLongWorkflow(ctx dbos.Context, id string) (int, error) {
	found, ok := dbosRuns.Load(id)
	if !ok {
		return 0, errors.New("the workflow has no caller")
	}
	r := found.(dbosRun)
	n := 0
	for range r.work {
		_, err := dbosTool(ctx)
		r.done <- err
		n++
	}
	return n, nil
}

func (d *dbosSteps) call(_ context.Context, caller int, j *job) error {
	r := &d.runs[caller]
	if r.left == 0 {
		r.end()
		*r = dbosRun{work: make(chan struct{}), done: make(chan error), left: stepsPerRun}
		dbosRuns.Store(j.hex(), *r)
		if _, err := dbos.RunWorkflow(d.ctx, dbosLongWorkflow, j.hex(), dbos.WithWorkflowID(j.hex())); err != nil {
			return err
		}
	}
	r.left--
	r.work <- struct{}{}
	return <-r.done
}

func (r *dbosRun) end() {
	if r.work != nil {
		close(r.work)
	}
}

func (d *dbosSteps) close() error {
	for i := range d.runs {
		d.runs[i].end()
	}
	return d.dbosWorkflows.close()
}

// dbosPlace opens what DBOS keeps its records in.
type dbosPlace func(o *order) (dbos.Config, error)

// dbosSQLite is a SQLite file with synchronous=FULL. DBOS itself opens one with NORMAL,
// which a power cut may undo, so it is given a handle of its own settings otherwise.
func dbosSQLite(o *order) (dbos.Config, error) {
	u := url.URL{Scheme: "file", Path: filepath.Join(o.Dir, "dbos.db"), RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(FULL)"},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return dbos.Config{}, err
	}
	db.SetMaxOpenConns(8)
	return dbos.Config{SQLiteSystemDB: db}, nil
}

// dbosPostgres is a PostgreSQL database, by the pool that DBOS makes itself.
func dbosPostgres(o *order) (dbos.Config, error) { return dbos.Config{DatabaseURL: o.Database}, nil }

func openDBOS(place dbosPlace, steps bool) func(context.Context, *order) (contestant, error) {
	return func(ctx context.Context, o *order) (contestant, error) {
		config, err := place(o)
		if err != nil {
			return nil, err
		}
		config.AppName, config.ApplicationVersion, config.Logger = "bench", "1", slog.New(slog.DiscardHandler)
		d, err := dbos.NewContext(ctx, config)
		if err != nil {
			return nil, err
		}
		dbos.RegisterWorkflow(d, dbosWorkflow)
		dbos.RegisterWorkflow(d, dbosLongWorkflow)
		if err := dbos.Launch(d); err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		w := dbosWorkflows{ctx: d, database: o.Postmaster}
		if steps {
			return &dbosSteps{dbosWorkflows: w, runs: make([]dbosRun, o.Callers)}, nil
		}
		return &w, nil
	}
}
