package server

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

// pruneEvery is the pause between two looks for what may be forgotten.
const pruneEvery = time.Hour

// retain forgets old operations until ctx ends. Several daemons on one store may do it.
func (s *Server) retain(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		done, err := pawl.Prune(ctx, s.store, pawl.PruneOptions{Keep: s.retains})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("old operations could not be forgotten", "error", err)
		case done.Forgotten > 0:
			s.log.Info("old operations were forgotten", "operations", done.Forgotten, "looked", done.Looked)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
