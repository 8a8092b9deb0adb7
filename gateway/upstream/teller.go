package upstream

import (
	"encoding/json"
	"time"
)

// teller hands notifications to a caller in their order, on a goroutine of its own, so that
// a caller that is slow keeps nobody else waiting.
type teller struct {
	queue chan told
	done  chan struct{}
}

type told struct {
	method string
	params json.RawMessage
}

const (
	// maxTold caps the notifications that wait for a slow caller; more are dropped.
	maxTold = 256
	// tellWait bounds how long the end of a call waits for its notifications.
	tellWait = time.Second
)

func newTeller(c Caller) *teller {
	t := &teller{queue: make(chan told, maxTold), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for n := range t.queue {
			c.Tell(n.method, n.params)
		}
	}()
	return t
}

// tell never blocks.
func (t *teller) tell(method string, params json.RawMessage) {
	select {
	case t.queue <- told{method, params}:
	default:
	}
}

// finish waits until the caller has what was told, but not for long. Nothing is told after.
func (t *teller) finish() {
	close(t.queue)
	select {
	case <-t.done:
	case <-time.After(tellWait):
	}
}
