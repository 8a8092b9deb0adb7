package pawl

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// CanonicalVersion numbers the canonical rules. It is stored with every operation, so a
// change of the rules never re-derives a key.
const CanonicalVersion = 1

// Identified is a call after its arguments were read: everything that depends on what
// was asked for and nothing that depends on when.
type Identified struct {
	// Args are the parsed arguments, Canonical the same as canonical JSON.
	Args      map[string]any
	Canonical json.RawMessage
	// Identity holds the canonical identity fields.
	Identity map[string]any
	// Scope is the contract's, or ScopeRun for a call without a step under ScopeStep.
	Scope Scope
	blob  Blob
	// identity is Identity as canonical JSON.
	identity json.RawMessage
}

// CallError is a fault of the call itself: nothing was recorded and nothing sent. Its
// text names what and where and never a value.
type CallError struct {
	Reason Reason
	// Field is the argument at fault, where there is one.
	Field string
	Err   error
}

func (e *CallError) Error() string { return e.Err.Error() }

func (e *CallError) Unwrap() error { return e.Err }

const (
	// maxLabel is the number of bytes that run, step, tenant, actor and an attribute may have.
	maxLabel = 256
	// maxAttributes is how many labels a call may carry.
	maxAttributes = 32
)

// Identify reads a call's arguments under a contract. Its error is a *CallError.
func Identify(c *Contract, call *Call) (*Identified, error) {
	for _, l := range []struct{ name, value string }{
		{"run", call.Run}, {"parent run", call.ParentRun}, {"step", call.Step}, {"tenant", call.Tenant}, {"actor", call.Actor},
	} {
		if len(l.value) > maxLabel {
			return nil, &CallError{Reason: ReasonLabelInvalid, Field: l.name, Err: fmt.Errorf("%s: %d bytes, at most %d are allowed", l.name, len(l.value), maxLabel)}
		}
	}
	if len(call.Attributes) > maxAttributes {
		return nil, &CallError{Reason: ReasonLabelInvalid, Field: "attributes", Err: fmt.Errorf("attributes: %d, at most %d are allowed", len(call.Attributes), maxAttributes)}
	}
	for name, value := range call.Attributes {
		if len(name) > maxLabel || len(value) > maxLabel {
			return nil, &CallError{Reason: ReasonLabelInvalid, Field: "attributes", Err: fmt.Errorf("attributes: one has more than %d bytes", maxLabel)}
		}
	}
	raw := call.Args
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	v, err := ParseJSON(raw)
	if err != nil {
		return nil, &CallError{Reason: ReasonInvalidArguments, Err: fmt.Errorf("arguments: %w", err)}
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, &CallError{Reason: ReasonInvalidArguments, Err: fmt.Errorf("arguments: want a JSON object")}
	}
	id := &Identified{Args: args}
	if id.Canonical, err = AppendJSON(make([]byte, 0, len(raw)+16), v); err != nil {
		return nil, &CallError{Reason: ReasonInvalidArguments, Err: fmt.Errorf("arguments: %w", err)}
	}
	if c.Class == Read {
		return id, nil
	}
	if id.Identity, err = identityOf(c, args); err != nil {
		return nil, err
	}
	if id.identity, err = AppendJSON(nil, id.Identity); err != nil {
		return nil, &CallError{Reason: ReasonInvalidArguments, Err: fmt.Errorf("identity: %w", err)}
	}
	return id, id.place(c, call)
}

func identityOf(c *Contract, args map[string]any) (map[string]any, error) {
	identity := make(map[string]any, max(len(c.Identity), 1))
	if c.IdentityAll {
		whole, err := AppendJSON(nil, plainNumbers(args))
		if err != nil {
			return nil, &CallError{Reason: ReasonInvalidArguments, Err: fmt.Errorf("arguments: %w", err)}
		}
		identity["arguments"] = string(whole)
	}
	for i := range c.Identity {
		f := &c.Identity[i]
		v, err := f.Canonical(args)
		if err != nil {
			reason := ReasonInvalidArguments
			if isMissing(err) {
				reason = ReasonIdentityMissing
			}
			return nil, &CallError{Reason: reason, Field: f.Name, Err: err}
		}
		identity[f.Name] = v
	}
	return identity, nil
}

