package pawl

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Run is the record of one run: what groups operations, may have a plan, and may be called
// off. It begins with the run's first operation, its plan or its abort, whichever is first.
type Run struct {
	Tenant string `json:"tenant,omitempty"`
	// ID is the host's own.
	ID string `json:"id"`
	// Actor began it.
	Actor  string    `json:"actor,omitempty"`
	Status RunStatus `json:"status"`
	// Version counts the writes of the record. A write names the one it makes.
	Version int64     `json:"version"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Plan is what the run may do, nil where it grows by its calls.
	Plan *Plan `json:"plan,omitempty"`
	// Abort says who called the run off, nil while nobody has.
	Abort *Abort `json:"abort,omitempty"`
	// Lease is the end of the lease of whoever works on it, Due the time from which it may be
	// claimed; zero means that there is nothing to do.
	Lease time.Time `json:"lease,omitzero"`
	Due   time.Time `json:"due,omitzero"`
}

// RunStatus says whether a run may go on.
type RunStatus string

const (
	// RunOpen: steps may begin.
	RunOpen RunStatus = "open"
	// RunAborting: called off. No step begins; what is in doubt is settled and what happened
	// is undone.
	RunAborting RunStatus = "aborting"
	// RunAborted: called off, and nothing is left to do or to wait for.
	RunAborted RunStatus = "aborted"
)

// Abort is the word that calls a run off.
type Abort struct {
	// Who and Why are mandatory.
	Who string    `json:"who"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
	// Actor is whose run it is where nothing was known of it before.
	Actor string `json:"-"`
}

// NewRun is the record that begins with an operation.
func NewRun(op *Operation) *Run {
	return &Run{Tenant: op.Tenant, ID: op.Run, Actor: op.Actor, Status: RunOpen, Version: 1, Created: op.Created, Updated: op.Created}
}

// RunDigest names a run of a tenant for the index of a store.
func RunDigest(tenant, run string) Digest {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(tenant))))
	h.Write([]byte(tenant))
	h.Write([]byte(run))
	return Digest(h.Sum(nil)[:16])
}

// Bars reports whether the run keeps an operation from beginning: it was called off, or it
// has a plan that the operation was not held to. A compensation is never kept.
func (r *Run) Bars(in *Intent) bool {
	return in.Undoes == (ID{}) && (r.Status != RunOpen && holds(abortStopsSteps) || r.Plan != nil && !in.Planned)
}

// RunQuery selects runs; zero fields select all. Tenant always applies.
type RunQuery struct {
	Tenant string
	// AllTenants lifts the tenant condition: for operators of the whole store.
	AllTenants bool
	Status     RunStatus
	// Before continues a listing after the run with this id of BeforeTenant.
	Before       string
	BeforeTenant string
	// Limit is at most 1000; 0 means 50.
	Limit int
}
