package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// health is what /healthz and /readyz answer.
type health struct {
	Body struct {
		Status string `json:"status" enum:"alive,ready"`
	}
}

// readyTime is how long the store may take to answer for being ready.
const readyTime = 2 * time.Second

func (d *door) addHealth() {
	register(d, route{who: anyone}, huma.Operation{
		OperationID: "alive", Method: http.MethodGet, Path: "/healthz", Summary: "Whether the process is alive",
	}, func(context.Context, *struct{}) (*health, error) {
		var h health
		h.Body.Status = "alive"
		return &h, nil
	})
	register(d, route{who: anyone}, huma.Operation{
		OperationID: "ready", Method: http.MethodGet, Path: "/readyz", Summary: "Whether calls can be taken",
		Description: "The store answers and the process is not stopping.",
	}, d.ready)
}

func (d *door) ready(ctx context.Context, _ *struct{}) (*health, error) {
	select {
	case <-d.opts.Stopping:
		return nil, problem(http.StatusServiceUnavailable, CodeUnavailable, "stopping")
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if _, err := d.store.Now(ctx); err != nil {
		d.opts.Log.WarnContext(ctx, "not ready", slog.Any("error", err))
		return nil, problem(http.StatusServiceUnavailable, CodeUnavailable, "the store does not answer")
	}
	var h health
	h.Body.Status = "ready"
	return &h, nil
}
