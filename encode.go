package pawl

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AppendIntent appends the JSON of an intent, which is what stores keep: '<', '>' and '&'
// stay as they are, and a request that is the arguments is left out. Raw JSON is checked.
func AppendIntent(dst []byte, in *Intent) ([]byte, error) {
	w := jsonWriter{b: dst}
	w.open()
	w.id("id", in.ID)
	w.optional("tenant", in.Tenant)
	w.optional("actor", in.Actor)
	w.text("tool", in.Tool)
	w.optional("run", in.Run)
	w.optional("step", in.Step)
	w.text("scope", string(in.Scope))
	w.name("key")
	w.b = append(w.b, '"')
	w.b = append(hex.AppendEncode(w.b, in.Key[:]), '"')
	w.optional("secret_id", in.SecretID)
	w.int("canonical", int64(in.Canonical))
	w.raw("identity", in.Identity)
	w.raw("args", in.Args)
	if len(in.Request) == 0 {
		w.text("request", "")
	} else if !bytes.Equal(in.Request, in.Args) {
		w.bytes("request", in.Request)
	}
	w.text("effect", in.Effect)
	w.text("contract_hash", in.ContractHash)
	w.time("deadline", in.Deadline)
	w.time("created", in.Created)
	if in.ParentRun != "" || in.Gen != 0 || in.Attributes != nil || in.Trace != "" || in.Planned || in.Undoes != (ID{}) {
		w.rest(reflect.ValueOf(in).Elem(), restOfIntent)
	}
	w.close()
	return w.b, w.err
}

// DecodeIntent reads what AppendIntent wrote.
func DecodeIntent(raw []byte, in *Intent) error {
	err := json.Unmarshal(raw, in)
	if in.Request == nil {
		in.Request = in.Args
	}
	return err
}

// AppendState appends the JSON of a state, which json.Unmarshal reads, without Token, Lease
// and Due, which claims and renewals write alone. Raw JSON is checked.
func AppendState(dst []byte, s *State) ([]byte, error) {
	w := jsonWriter{b: dst}
	w.open()
	w.text("status", string(s.Status))
	w.optional("reason", string(s.Reason))
	w.int("version", s.Version)
	w.time("updated", s.Updated)
	if len(s.Attempts) > 0 {
		w.name("attempts")
		for i := range s.Attempts {
			w.b = append(w.b, "[,"[min(i, 1)])
			w.attempt(&s.Attempts[i])
		}
		w.b = append(w.b, ']')
	}
	w.optionalRaw("result", s.Result)
	w.optional("ref", s.Ref)
	w.optional("settled_by", string(s.SettledBy))
	w.bytes("chain", s.Chain)
	if s.Probes != (Probes{}) || s.Before != nil || !s.Review.IsZero() || s.ReviewReason != "" || s.Approval != nil || s.Order != "" ||
		!s.Quiet.IsZero() || !s.Aborted.IsZero() || s.UndoneBy != (ID{}) {
		w.rest(reflect.ValueOf(s).Elem(), restOfState)
	}
	w.close()
	return w.b, w.err
}

// AppendEntry is AppendState for an entry of a history.
func AppendEntry(dst []byte, e *Entry) ([]byte, error) {
	w := jsonWriter{b: dst}
	w.open()
	w.int("seq", e.Seq)
	w.time("at", e.At)
	w.text("event", e.Event)
	w.text("by", e.By)
	w.optional("from", string(e.From))
	w.text("to", string(e.To))
	w.optional("reason", string(e.Reason))
	w.count("attempt", int64(e.Attempt))
	if e.Evidence != nil {
		w.name("evidence")
		w.evidence(e.Evidence)
	}
	if e.Probe != nil || e.Fence != nil || e.Decision != nil || e.Note != "" {
		w.rest(reflect.ValueOf(e).Elem(), restOfEntry)
	}
	w.close()
	return w.b, w.err
}

// What the writers above leave to encoding/json: what most operations have not. Looking for
// it by reflection costs as much as all the rest, hence the conditions above.
var (
	restOfIntent = restOf[Intent]("id", "tenant", "actor", "tool", "run", "step", "scope", "key", "secret_id", "canonical",
		"identity", "args", "request", "effect", "contract_hash", "deadline", "created")
	restOfState = restOf[State]("status", "reason", "version", "token", "lease", "due", "updated", "attempts", "result", "ref", "settled_by", "chain")
	restOfEntry = restOf[Entry]("seq", "at", "event", "by", "from", "to", "reason", "attempt", "evidence")
)

// restField is a field that is written only where it is not zero.
type restField struct {
	index int
	name  string
}

// restOf finds the fields of a struct that are kept and are not written by name.
func restOf[T any](written ...string) (rest []restField) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "-" && !slices.Contains(written, name) {
			rest = append(rest, restField{i, name})
		}
	}
	return rest
}

// jsonWriter appends JSON objects member by member and keeps the first error.
type jsonWriter struct {
	b   []byte
	err error
}

