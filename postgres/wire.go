package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// Values travel in the protocol's binary form, and every parameter says its type, so that
// a statement needs no preparing and one round trip is enough.

// kind is the type of a parameter.
type kind struct {
	name       string // in SQL
	oid, array uint32
}

var (
	kindUUID = kind{"uuid", pgtype.UUIDOID, pgtype.UUIDArrayOID}
	kindInt  = kind{"bigint", pgtype.Int8OID, pgtype.Int8ArrayOID}
	kindText = kind{"text", pgtype.TextOID, pgtype.TextArrayOID}
	kindBool = kind{"boolean", pgtype.BoolOID, pgtype.BoolArrayOID}
)

// tuple is one row of parameters. A nil value is NULL.
type tuple struct {
	values [][]byte
	buf    []byte // holds the values of fixed size
}

func newTuple(values int) *tuple {
	return &tuple{values: make([][]byte, 0, values), buf: make([]byte, 0, 16*values)}
}

func (t *tuple) fixed(v []byte) {
	at := len(t.buf)
	t.buf = append(t.buf, v...)
	t.values = append(t.values, t.buf[at:len(t.buf):len(t.buf)])
}

func (t *tuple) null() { t.values = append(t.values, nil) }

func (t *tuple) uuid(v [16]byte) { t.fixed(v[:]) }

// claim is NULL for a digest that claims nothing.
func (t *tuple) claim(v [16]byte) {
	if claimed(v) {
		t.uuid(v)
	} else {
		t.null()
	}
}

func (t *tuple) int(v int64) {
	at := len(t.buf)
	t.buf = binary.BigEndian.AppendUint64(t.buf, uint64(v))
	t.values = append(t.values, t.buf[at:len(t.buf):len(t.buf)])
}

// time is NULL for the zero time.
func (t *tuple) time(us int64) {
	if us == 0 {
		t.null()
	} else {
		t.int(us)
	}
}

func (t *tuple) bool(v bool) {
	if v {
		t.fixed([]byte{1})
	} else {
		t.fixed([]byte{0})
	}
}

// document is a text that is kept as it is, without a copy. It must not be nil.
func (t *tuple) document(v []byte) { t.values = append(t.values, v) }

// name is a text of anybody's choice.
func (t *tuple) name(v string) { t.values = append(t.values, []byte(escape(v))) }

// ref is NULL for none.
func (t *tuple) ref(v string) {
	if v == "" {
		t.null()
	} else {
		t.name(v)
	}
}

// escape makes of any string a text that PostgreSQL keeps: it refuses NUL and what is not
// UTF-8. A backslash stands before itself, before 0 for NUL, and before x and two digits
// for a byte that is no UTF-8.
func escape(s string) string {
	if !strings.ContainsAny(s, "\x00\\") && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0:
			b.WriteString(`\0`)
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unescape undoes escape; what escape cannot have made is false.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		var v byte
		switch {
		case i < len(s) && s[i] == '\\':
			b.WriteByte('\\')
		case i < len(s) && s[i] == '0':
			b.WriteByte(0)
		case i+2 < len(s) && s[i] == 'x':
			if _, err := fmt.Sscanf(s[i+1:i+3], "%02x", &v); err != nil {
				return "", false
			}
			b.WriteByte(v)
			i += 2
		default:
			return "", false
		}
	}
	return b.String(), true
}

// arrays turns rows into one array for each column.
func arrays(kinds []field, rows []*tuple) [][]byte {
	params := make([][]byte, len(kinds))
	for column := range kinds {
		size, nulls := 20+4*len(rows), uint32(0)
		for _, r := range rows {
			size += len(r.values[column])
			if r.values[column] == nil {
				nulls = 1
			}
		}
		b := make([]byte, 0, size)
		b = binary.BigEndian.AppendUint32(b, 1) // dimensions
		b = binary.BigEndian.AppendUint32(b, nulls)
		b = binary.BigEndian.AppendUint32(b, kinds[column].oid)
		b = binary.BigEndian.AppendUint32(b, uint32(len(rows)))
		b = binary.BigEndian.AppendUint32(b, 1) // the first index
		for _, r := range rows {
			v := r.values[column]
			if v == nil {
				b = binary.BigEndian.AppendUint32(b, 1<<32-1)
				continue
			}
			b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
			b = append(b, v...)
		}
		params[column] = b
	}
	return params
}

// values reads the columns of a row in order. A value of the wrong size makes it broken.
type values struct {
	row    [][]byte
	broken bool
}

func (v *values) next() []byte {
	if len(v.row) == 0 {
		v.broken = true
		return nil
	}
	b := v.row[0]
	v.row = v.row[1:]
	return b
}

// uuid is zero for NULL.
func (v *values) uuid() (u [16]byte) {
	if b := v.next(); b != nil && copy(u[:], b) != len(b) {
		v.broken = true
	}
	return u
}

// int is 0 for NULL.
func (v *values) int() int64 {
	b := v.next()
	if b == nil {
		return 0
	}
	if len(b) != 8 {
		v.broken = true
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (v *values) bool() bool {
	b := v.next()
	return len(b) == 1 && b[0] == 1
}

func (v *values) document() []byte { return v.next() }

func (v *values) text() string { return string(v.next()) }

func (v *values) name() string {
	s, ok := unescape(v.text())
	v.broken = v.broken || !ok
	return s
}
