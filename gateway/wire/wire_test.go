package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `request 1 ping  `},
		{` {"id":"a\"b","params":{"x":[1, 2]},"method":"m","jsonrpc":"2.0","extra":true} `, `request "a\"b" m {"x":[1, 2]} `},
		{`{"jsonrpc":"2.0","method":"n","id":null,"params":null}`, `notification  n  `},
		{`{"jsonrpc":"2.0","id":1.50,"result":{"big":12345678901234567890,"Y":1,"y":2}}`, `response 1.50   {"big":12345678901234567890,"Y":1,"y":2}`},
		{`{"jsonrpc":"2.0","id":1,"result":[]}`, `response 1   []`},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":[1],"more":2}}`, `response    error -32700: x [1]`},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":1}}`, `response 7   error 1:  `},
	} {
		m, err := Parse([]byte(c.raw))
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		if got := describe(m); got != c.want {
			t.Errorf("%s: got %q, want %q", c.raw, got, c.want)
		}
		again, err := Parse(m.Append(nil))
		if err != nil || describe(again) != c.want || string(m.Raw) != c.raw {
			t.Errorf("%s: written and read again: got %+v, %v", c.raw, again, err)
		}
	}
	for _, raw := range []string{
		``, `1`, `[]`, `[{"jsonrpc":"2.0","id":1,"method":"m"}]`, `{`, `{}`, `{"jsonrpc":"1.0","id":1,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"method":"m"} x`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"ID":2,"method":"m"}`, `{"jsonrpc":"2.0","id":{},"method":"m"}`, `{"jsonrpc":"2.0","id":true,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"method":""}`, `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}`,
		`{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","id":1,"error":"x"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5}}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", `Listening on stdio`,
	} {
		if m, err := Parse([]byte(raw)); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: got %+v, %v, want ErrMessage", raw, m, err)
		}
	}
}

func describe(m *Message) string {
	kind := "response"
	if m.IsRequest() {
		kind = "request"
	} else if m.IsNotification() {
		kind = "notification"
	}
	s := kind + " " + string(m.ID) + " " + m.Method + " " + string(m.Params) + " "
	if m.Error != nil {
		return s + m.Error.Error() + " " + string(m.Error.Data)
	}
	return s + string(m.Result)
}

// TestOneLine: what has line breaks between its tokens is one line on the wire.
func TestOneLine(t *testing.T) {
	t.Parallel()
	m := Result("1", json.RawMessage("{\n\t\"a\": \"x\\ny\",\r\n\"b\": 1}"))
	got := m.Append(nil)
	if bytes.ContainsAny(got, "\r\n") {
		t.Errorf("got %q, want one line", got)
	}
	again, err := Parse(got)
	if err != nil || !strings.Contains(string(again.Result), `"x\ny"`) {
		t.Errorf("got %v, %v", again, err)
	}
}

func TestEditMeta(t *testing.T) {
	t.Parallel()
	set := func(o Object) Object { return o.With("k", json.RawMessage("1")) }
	for _, c := range []struct {
		raw  string
		edit func(Object) Object
		want string
	}{
		{``, set, `{"_meta":{"k":1}}`},
		{`null`, set, `{"_meta":{"k":1}}`},
		{`{"z":1,"_meta":{"b":{"X":1,"x":2},"a":2},"a":[ 1 ]}`, set, `{"z":1,"_meta":{"b":{"X":1,"x":2},"a":2,"k":1},"a":[ 1 ]}`},
		{`{"_meta":{"k":7}}`, set, `{"_meta":{"k":1}}`},
		{`{"_meta":{"k":7},"a":1}`, func(o Object) Object { return o.Without(func(n string) bool { return n == "k" }) }, `{"a":1}`},
		{`{"_meta":null,"a":1}`, func(o Object) Object { return o }, `{"a":1}`},
	} {
		got, err := EditMeta(json.RawMessage(c.raw), c.edit)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.raw, got, err, c.want)
		}
	}
	for _, raw := range []string{`[]`, `{"_meta":7}`, `{"_meta":{"a":1,"A":2}}`, `{"_meta":{},"_meta":{}}`} {
		if got, err := EditMeta(json.RawMessage(raw), set); !errors.Is(err, ErrObject) {
			t.Errorf("%s: got %s, %v, want ErrObject", raw, got, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"plain": "plain", "a b": "a b", "": "", " a": "=?base64?IGE=?=", "ü": "=?base64?w7w=?=", "a\nb": "=?base64?YQpi?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=", "=?BASE64?eA==?=": "=?base64?PT9CQVNFNjQ/ZUE9PT89?=", "=?base64?": "=?base64?",
	} {
		if got := EncodeHeader(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
		if got, ok := DecodeHeader(want); !ok || got != s {
			t.Errorf("%q back: got %q %v", want, got, ok)
		}
	}
	for _, v := range []string{"=?base64?x?=", "=?base64?/w==?="} {
		if got, ok := DecodeHeader(v); ok {
			t.Errorf("%q: got %q, want none", v, got)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	in := "one\r\n\n  two  \n" + strings.Repeat("x", 200) + "\nthree\nfour, cut"
	r := NewLineReader(iotest.OneByteReader(strings.NewReader(in)), 100)
	for _, want := range []string{"one", "two", "", "three"} {
		got, err := r.Next()
		if want == "" {
			if !errors.Is(err, ErrTooLong) {
				t.Errorf("got %q, %v, want ErrTooLong", got, err)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := r.Next(); err != io.EOF {
		t.Errorf("got %q, %v, want io.EOF: half a line is none", got, err)
	}
	r = NewLineReader(strings.NewReader(strings.Repeat("y", 100)+"\n"), 100)
	if got, err := r.Next(); err != nil || len(got) != 100 {
		t.Errorf("got %d bytes, %v, want a line of the limit", len(got), err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	in := "\xef\xbb\xbf: hello\ndata: one\n\nevent: message\nid: 7\nretry: 1500\ndata:two\ndata: more\n\n" +
		"data: three\r\n\r\ndata: four\rdata: five\r\r\nid: 8\n\nevent: other\ndata\n\ndata: " + strings.Repeat("x", 500) + "\n\ndata: after\n\ndata: cut"
	for name, reader := range map[string]io.Reader{
		"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
	} {
		r := NewEventReader(reader, 100)
		for _, want := range []string{" one ", "message two\nmore 7", " three 7", " four\nfive 7", "other  8", "too long", " after 8"} {
			e, err := r.Next()
			if errors.Is(err, ErrTooLong) && want == "too long" {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v, want %q", name, err, want)
			}
			if got := e.Type + " " + string(e.Data) + " " + e.ID; got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if e, err := r.Next(); err != io.EOF || r.LastID() != "8" || r.Retry() != 1500*time.Millisecond {
			t.Errorf("%s: got %+v, %v, %q, %v, want io.EOF behind 8", name, e, err, r.LastID(), r.Retry())
		}
	}
	var b bytes.Buffer
	w := NewEventWriter(&b)
	for _, data := range []string{`{"a":1}`, "two\nlines"} {
		if err := errors.Join(w.Write("i\nd", []byte(data)), w.Comment()); err != nil {
			t.Fatal(err)
		}
	}
	r := NewEventReader(&b, 0)
	for _, want := range []string{`{"a":1}`, "two\nlines"} {
		if e, err := r.Next(); err != nil || string(e.Data) != want || e.ID != "id" {
			t.Errorf("got %+v, %v, want %q", e, err, want)
		}
	}
}

// TestEventIsNotHeldBack: an event that ends in a CR is there before the next byte is.
func TestEventIsNotHeldBack(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	defer out.Close()
	r := NewEventReader(in, 0)
	go io.WriteString(out, "data: a\r\r")
	if e, err := r.Next(); err != nil || string(e.Data) != "a" {
		t.Fatalf("got %+v, %v", e, err)
	}
	go io.WriteString(out, "\ndata: b\n\n")
	if e, err := r.Next(); err != nil || string(e.Data) != "b" {
		t.Fatalf("got %+v, %v", e, err)
	}
}

func TestEraOf(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]Era{
		Version20241105: Legacy, Version20251125: Legacy, Version20260728: Modern, "2027-01-01": Modern, "": Legacy,
	} {
		if got := EraOf(v); got != want {
			t.Errorf("%s: got %v, want %v", v, got, want)
		}
	}
	for i, v := range Versions[1:] {
		if v >= Versions[i] || !Spoken(v) {
			t.Errorf("%s is not older than %s", v, Versions[i])
		}
	}
}

// FuzzParse: a text is refused, or says the same when it is written and read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1}}}`, `{"jsonrpc":"2.0","id":"x","result":{}}`,
		`{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","method":"n"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Parse(bytes.Clone(raw))
		if err != nil {
			return
		}
		text := m.Append(nil)
		again, err := Parse(text)
		if err != nil || bytes.ContainsAny(text, "\n\r") || !json.Valid(text) {
			t.Fatalf("%q written as %q: %v", raw, text, err)
		}
		if describe(again) != strings.NewReplacer("\n", " ", "\r", " ").Replace(describe(m)) && m.Method == "" {
			t.Fatalf("%q: got %q, want %q", raw, describe(again), describe(m))
		}
		edited, err := EditMeta(m.Params, func(o Object) Object { return o.With("k", json.RawMessage("1")) })
		if err == nil && string(Meta(edited).Get("k")) != "1" {
			t.Fatalf("%q: got %s, want the key", raw, edited)
		}
	})
}

// FuzzEvents: a stream in any pieces is read alike, and no event is beyond the limit.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: 1\ndata: a\r\n\r\n:c\rdata\r\r"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		read := func(r io.Reader) (list []string) {
			e := NewEventReader(r, 64)
			for {
				ev, err := e.Next()
				switch {
				case errors.Is(err, ErrTooLong):
					list = append(list, "too long")
				case err != nil:
					return list
				case len(ev.Data) > 64:
					t.Fatalf("got %d bytes", len(ev.Data))
				default:
					list = append(list, ev.Type+"|"+ev.ID+"|"+string(ev.Data))
				}
			}
		}
		whole, pieces := read(bytes.NewReader(raw)), read(iotest.OneByteReader(bytes.NewReader(raw)))
		if strings.Join(whole, "\x00") != strings.Join(pieces, "\x00") {
			t.Fatalf("%q: got %q at once and %q in pieces", raw, whole, pieces)
		}
	})
}

// FuzzHeader: every text comes back.
func FuzzHeader(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(t *testing.T, s string) {
		v := EncodeHeader(s)
		for i := range len(v) {
			if v[i] < ' ' || v[i] >= 0x7f {
				t.Fatalf("%q: got %q, which is no header's value", s, v)
			}
		}
		if got, ok := DecodeHeader(v); utf8.ValidString(s) && (!ok || got != s) {
			t.Fatalf("%q: got %q by %q", s, got, v)
		}
	})
}