func (w *jsonWriter) rest(v reflect.Value, fields []restField) {
	for _, f := range fields {
		if field := v.Field(f.index); !field.IsZero() {
			w.value(f.name, field.Interface())
		}
	}
}

// value leaves one value to encoding/json.
func (w *jsonWriter) value(name string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		w.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	w.name(name)
	w.b = append(w.b, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func (w *jsonWriter) open()  { w.b = append(w.b, '{') }
func (w *jsonWriter) close() { w.b = append(w.b, '}') }

// name begins a member. Names are ours and need no escape.
func (w *jsonWriter) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *jsonWriter) text(name, v string) {
	w.name(name)
	w.b = appendString(w.b, v)
}

// optional leaves an empty text out.
func (w *jsonWriter) optional(name, v string) {
	if v != "" {
		w.text(name, v)
	}
}

func (w *jsonWriter) int(name string, v int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

// count leaves 0 out.
func (w *jsonWriter) count(name string, v int64) {
	if v != 0 {
		w.int(name, v)
	}
}

// flag leaves false out.
func (w *jsonWriter) flag(name string, v bool) {
	if v {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *jsonWriter) id(name string, id ID) {
	w.name(name)
	w.b = append(append(w.b, '"'), idPrefix...)
	w.b = append(hex.AppendEncode(w.b, id[:]), '"')
}

func (w *jsonWriter) bytes(name string, v []byte) {
	w.name(name)
	if v == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = append(w.b, '"')
	w.b = append(base64.StdEncoding.AppendEncode(w.b, v), '"')
}

func (w *jsonWriter) raw(name string, v json.RawMessage) {
	w.name(name)
	switch {
	case v == nil:
		w.b = append(w.b, "null"...)
	case validJSON(v):
		w.b = append(w.b, v...)
	default:
		w.fail(fmt.Errorf("%s is not JSON", name))
	}
}

func (w *jsonWriter) optionalRaw(name string, v json.RawMessage) {
	if len(v) > 0 {
		w.raw(name, v)
	}
}

func (w *jsonWriter) time(name string, t time.Time) {
	w.name(name)
	if y := t.Year(); y < 0 || y > 9999 {
		w.fail(fmt.Errorf("%s: year %d is outside of 0 to 9999", name, y))
	}
	w.b = append(w.b, '"')
	w.b = append(t.AppendFormat(w.b, time.RFC3339Nano), '"')
}

func (w *jsonWriter) optionalTime(name string, t time.Time) {
	if !t.IsZero() {
		w.time(name, t)
	}
}

func (w *jsonWriter) labels(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.name(name)
	w.open()
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if w.b[len(w.b)-1] != '{' {
			w.b = append(w.b, ',')
		}
		w.b = append(appendString(w.b, k), ':')
		w.b = appendString(w.b, m[k])
	}
	w.close()
}

func (w *jsonWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *jsonWriter) attempt(a *Attempt) {
	w.open()
	w.int("n", int64(a.N))
	w.text("kind", string(a.Kind))
	w.time("permit", a.Permit)
	w.optional("worker", a.Worker)
	w.optional("class", string(a.Class))
	w.optional("strength", string(a.Strength))
	w.optional("proof", a.Proof)
	w.count("code", int64(a.Code))
	w.flag("no_effect", a.NoEffect)
	w.flag("replayed", a.Replayed)
	w.optionalTime("ended", a.Ended)
	w.flag("lost", a.Lost)
	w.close()
}

func (w *jsonWriter) evidence(e *Evidence) {
	w.open()
	w.text("class", string(e.Class))
	w.optional("strength", string(e.Strength))
	w.optional("proof", e.Proof)
	w.flag("transient", e.Transient)
	w.flag("conflict", e.Conflict)
	w.flag("in_flight", e.InFlight)
	w.flag("key_mismatch", e.KeyMismatch)
	w.flag("replayed", e.Replayed)
	w.count("code", int64(e.Code))
	w.labels("header", e.Header)
	if len(e.Body) > 0 {
		w.bytes("body", e.Body)
	}
	w.flag("result_cut", e.ResultCut)
	w.optional("body_sha256", e.BodySHA256)
	w.count("body_size", e.BodySize)
	w.optionalRaw("result", e.Result)
	w.optional("ref", e.Ref)
	w.int("bytes_begun", e.BytesBegun)
	w.int("body_pulled", e.BodyPulled)
	if len(e.Trace) > 0 {
		w.name("trace")
		for i, s := range e.Trace {
			w.b = appendString(append(w.b, "[,"[min(i, 1)]), s)
		}
		w.b = append(w.b, ']')
	}
	w.optional("peer", e.Peer)
	w.optional("error", e.Error)
	w.count("took_ns", int64(e.Took))
	w.close()
}

// appendString appends a string as JSON. Unlike canonical text it takes every string and
// keeps what is not ASCII; invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0 // everything before it is in dst
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if valid := r != utf8.RuneError || n > 1; c >= utf8.RuneSelf && valid && r != '\u2028' && r != '\u2029' {
			i += n
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = appendEscaped(dst, r)
		i += n
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}
