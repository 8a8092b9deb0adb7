package main

import (
	"context"
	"path"
	"time"
)

// contestant does jobs in its own way.
type contestant interface {
	// call returns when the job's intent and outcome are both on stable storage. A caller
	// makes one call at a time; callers count from 0.
	call(ctx context.Context, caller int, j *job) error
	// team names the processes that work for it.
	team() team
	// close ends what open has begun.
	close() error
}

// team is the processes of a contestant beside the one that measures.
type team struct {
	daemons  []int // processes of pawl itself
	database int   // the database server, with its children
}

// order says what one process is to measure.
type order struct {
	Contestant string
	Callers    int
	Warm       time.Duration
	Length     time.Duration
	// Dir is a folder for this contestant.
	Dir string
	// Pawl is the path of the binary, Provider the URL of the provider that does nothing.
	Pawl     string
	Provider string
	// Database is the URL of an empty PostgreSQL database and Postmaster the server's process,
	// for those that need one.
	Database   string
	Postmaster int
	// Settled is the number of settled operations in a grown store.
	Settled int
}

// entry is one contestant in the list.
type entry struct {
	name  string // group/contestant
	label string // in tables
	// job is false where a call is something else than the whole job, as the label says.
	job bool
	// callers restricts the numbers of callers; nil means all.
	callers []int
	// plot is the label in the plot, empty where it has no line.
	plot string
	// grown: the folder is that of the store with many settled operations.
	grown bool

	// open starts the contestant; measure does everything itself. One of them is set.
	open    func(ctx context.Context, o *order) (contestant, error)
	measure func(ctx context.Context, o *order) (*figure, error)
}

func (e *entry) takes(callers int) bool {
	if e.callers == nil {
		return true
	}
	for _, c := range e.callers {
		if c == callers {
			return true
		}
	}
	return false
}

// group is what a contestant's name begins with: disk, http, sqlite or postgres.
func (e *entry) group() string { return path.Dir(e.name) }

// entries are all contestants, in the order of the tables and of each round.
var entries = []entry{
	{name: "disk/append", label: "append 4 KiB and sync, a file per caller", plot: "disk: append and sync", open: openDisk(true)},
	{name: "disk/overwrite", label: "overwrite 4 KiB and sync, a file per caller", open: openDisk(false)},
	{name: "http/provider", label: "POST to the provider that does nothing, alone", open: openProviderCalls},
	{name: "sqlite/bare", label: "bare grouped harness", job: true, plot: "bare harness", open: openBare},
	{name: "sqlite/pawl", label: "**pawl**, library", job: true, plot: "pawl", open: openLibrary},
	{name: "sqlite/pawl-grown", label: "**pawl**, library, on a store with many settled operations", job: true, callers: []int{64}, grown: true, open: openLibrary},
	{name: "sqlite/pawl-read", label: "**pawl**, library, a tool of class read", callers: []int{1, 64}, open: openRead},
	{name: "sqlite/pawl-http", label: "**pawl**, library, tool behind HTTP", job: true, open: openHTTPTool},
	{name: "sqlite/daemon", label: "**pawl**, daemon, tool behind HTTP", job: true, plot: "pawl, daemon", open: openDaemons(1)},
	{name: "sqlite/daemons-4", label: "**pawl**, four daemons on one store, tool behind HTTP", job: true, plot: "pawl, four daemons", open: openDaemons(4)},
	{name: "sqlite/dbos-workflow", label: "DBOS, a workflow with one step, synchronous=FULL", job: true, plot: "DBOS workflow", open: openDBOS(dbosSQLite, false)},
	{name: "sqlite/dbos-step", label: "DBOS, one step of a long workflow (no intent), synchronous=FULL", job: true, plot: "DBOS step", open: openDBOS(dbosSQLite, true)},
	{name: "postgres/pgbench", label: "pgbench, the bare harness's two statements, ungrouped", job: true, plot: "pgbench", measure: measurePgbench},
	{name: "postgres/pawl", label: "**pawl**, library", job: true, plot: "pawl", open: openLibrary},
	{name: "postgres/daemon", label: "**pawl**, daemon, tool behind HTTP", job: true, plot: "pawl, daemon", open: openDaemons(1)},
	{name: "postgres/daemons-4", label: "**pawl**, four daemons on one store, tool behind HTTP", job: true, plot: "pawl, four daemons", open: openDaemons(4)},
	{name: "postgres/dbos-workflow", label: "DBOS, a workflow with one step", job: true, plot: "DBOS workflow", open: openDBOS(dbosPostgres, false)},
	{name: "postgres/dbos-step", label: "DBOS, one step of a long workflow (no intent)", job: true, plot: "DBOS step", open: openDBOS(dbosPostgres, true)},
	{name: "postgres/river", label: "River, a job inserted and worked (recorded later)", job: true, plot: "River", open: openRiver},
}

// find returns the contestant of a name.
func find(name string) *entry {
	for i := range entries {
		if entries[i].name == name {
			return &entries[i]
		}
	}
	return nil
}
