package sqlite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rule"
)

// row is one operation as the tables hold it. Callers make it
// before they queue a write and read it after it was copied out, so that the writer never
// encodes or decodes.
type row struct {
	op        int64
	id        pawl.ID
	lane      int64
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
	maxName     = 4 << 10  // bytes of a tenant, tool, run or ref
)

func newRow(op *pawl.Operation) (*row, error) {
	r := &row{
		id: op.ID, tenant: op.Tenant, tool: op.Tool, run: op.Run,
		key: [16]byte(op.Key[:16]), gen: int64(op.Gen),
		claims: [4]pawl.Digest{op.IdentityClaim, op.StepClaim, op.OnceClaim, op.SubjectClaim},
	}
	if r.id == (pawl.ID{}) {
		return nil, fmt.Errorf("operation has no id")
	}
	for i, s := range [...]string{r.tenant, r.tool, r.run} {
		if len(s) > maxName {
			return nil, fmt.Errorf("%s has %d bytes, at most %d are kept", [...]string{"tenant", "tool", "run"}[i], len(s), maxName)
		}
	}
	var err error
	if r.intent, err = document(pawl.AppendIntent(make([]byte, 0, sizeOf(&op.Intent)), &op.Intent)); err != nil {
		return nil, fmt.Errorf("intent: %w", err)
	}
	r.intentSum = r.intentSeal()
	return r, r.setState(&op.State, op.Status.Held())
}

// sizeOf is about what an intent has in bytes, for most.
func sizeOf(in *pawl.Intent) int {
	n := 576 + len(in.Args) + len(in.Identity) + len(in.Effect)
	if !bytes.Equal(in.Request, in.Args) {
		n += 2 * len(in.Request)
	}
	return n
}

// setState fills in the part of the row that a change writes.
func (r *row) setState(s *pawl.State, held pawl.ClaimsHeld) (err error) {
	if len(s.Ref) > maxName {
		return fmt.Errorf("ref has %d bytes, at most %d are kept", len(s.Ref), maxName)
	}
	if r.state, err = document(pawl.AppendState(make([]byte, 0, 448+len(s.Result)), s)); err != nil {
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
	return !rule.Holds(rule.RowsAreChecked) || !r.broken && r.intentSum == r.intentSeal() && r.stateSum == r.stateSeal() && r.claimSum == r.claimSeal()
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

// columns are what scan copies, selected from the tables that joined names.
const (
	columns = `i.op, i.id, i.lane, l.tenant, l.tool, i.run, i.key, i.gen, i.identity_claim, s.step_claim, s.once_claim, s.subject_claim,
		i.intent, i.intent_sum, s.status, s.version, s.open, s.held, s.review, s.ref,
		CASE s.version WHEN 1 THEN i.state ELSE c.state END, s.state_sum, s.token, s.lease, s.due, s.claim_sum`
	joined = `intents i JOIN states s ON s.op = i.op JOIN lanes l ON l.lane = i.lane LEFT JOIN changes c ON c.line = s.op << 20 | s.version`
)

// scan copies the current row of a statement that selects columns.
func scan(s *sqlite3.Stmt) *row {
	r := new(row)
	fixed := func(col int, dst []byte) {
		if b := s.ColumnRawBlob(col); b != nil && copy(dst, b) != len(b) {
			r.broken = true
		}
	}
	r.op = s.ColumnInt64(0)
	fixed(1, r.id[:])
	r.lane, r.tenant, r.tool, r.run = s.ColumnInt64(2), s.ColumnText(3), s.ColumnText(4), s.ColumnText(5)
	fixed(6, r.key[:])
	r.gen = s.ColumnInt64(7)
	for i := range r.claims {
		fixed(8+i, r.claims[i][:])
	}
	r.intent, r.intentSum = bytes.Clone(s.ColumnRawText(12)), s.ColumnInt64(13)
	r.status, r.version = s.ColumnText(14), s.ColumnInt64(15)
	r.open, r.held = s.ColumnInt64(16) != 0, s.ColumnInt64(17)
	r.review, r.ref = s.ColumnInt64(18), s.ColumnText(19)
	r.state, r.stateSum = bytes.Clone(s.ColumnRawText(20)), s.ColumnInt64(21)
	r.token, r.lease, r.due, r.claimSum = s.ColumnInt64(22), s.ColumnInt64(23), s.ColumnInt64(24), s.ColumnInt64(25)
	return r
}

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
