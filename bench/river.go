package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue does each job by inserting it into River's queue and waiting until a worker
// has done it. River records that in batches, up to a quarter of a second later; to wait
// for it too would show that pause and nothing else. It looks for jobs as often as it can.
type riverQueue struct {
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	database int
	worked   *rendezvous
}

// riverJob is a job as River keeps it.
type riverJob struct {
	Key, Run, Step, Tool, Args string
}

// Kind names the jobs.
func (riverJob) Kind() string { return "charge" }

// riverWorker is the tool that does nothing.
type riverWorker struct {
	river.WorkerDefaults[riverJob]
	worked *rendezvous
}

// Work has the tool's result recorded with the job.
func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverJob]) error {
	err := river.RecordOutput(ctx, toolResult)
	w.worked.of(j.ID) <- err
	return err
}

// rendezvous brings the caller of a job and its worker together, whichever comes first.
type rendezvous struct {
	mu   sync.Mutex
	open map[int64]chan error
}

// of is where the end of a job is told: the first of the two to ask makes it, and the
// second takes it out.
func (r *rendezvous) of(id int64) chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, known := r.open[id]
	if known {
		delete(r.open, id)
		return c
	}
	c = make(chan error, 1)
	r.open[id] = c
	return c
}

func openRiver(ctx context.Context, o *order) (contestant, error) {
	config, err := pgxpool.ParseConfig(o.Database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 40
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &riverQueue{pool: pool, database: o.Postmaster, worked: &rendezvous{open: make(map[int64]chan error)}}
	if err := r.start(ctx, o.Callers); err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

func (r *riverQueue) start(ctx context.Context, callers int) error {
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{worked: r.worked})
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: max(100, callers)}},
		Workers:       workers,
		FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return r.client.Start(context.WithoutCancel(ctx))
}

func (r *riverQueue) call(ctx context.Context, _ int, j *job) error {
	inserted, err := r.client.Insert(ctx, riverJob{j.hex(), j.run, j.step, toolName, string(j.args)}, nil)
	if err != nil {
		return err
	}
	select {
	case err := <-r.worked.of(inserted.Job.ID):
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *riverQueue) team() team { return team{database: r.database} }

func (r *riverQueue) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := r.client.Stop(ctx)
	r.pool.Close()
	return err
}
