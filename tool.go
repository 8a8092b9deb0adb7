package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Tool is a contract and the port that speaks to the provider.
type Tool struct {
	Contract Contract
	Port     Port

	hash   string // of the contract, once registered
	handed *Tool  // as operations pin it whose requests their callers send; nil where none may
}

// Port speaks to one provider about one tool. Its methods are called concurrently.
// A port also implements Prober, Fencer or Snapshotter where the contract declares a
// probe, a fence or a snapshot.
type Port interface {
	// Prepare makes the exact outbound request: everything but the credentials, which
	// are named and joined at Send. It does no I/O. An error is a fault of the arguments
	// and goes to the caller, so it names what and where and never a value that is secret.
	Prepare(inv *Invocation) (Outbound, error)
	// Send puts the request on the wire at most once and reports what was observed. It
	// returns when the attempt is over; when ctx ends it gives the attempt up and closes
	// the connection. It never panics for what the provider does.
	Send(ctx context.Context, s *Sending) Evidence
}

// Prober asks the provider whether an operation's effect exists. A probe only reads.
type Prober interface {
	Probe(ctx context.Context, op *Operation) ProbeResult
}

// Fencer makes "did not and will not happen" true at the provider, or finds that it did.
type Fencer interface {
	Fence(ctx context.Context, op *Operation) FenceResult
}

// Snapshotter reads the state before the first attempt and before each retry, while the
// operation holds its subject: JSON.
type Snapshotter interface {
	Snapshot(ctx context.Context, inv *Invocation) (json.RawMessage, error)
}

// Selector chooses by a call's arguments under which of several contracts it is: a tool that
// does several things has one for each. It is an optional part of a port.
type Selector interface {
	// Select returns the name of the tool whose contract holds and the arguments as that
	// tool takes them. In doubt it returns what is most cautious, which is never a read. It
	// does no I/O.
	Select(args json.RawMessage) (tool string, own json.RawMessage)
}

// Invocation is one call as a port sees it.
type Invocation struct {
	Operation ID
	Tool      string
	Tenant    string
	Actor     string
	Run       string
	Step      string
	// Args are the parsed arguments: map[string]any, []any, string, json.Number, bool, nil.
	Args map[string]any
	// Canonical are the same arguments as canonical JSON.
	Canonical json.RawMessage
	// Identity holds the canonical identity fields.
	Identity map[string]any
	Key      Key
	// Deadline is the absolute end of the turn.
	Deadline time.Time
	// Permit is the time the first permit is asked for.
	Permit time.Time
}

// Outbound is the exact request that is stored with the intent and sent.
type Outbound struct {
	// Request is the request in the port's own form. No credential is in it.
	Request []byte
}

// Sending is one attempt of an operation.
type Sending struct {
	Operation *Operation
	// Attempt is 1 unless earlier permits may have reached the provider, whose number it
	// then counts in: what "conflict" means depends on it.
	Attempt int
	// Permit is the time the permit was given.
	Permit time.Time
	// Deadline is the end of the turn, for providers that take one.
	Deadline time.Time
}
