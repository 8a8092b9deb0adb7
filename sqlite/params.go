package sqlite

import (
	"errors"
	"unsafe"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

// params binds the parameters of a statement in order, keeps the first error, and runs it.
type params struct {
	s   *sqlite3.Stmt
	n   int
	err error
}

func (p *params) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *params) next() int { p.n++; return p.n }

func (p *params) int(v int64)   { p.keep(p.s.BindInt64(p.next(), v)) }
func (p *params) text(v string) { p.keep(p.s.BindText(p.next(), v)) }
func (p *params) blob(v []byte) { p.keep(p.s.BindBlob(p.next(), v)) }
func (p *params) null()         { p.keep(p.s.BindNull(p.next())) }
func (p *params) bool(v bool)   { p.keep(p.s.BindBool(p.next(), v)) }

// raw binds text without the copy that BindRawText makes first; the driver copies it into
// its own memory.
func (p *params) raw(v []byte) { p.text(unsafe.String(unsafe.SliceData(v), len(v))) }

// time binds NULL for the zero time.
func (p *params) time(us int64) {
	if us == 0 {
		p.null()
	} else {
		p.int(us)
	}
}

// claim binds NULL for a digest that claims nothing.
func (p *params) claim(d *pawl.Digest) {
	if claimed(*d) {
		p.blob(d[:])
	} else {
		p.null()
	}
}

// state binds the columns that a change writes, in the order of the table.
func (p *params) state(r *row) {
	p.int(r.held)
	p.bool(r.open)
	p.text(r.status)
	p.int(r.version)
	p.time(r.review)
	if r.ref == "" {
		p.null()
	} else {
		p.text(r.ref)
	}
	p.int(r.stateSum)
	p.claimed(r)
}

// claimed binds the columns that a claim or a renewal writes.
func (p *params) claimed(r *row) {
	p.int(r.token)
	p.time(r.lease)
	p.time(r.due)
	p.int(r.claimSum)
}

// exec runs a statement that writes, and reports whether it changed a row.
func (p *params) exec() (bool, error) {
	if p.err != nil {
		return false, p.err
	}
	if err := p.s.Exec(); err != nil {
		return false, err
	}
	return p.s.Conn().Changes() > 0, nil
}

// query runs a statement that reads, calls each for every row, and reports whether
// there was one.
func (p *params) query(each func(*sqlite3.Stmt)) (found bool, err error) {
	if p.err != nil {
		return false, p.err
	}
	for p.s.Step() {
		found = true
		each(p.s)
	}
	return found, errors.Join(p.s.Err(), p.s.Reset())
}

// one reads the number that a statement selects.
func (p *params) one() (n int64, found bool, err error) {
	found, err = p.query(func(s *sqlite3.Stmt) { n = s.ColumnInt64(0) })
	return n, found, err
}
