package pawl

import (
	"context"
	"errors"
	"time"
)

// Store keeps operations. It gives atomicity and durability and decides nothing: the
// transition rules are in this package. storetest has the suite every Store must pass.
//
// All methods are safe for concurrent use, also by several processes on one store. A
// nil error from Begin or Apply means the change is on stable storage. A context that
// ends withdraws a write that has not begun; one that has begun is waited for, so a
// method never returns while its outcome is undecided. After an I/O error the store is
// closed to writes and returns ErrStoreFailed until it is opened again.
type Store interface {
	// Begin inserts op with its first history entry (as EncodeEntry made it), in one
	// transaction, if none of its claims is held. Otherwise it writes nothing and returns
	// the operation in the way. The claims are looked at in the order ClaimIdentity (the
	// latest generation, if it is not older than op.Gen, or is open or has succeeded),
	// ClaimKey, ClaimStep, ClaimOnce, ClaimSubject. Where none is held and the operation has
	// a run, the record of the run is looked at in the same transaction: one that Bars the
	// operation is returned with ClaimRun, and where there is none yet NewRun is inserted.
	Begin(ctx context.Context, op *Operation, first []byte) (*Standing, error)

	// Apply writes one change: op's new State and the entry that explains it, in one
	// transaction, if the stored version and token are still those of c.
	// It returns ErrStale if they are not, ErrNotFound if there is no such operation, and
	// ErrHeld if a claim that the operation takes up again is held by another one.
	Apply(ctx context.Context, c *Change) error

	// Claim gives due operations of the named tools to the caller: each gets c.Token and a
	// lease of c.Lease from now, oldest due first, fair across tools and tenants. Operations
	// whose Due is zero or later than now, and those of other tools, are never touched.
	Claim(ctx context.Context, c Claim) ([]*Operation, error)

	// Renew writes an operation's lease and due time if its token is still the one given,
	// and reports whether it was. A zero lease releases it; due then says when a
	// sweeper may take it. Version and history stay as they are.
	Renew(ctx context.Context, id ID, token int64, lease, due time.Time) (bool, error)

	// Get returns one operation of the tenant, or ErrNotFound, which also answers for
	// operations of other tenants.
	Get(ctx context.Context, tenant string, id ID) (*Operation, error)

	// History returns the entries of one operation, oldest first, after verifying their
	// chain against the operation; a broken chain is ErrCorrupt.
	History(ctx context.Context, tenant string, id ID) ([]Entry, error)

	// Find lists operations, newest first.
	Find(ctx context.Context, q Query) ([]*Operation, error)

	// Tally sums up the open operations of every tenant, for operators, without reading each:
	// one Tally for each tool, status and whether a person is asked.
	Tally(ctx context.Context) ([]Tally, error)

	// Now is the store's clock. Leases, quiescence and retention count by it.
	Now(ctx context.Context) (time.Time, error)

	// PutRun writes the record of a run if the stored one has the version before r's, or if
	// there is none and r.Version is 1. Otherwise it returns ErrStale. What Begin decides by
	// the record it decides either before this write or after it.
	PutRun(ctx context.Context, r *Run) error

	// GetRun returns the record of one run of the tenant, or ErrNotFound.
	GetRun(ctx context.Context, tenant, run string) (*Run, error)

	// FindRuns lists runs, the one begun last first.
	FindRuns(ctx context.Context, q RunQuery) ([]*Run, error)

	// ClaimRuns gives due runs to the caller, oldest due first: each gets a lease from now,
	// is due at its end, and has its version one higher.
	ClaimRuns(ctx context.Context, limit int, lease time.Duration) ([]*Run, error)

	// Close releases the store. Writes that have begun are finished first.
	Close() error
}

// Change is one transition as a store sees it.
type Change struct {
	ID ID
	// Version and Token are the condition: what the row must still hold.
	Version int64
	Token   int64
	// State is the new state, with its Version one higher.
	State *State
	// Held says which of the claims the operation still holds in the new state.
	Held ClaimsHeld
	// Entry is the history line as EncodeEntry made it; State.Chain is its hash.
	Entry []byte
}

// ClaimsHeld says which of the claims that end are still held.
type ClaimsHeld struct{ Step, Once, Subject bool }

// Held returns the claims that an operation holds in a status.
func (s Status) Held() ClaimsHeld {
	return ClaimsHeld{Step: s.Open(), Subject: s.Open(), Once: s.Open() || s == Succeeded}
}

// ClaimKind names what stands in the way of Begin.
type ClaimKind string

const (
	ClaimIdentity ClaimKind = "identity" // the same identity and scope
	ClaimKey      ClaimKind = "key"      // the same key
	ClaimStep     ClaimKind = "step"     // the same identity is open at another step of the run
	ClaimOnce     ClaimKind = "once"     // the same identity is open or done at another step
	ClaimSubject  ClaimKind = "subject"  // another operation on the subject is open
	ClaimRun      ClaimKind = "run"      // the run takes no such operation
)

// Standing is what keeps Begin from inserting: an operation, or with ClaimRun a run.
type Standing struct {
	Kind ClaimKind
	Op   *Operation
	Run  *Run
}

// Claim asks for due operations.
type Claim struct {
	Tools []string
	Limit int
	Token int64
	Lease time.Duration
}

// Query selects operations; zero fields select all. Tenant always applies.
type Query struct {
	Tenant string
	// AllTenants lifts the tenant condition: for operators of the whole store.
	AllTenants bool
	Tool       string
	Run        string
	Status     Status
	Ref        string
	// Key is the hex prefix of 32 digits that goes outward.
	Key string
	// IdentityClaim selects every generation of one identity.
	IdentityClaim Digest
	// Open selects PREPARED, PENDING and UNKNOWN; Review those a person is asked about.
	Open   bool
	Review bool
	// ReviewReason selects those that a person is asked about for this reason. It implies Review.
	ReviewReason Reason
	// Before continues a listing after the operation with this id.
	Before ID
	// Limit is at most 1000; 0 means 50.
	Limit int
}

// Tally sums up open operations of one tool that have one status.
type Tally struct {
	Tool   string
	Status Status
	// Review: a person is asked about them.
	Review bool
	Count  int
	// Unheld counts those whose lease has ended, or that nobody holds.
	Unheld int
	// Due is the earliest time at which one may be claimed; zero where none ever may.
	Due time.Time
	// Asked is since when a person has been asked about the one that waits longest.
	Asked time.Time
	// Oldest is the one begun first. A row that fails its check is as Find shows it.
	Oldest *Operation
}

// Errors of a Store, for errors.Is.
var (
	// ErrStale: version or token moved on; read again and decide again.
	ErrStale = errors.New("operation changed meanwhile")
	// ErrHeld: the operation had let go of a claim, and another one holds it now.
	ErrHeld = errors.New("claim is held by another operation")
	// ErrNotFound: no such operation in this tenant.
	ErrNotFound = errors.New("no such operation")
	// ErrStoreFailed: an earlier I/O error closed the store to writes.
	ErrStoreFailed = errors.New("store failed")
	// ErrBusy: the store could not be had in time; nothing was written.
	ErrBusy = errors.New("store busy")
	// ErrFull: no space; nothing was written.
	ErrFull = errors.New("store full")
	// ErrReadOnly: the store cannot be written; nothing was written.
	ErrReadOnly = errors.New("store is read-only")
	// ErrCorrupt: stored data failed its check.
	ErrCorrupt = errors.New("store is corrupt")
	// ErrNewerSchema: a newer pawl wrote this store.
	ErrNewerSchema = errors.New("store has a newer schema")
)
