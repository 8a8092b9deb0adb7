package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/server"
)

// workerEnv holds the terms of a worker, a process that this test starts of itself.
const workerEnv = "PAWL_WORKERS_TERMS"

// clockEnv asks for nothing but the wall clock of the process.
const clockEnv = "PAWL_WORKERS_CLOCK"

// terms are how a worker is opened.
type terms struct {
	Config string
	Name   string
	Lease  time.Duration
	Grace  time.Duration
}

func TestMain(m *testing.M) {
	if os.Getenv(clockEnv) != "" {
		fmt.Println(time.Now().Unix())
		return
	}
	if text := os.Getenv(workerEnv); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// work is a daemon with a short lease that sweeps often. It tells its address and runs
// until it is told to end.
func work(text string) error {
	var t terms
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := server.Open(ctx, &server.Options{
		Config: t.Config, Grace: t.Grace,
		Executor: pawl.Options{
			Worker: t.Name, Lease: t.Lease, SweepEvery: 100 * time.Millisecond, SweepBatch: 64,
			Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		},
		Postgres: &postgres.Options{ConfirmTimeout: 5 * time.Second},
	})
	if err != nil {
		return err
	}
	ln, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, s.Close(ctx))
	}
	fmt.Println("http://" + ln.Addr().String())
	err = s.Serve(ctx, ln)
	ended, cancel := context.WithCancel(context.Background())
	cancel() // Serve has waited already
	return errors.Join(err, s.Close(ended))
}
