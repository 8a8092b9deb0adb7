package pawl

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"
)

// Notice is one fact that an operator is told: that an operation waits for a person, or
// that it does so no longer. A store keeps it until it is told or given up.
type Notice struct {
	Tenant    string
	Operation ID
	Kind      NoticeKind
	// Since is the time since when the person is asked; with Operation and Kind it is the fact.
	Since time.Time
	// Tries counts how often it was taken to be told.
	Tries int
	// Token is what a later write must carry.
	Token int64
}

// NoticeKind says which of the two facts a notice is about.
type NoticeKind string

const (
	ReviewOpened NoticeKind = "review.opened" // an operation waits for a person
	ReviewClosed NoticeKind = "review.closed" // it does so no longer
)

// ID names the fact: it is the same however often and by whomever it is told.
func (n *Notice) ID() string {
	return fmt.Sprintf("msg_%s_%x_%s", hex.EncodeToString(n.Operation[:]), n.Since.UnixMicro(), n.Kind[len("review."):])
}

// NoticeEnd says what becomes of a notice that was taken.
type NoticeEnd struct {
	// Told: the operator has it. Otherwise it is told again at Again, or given up if that is zero.
	Told  bool
	Again time.Time
}

// Outbox is a Store that keeps what an operator is to be told. All methods are safe for
// concurrent use by any number of processes; a fact is recorded once, whoever finds it.
type Outbox interface {
	// GatherNotices finds the facts that have no notice yet, at most limit of each kind, and
	// records them: each review that is open, and the end of each whose opening was recorded.
	// A review that ended before anybody was told of it is told of neither way. It returns
	// how many notices it made.
	GatherNotices(ctx context.Context, limit int) (int, error)
	// TakeNotices gives up to limit notices that are due to the caller for the time of a
	// lease, oldest first; after it they are due again.
	TakeNotices(ctx context.Context, limit int, lease time.Duration) ([]*Notice, error)
	// EndNotice says what became of a notice, and reports whether its token still counted.
	EndNotice(ctx context.Context, n *Notice, end NoticeEnd) (bool, error)
	// Notified reports whether the operator was told that an operation waits for a person.
	Notified(ctx context.Context, op *Operation) (bool, error)
}
