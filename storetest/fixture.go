package storetest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// Seed describes an operation for Op. Zero fields are left out of it.
type Seed struct {
	Tenant, Tool, Run, Step string
	// Identity is the one identity field; with Tenant, Tool, Run and Step it makes the key.
	Identity string
	Gen      int
	// Once claims the identity in the run for as long as the operation is open or has
	// succeeded; otherwise it is claimed while it is open.
	Once bool
	// Subject claims a subject of the tenant while the operation is open.
	Subject string
	// At is the time of Begin; zero means now.
	At time.Time
	// Lease is how long the operation is held from At on; 0 means one minute. It is due
	// at the end of its lease.
	Lease time.Duration
	// Token is the claim of the one who begins it; 0 means 1.
	Token int64
	// Contract is pinned; nil means the one that Contract makes for the tool.
	Contract *pawl.Contract
}

// Contract makes a contract that validates.
func Contract(tool string) *pawl.Contract {
	c := pawl.Contract{
		Tool: tool, Class: pawl.Keyed, Retention: 24 * time.Hour,
		Identity: []pawl.Field{{Name: "identity"}}, Effect: "effect of {identity}",
	}.WithDefaults()
	return &c
}

// Op makes a PENDING operation as an executor begins it, and its first history entry.
func Op(s Seed) (*pawl.Operation, []byte) {
	at := s.At
	if at.IsZero() {
		at = time.Now()
	}
	at = at.UTC().Truncate(time.Microsecond)
	if s.Lease == 0 {
		s.Lease = time.Minute
	}
	if s.Token == 0 {
		s.Token = 1
	}
	if s.Contract == nil {
		s.Contract = Contract(s.Tool)
	}
	identity := must(json.Marshal(map[string]string{"identity": s.Identity}))
	op := &pawl.Operation{
		Intent: pawl.Intent{
			ID: pawl.NewID(at), Tenant: s.Tenant, Actor: "actor", Tool: s.Tool,
			Run: s.Run, Step: s.Step, Scope: pawl.ScopeStep, Gen: s.Gen,
			Key:       sha256.Sum256(joined("key", s.Tenant, s.Tool, s.Run, s.Step, s.Identity, fmt.Sprint(s.Gen))),
			SecretID:  "secret-1",
			Canonical: 1, Identity: identity,
			IdentityClaim: digest("identity", s.Tenant, s.Tool, s.Run, s.Step, s.Identity),
			Args:          identity, Request: []byte("POST /" + s.Tool + "\n\n" + string(identity)),
			Effect: "effect of " + s.Identity, Contract: s.Contract, ContractHash: s.Contract.Hash(),
			Deadline: at.Add(30 * time.Second), Created: at,
			Attributes: map[string]string{"tool_call": "call-1"},
			Trace:      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		State: pawl.State{
			Status: pawl.Pending, Version: 1, Token: s.Token,
			Lease: at.Add(s.Lease), Due: at.Add(s.Lease), Updated: at,
			Attempts: []pawl.Attempt{{N: 1, Kind: pawl.AttemptFirst, Permit: at, Worker: "w1"}},
		},
	}
	if s.Once {
		op.OnceClaim = digest("once", s.Tenant, s.Tool, s.Run, s.Identity)
	} else {
		op.StepClaim = digest("step", s.Tenant, s.Tool, s.Run, s.Identity)
	}
	if s.Subject != "" {
		op.SubjectClaim = digest("subject", s.Tenant, s.Subject)
	}
	first := must(pawl.EncodeEntry(&pawl.Entry{Seq: 1, At: at, Event: "begun", By: "worker w1", To: op.Status, Attempt: 1}))
	op.Chain = pawl.ChainHash(nil, first)
	return op, first
}

// Move makes the change of an operation to a status; edit may alter the new state
// further. When it has been applied, op.State = *change.State.
func Move(op *pawl.Operation, to pawl.Status, edit func(*pawl.State)) *pawl.Change {
	next := clone(op).State
	next.Status = to
	next.Version++
	if !to.Open() {
		next.Lease, next.Due = time.Time{}, time.Time{}
	}
	if edit != nil {
		edit(&next)
	}
	entry := must(pawl.EncodeEntry(&pawl.Entry{
		Seq: next.Version, At: next.Updated, Event: "moved", By: "worker w1", From: op.Status, To: next.Status, Reason: next.Reason,
	}))
	next.Chain = pawl.ChainHash(op.Chain, entry)
	return &pawl.Change{
		ID: op.ID, Version: op.Version, Token: op.Token, State: &next, Held: next.Status.Held(), Entry: entry,
	}
}

func digest(parts ...string) pawl.Digest {
	sum := sha256.Sum256(joined(parts...))
	return pawl.Digest(sum[:16])
}

// joined keeps the parts apart by their lengths.
func joined(parts ...string) (b []byte) {
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("storetest: " + err.Error()) // plain data always marshals
	}
	return v
}