// place decides the scope and fills the blob.
func (id *Identified) place(c *Contract, call *Call) error {
	id.blob = Blob{ID: id.Identity, id: id.identity, Tool: c.Tool, Tenant: call.Tenant}
	id.Scope = c.Scope
	switch c.Scope {
	case ScopeBusiness:
		return nil
	case ScopeParentRun:
		if call.ParentRun == "" {
			return &CallError{Reason: ReasonRunRequired, Field: "parent_run", Err: fmt.Errorf("tool %q needs the id of the parent run from the host", c.Tool)}
		}
		id.blob.Run = call.ParentRun
		return nil
	}
	if call.Run == "" {
		return &CallError{Reason: ReasonRunRequired, Field: "run", Err: fmt.Errorf("tool %q needs a run id from the host", c.Tool)}
	}
	id.blob.Run = call.Run
	if c.Scope == ScopeStep {
		if call.Step == "" {
			id.Scope = ScopeRun
		} else {
			id.blob.Step = call.Step
		}
	}
	return nil
}

// Blob returns the bytes that the key of the given generation is made from.
func (id *Identified) Blob(gen int) ([]byte, error) {
	b := id.blob
	b.Gen = gen
	return b.Bytes()
}

// claims fills the digests by which a store keeps effects apart.
func (id *Identified) claims(c *Contract, call *Call, in *Intent) error {
	blob, err := id.Blob(0)
	if err != nil {
		return err
	}
	in.IdentityClaim = digest("identity", blob)
	if call.Run != "" {
		place := RunPlace(call.Run)
		b := Blob{ID: id.Identity, id: id.identity, Tool: c.Tool, Tenant: call.Tenant, Run: call.Run}
		anyStep, err := b.Bytes()
		if err != nil {
			return err
		}
		in.StepClaim = digest("step", anyStep)
		once := digest("once", anyStep)
		if c.Scope == ScopeStep {
			in.OnceClaim = placed(once, place, once)
		}
		if id.blob.Run == call.Run {
			in.IdentityClaim = placed(in.IdentityClaim, place, once)
		}
	}
	if len(c.Serialize) > 0 {
		subject := make(map[string]any, len(c.Serialize))
		for _, f := range c.Serialize {
			subject[f] = id.Identity[f]
		}
		b, err := AppendJSON(nil, map[string]any{"subject": subject, "tenant": call.Tenant})
		if err != nil {
			return err
		}
		in.SubjectClaim = digest("subject", b)
	}
	return nil
}

// RunPlace is what claims in a run begin with, so that a store that keeps claims in order
// keeps those of a run together.
func RunPlace(run string) [4]byte {
	d := digest("run", []byte(run))
	return [4]byte(d[:4])
}

// placed puts a digest beside those of the same run, and there beside those of the same
// identity. What sets it apart within these are its last 64 bits.
func placed(d Digest, run [4]byte, identity Digest) Digest {
	copy(d[:4], run[:])
	copy(d[4:8], identity[4:8])
	return d
}

func digest(kind string, b []byte) Digest {
	text := append(append(make([]byte, 0, 512), kind...), 0)
	sum := sha256.Sum256(append(text, b...))
	return Digest(sum[:16])
}

// compare tells a repeat's arguments from the ones that were recorded: guards are fields
// that may not differ, free those that may and do.
func (c *Contract) compare(earlier, now map[string]any) (guards, free []string) {
	if c.IdentityAll {
		return nil, nil
	}
	e, n := without(earlier, c.identitySources(earlier)), without(now, c.identitySources(now))
	for _, path := range c.Free {
		if !sameJSON(at(e, path), at(n, path)) {
			free = append(free, strings.TrimPrefix(path, "/"))
		}
	}
	e, n = without(e, c.Free), without(n, c.Free)
	names := make(map[string]bool, len(e)+len(n))
	for k := range e {
		names[k] = true
	}
	for k := range n {
		names[k] = true
	}
	for k := range names {
		if !sameJSON(e[k], n[k]) {
			guards = append(guards, k)
		}
	}
	slices.Sort(guards)
	slices.Sort(free)
	return guards, free
}

// identitySources lists where in the arguments the identity was found.
func (c *Contract) identitySources(args map[string]any) []string {
	var places []string
	for i := range c.Identity {
		places = append(places, c.Identity[i].sources(args)...)
	}
	return places
}

// sameJSON compares two parsed values; numbers by value, also where one is quoted, missing
// like null.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !sameJSON(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	case json.Number:
		switch b := b.(type) {
		case json.Number:
			return sameNumber(string(a), string(b))
		case string:
			return spells(b, string(a))
		}
		return false
	default:
		switch b := b.(type) {
		case map[string]any, []any:
			return false
		case json.Number:
			text, ok := a.(string)
			return ok && spells(text, string(b))
		}
		return a == b
	}
}

// spells reports whether a text is a JSON number of the same value: models quote numbers.
// Text such as 007 is none.
func spells(text, number string) bool {
	return json.Valid([]byte(text)) && sameNumber(text, number)
}

// sameNumber compares by value, and beyond what canonical numbers may be by spelling.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, wrong := parseDecimal(a)
	y, wrongToo := parseDecimal(b)
	return wrong == "" && wrongToo == "" && x == y
}
