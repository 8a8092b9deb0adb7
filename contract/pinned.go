package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
)

// pinnedTools keeps the tools that were compiled from the contracts of earlier operations.
type pinnedTools struct {
	mu    sync.Mutex
	tools map[string]*tool
}

// maxPinned caps them; an operator seldom has more versions of one tool in flight.
const maxPinned = 64

// asPinned is the tool by the contract that the operation began under.
func (t *tool) asPinned(op *pawl.Operation) (*tool, error) {
	if op.Contract == nil || op.Contract.Source == t.contract.Source {
		return t, nil
	}
	source := op.Contract.Source
	t.pinned.mu.Lock()
	defer t.pinned.mu.Unlock()
	if old, ok := t.pinned.tools[source]; ok {
		return old, nil
	}
	f, err := parse("contract of "+op.ID.String(), []byte(source), nil, t.upstream)
	if err != nil {
		return nil, fmt.Errorf("the contract that the operation began under: %w", err)
	}
	i := slices.IndexFunc(f.tools, func(t *tool) bool { return t.contract.Tool == op.Tool })
	if i < 0 {
		return nil, errors.New("the contract that the operation began under is not of its tool")
	}
	old := f.tools[i]
	if strings.TrimRight(old.upstream.url.String(), "/") != strings.TrimRight(t.upstream.url.String(), "/") {
		return nil, errMoved
	}
	old.wire, old.pinned = t.wire, t.pinned
	if t.pinned.tools == nil || len(t.pinned.tools) >= maxPinned {
		t.pinned.tools = map[string]*tool{}
	}
	t.pinned.tools[source] = old
	return old, nil
}
