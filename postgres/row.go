package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/pawl-dev/pawl"
)

// row is one operation as the tables hold it. Callers make it before they queue a write
// and read it after it was copied out, so that a writer never encodes or decodes.
type row struct {
	id        pawl.ID
	lane      [16]byte
	tenant    string
	tool      string
	run       string
	key       [16]byte
	gen       int64
	claims    [4]pawl.Digest
	intent    []byte
	intentSum int64

	status   string
	version  int64
	open     bool
	held     int64
	review   int64
	ref      string
	state    []byte
	stateSum int64

	token    int64
	lease    int64
	due      int64
	claimSum int64

	// broken: a column has a value that no row of ours can have.
	broken bool
}

// Bits of the column held.
const (
	heldStep = 1 << iota
	heldOnce
	heldSubject
)

// Places in row.claims.
const (
	claimIdentity = iota
	claimStep
	claimOnce
	claimSubject
)

const (
	maxDocument = 64 << 20 // bytes of an intent, a state or an entry
	maxName     = 2 << 10  // bytes of a tenant, tool or run: what an index takes
	maxRef      = 4 << 10  // bytes of a ref
)

func newRow(op *pawl.Operation) (*row, error) {
	r := &row{
		id: op.ID, lane: laneOf(op.Tenant, op.Tool), tenant: op.Tenant, tool: op.Tool, run: op.Run,
		key: [16]byte(op.Key[:16]), gen: int64(op.Gen),
		claims: [4]pawl.Digest{op.IdentityClaim, op.StepClaim, op.OnceClaim, op.SubjectClaim},
	}
	if r.id == (pawl.ID{}) {
		return nil, fmt.Errorf("operation has no id")
	}
	for name, s := range map[string]string{"tenant": r.tenant, "tool": r.tool, "run": r.run} {
		if n := len(escape(s)); n > maxName {
			return nil, fmt.Errorf("%s has %d bytes, at most %d are kept", name, n, maxName)
		}
	}
	var err error
	if r.intent, err = document(pawl.AppendIntent(make([]byte, 0, 1024+len(op.Args)+2*len(op.Request)), &op.Intent)); err != nil {
		return nil, fmt.Errorf("intent: %w", err)
	}
	r.intentSum = r.intentSeal()
	return r, r.setState(&op.State, op.Status.Held())
}

// setState fills in the part of the row that a change writes.
func (r *row) setState(s *pawl.State, held pawl.ClaimsHeld) (err error) {
	if n := len(escape(s.Ref)); n > maxRef {
		return fmt.Errorf("ref has %d bytes, at most %d are kept", n, maxRef)
	}
	kept := *s
	kept.Token, kept.Lease, kept.Due = 0, time.Time{}, time.Time{} // claims and renewals write their columns alone
	if r.state, err = document(pawl.AppendState(make([]byte, 0, 512+len(s.Result)), &kept)); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	r.status, r.version, r.open = string(s.Status), s.Version, s.Status.Open()
	r.held = 0
	for _, h := range []struct {
		held bool
		bit  int64
	}{{held.Step, heldStep}, {held.Once, heldOnce}, {held.Subject, heldSubject}} {
		if h.held {
			r.held |= h.bit
		}
	}
	r.review, r.ref = micros(s.Review), s.Ref
	r.stateSum = r.stateSeal()
	r.setClaim(s.Token, s.Lease, s.Due)
	return nil
}

func (r *row) setClaim(token int64, lease, due time.Time) {
	r.token, r.lease, r.due = token, micros(lease), micros(due)
	r.claimSum = r.claimSeal()
}

// operation decodes the row after checking its seals.
func (r *row) operation() (*pawl.Operation, error) {
	if !r.sound() {
		return nil, fmt.Errorf("row of %s failed its check: %w", r.id, pawl.ErrCorrupt)
	}
	op := new(pawl.Operation)
	if err := pawl.DecodeIntent(r.intent, &op.Intent); err != nil {
		return nil, fmt.Errorf("intent of %s: %w: %w", r.id, pawl.ErrCorrupt, err)
	}
	if err := json.Unmarshal(r.state, &op.State); err != nil {
		return nil, fmt.Errorf("state of %s: %w: %w", r.id, pawl.ErrCorrupt, err)
	}
	op.IdentityClaim, op.StepClaim = r.claims[claimIdentity], r.claims[claimStep]
	op.OnceClaim, op.SubjectClaim = r.claims[claimOnce], r.claims[claimSubject]
	op.Token, op.Lease, op.Due = r.token, instant(r.lease), instant(r.due)
	return op, nil
}

// refused stands for a row that failed its check in a listing: what it was is in doubt,
// and version 0 keeps every change away from it.
func (r *row) refused() *pawl.Operation {
	return &pawl.Operation{
		Intent: pawl.Intent{ID: r.id, Tenant: r.tenant, Tool: r.tool, Run: r.run},
		State: pawl.State{
			Status: pawl.Unknown, Reason: pawl.ReasonRowRefused,
			Review: instant(r.review), ReviewReason: pawl.ReasonRowRefused,
		},
	}
}

func (r *row) sound() bool {
	return !r.broken && r.intentSum == r.intentSeal() && r.stateSum == r.stateSeal() && r.claimSum == r.claimSeal()
}

// seal sums what belongs together; every part is preceded by its length.
type seal struct {
	sum uint32
	buf [8]byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *seal) bytes(b []byte) {
	s.int(int64(len(b)))
	s.sum = crc32.Update(s.sum, castagnoli, b)
}

func (s *seal) string(v string) { s.bytes([]byte(v)) }

func (s *seal) int(v int64) {
	binary.BigEndian.PutUint64(s.buf[:], uint64(v))
	s.sum = crc32.Update(s.sum, castagnoli, s.buf[:])
}

func (r *row) intentSeal() int64 {
	var s seal
	s.bytes(r.id[:])
	s.string(r.tenant)
	s.string(r.tool)
	s.string(r.run)
	s.bytes(r.key[:])
	s.int(r.gen)
	for i := range r.claims {
		s.bytes(r.claims[i][:])
	}
	s.bytes(r.intent)
	return int64(s.sum)
}

func (r *row) stateSeal() int64 {
	var s seal
	s.bytes(r.id[:])
	s.string(r.status)
	s.int(r.version)
	if r.open {
		s.int(1)
	}
	s.int(r.held)
	s.int(r.review)
	s.string(r.ref)
	s.bytes(r.state)
	return int64(s.sum)
}

func (r *row) claimSeal() int64 {
	var s seal
	s.bytes(r.id[:])
	s.int(r.token)
	s.int(r.lease)
	s.int(r.due)
	return int64(s.sum)
}

// scan reads a row that a statement selected by columns.
func scan(v *values) *row {
	r := new(row)
	r.id, r.lane = v.uuid(), v.uuid()
	r.tenant, r.tool, r.run = v.name(), v.name(), v.name()
	r.key, r.gen = v.uuid(), v.int()
	for i := range r.claims {
		r.claims[i] = v.uuid()
	}
	r.intent, r.intentSum = v.document(), v.int()
	r.status, r.version, r.open, r.held = v.text(), v.int(), v.bool(), v.int()
	r.review, r.ref = v.int(), v.name()
	r.state, r.stateSum = v.document(), v.int()
	r.token, r.lease, r.due, r.claimSum = v.int(), v.int(), v.int(), v.int()
	r.broken = v.broken
	return r
}

// state adds what a change writes, in the order of stateFields.
func (t *tuple) state(r *row) {
	t.int(r.held)
	t.bool(r.open)
	t.document([]byte(r.status))
	t.int(r.version)
	t.time(r.review)
	t.ref(r.ref)
	t.int(r.stateSum)
	t.claimed(r)
}

// claimed adds what a claim or a renewal writes.
func (t *tuple) claimed(r *row) {
	t.int(r.token)
	t.time(r.lease)
	t.time(r.due)
	t.int(r.claimSum)
}

// laneOf names the lane of a tenant and a tool by the hash of both.
func laneOf(tenant, tool string) [16]byte {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(tenant))))
	h.Write([]byte(tenant))
	h.Write([]byte(tool))
	return [16]byte(h.Sum(nil)[:16])
}

func claimed(d [16]byte) bool { return d != [16]byte{} }

// document limits what is kept.
func document(b []byte, err error) ([]byte, error) {
	if err == nil && len(b) > maxDocument {
		err = fmt.Errorf("%d bytes, at most %d are kept", len(b), maxDocument)
	}
	return b, err
}

// encode keeps '<', '>' and '&' as they are, so that canonical JSON stays canonical.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return document(bytes.TrimSuffix(b.Bytes(), []byte("\n")), err)
}

// micros is 0 for the zero time, which columns hold as NULL.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
