package pawl

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// plainJSON is what encoding/json makes of a value.
func plainJSON(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// scramble sets every field to a value, or leaves it zero, by the dice.
func scramble(v reflect.Value, dice *rand.Rand) {
	zero := dice.IntN(3) == 0
	switch v.Interface().(type) {
	case time.Time:
		if !zero {
			v.Set(reflect.ValueOf(time.Unix(dice.Int64N(1<<33), dice.Int64N(1e9)/[]int64{1, 1e3, 1e9}[dice.IntN(3)]*1000).UTC()))
		}
		return
	case json.RawMessage:
		v.SetBytes([]byte(`{"é":["<&>",1.50,null]}`))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && f.Type() != reflect.TypeFor[*Contract]() {
				scramble(f, dice)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(dice.Uint64N(256))
		}
	}
	if zero {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(dice.Int64() >> dice.IntN(63))
	case reflect.Uint8:
		v.SetUint(dice.Uint64N(256))
	case reflect.String:
		texts := []string{"plain", `"\/<&>`, "\x00\b\f\n\r\t\x1f\x7f", "é 😀 \u2028\u2029\ufffd", "bad \xff\xc0 utf"}
		v.SetString(texts[dice.IntN(len(texts))])
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), dice.IntN(3), 3))
		for i := range v.Len() {
			scramble(v.Index(i), dice)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"b": "1", "a\n": "<", "é": ""}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		scramble(v.Elem(), dice)
	}
}

// TestEncoding reads back what was written, whatever fields are set, and holds it to what
// encoding/json keeps of them.
func TestEncoding(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		var in Intent
		var s State
		var e Entry
		scramble(reflect.ValueOf(&in).Elem(), dice)
		switch seed % 3 {
		case 0:
			in.Request = in.Args
		case 1:
			in.Request = []byte{}
		default:
			in.Request = append([]byte{byte(seed)}, in.Request...)
		}
		scramble(reflect.ValueOf(&s).Elem(), dice)
		s.Token, s.Lease, s.Due = 0, time.Time{}, time.Time{}
		scramble(reflect.ValueOf(&e).Elem(), dice)
		for _, c := range []struct {
			v, got, want any
			append       func() ([]byte, error)
		}{
			{&in, new(Intent), new(Intent), func() ([]byte, error) { return AppendIntent([]byte("before{"), &in) }},
			{&s, new(State), new(State), func() ([]byte, error) { return AppendState([]byte("before{"), &s) }},
			{&e, new(Entry), new(Entry), func() ([]byte, error) { return AppendEntry([]byte("before{"), &e) }},
		} {
			raw, err := c.append()
			if err != nil {
				t.Fatal(err)
			}
			raw = bytes.TrimPrefix(raw, []byte("before{"))
			plain := plainJSON(t, c.v)
			read := func(into any) error { return json.Unmarshal(raw, into) }
			if in, ok := c.got.(*Intent); ok {
				read = func(any) error { return DecodeIntent(raw, in) }
			}
			if err := errors.Join(read(c.got), json.Unmarshal(plain, c.want)); err != nil {
				t.Fatalf("seed %d, %T: %v in %s", seed, c.v, err, raw)
			}
			if got, want := plainJSON(t, c.got), plainJSON(t, c.want); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, %T:\ngot  %s\nwant %s", seed, c.v, got, want)
			}
		}
	}
}

// TestEncodingOfRest sets one field alone of those that are seldom set.
func TestEncodingOfRest(t *testing.T) {
	t.Parallel()
	holds := func(v any, rest []restField, encode func() ([]byte, error)) {
		for _, f := range rest {
			field := reflect.ValueOf(v).Elem().Field(f.index)
			for dice := rand.New(rand.NewPCG(1, 1)); field.IsZero(); {
				scramble(field, dice)
			}
			if raw, err := encode(); err != nil || !bytes.Contains(raw, []byte(`"`+f.name+`":`)) {
				t.Errorf("%T with %s alone: got %s, %v", v, f.name, raw, err)
			}
			field.SetZero()
		}
	}
	var in Intent
	holds(&in, restOfIntent, func() ([]byte, error) { return AppendIntent(nil, &in) })
	var s State
	holds(&s, restOfState, func() ([]byte, error) { return AppendState(nil, &s) })
	var e Entry
	holds(&e, restOfEntry, func() ([]byte, error) { return AppendEntry(nil, &e) })
}

// TestEncodingOfQuestions decodes what is seldom in an entry.
func TestEncodingOfQuestions(t *testing.T) {
	t.Parallel()
	e := Entry{
		Seq: 3, Event: "probe", To: Unknown, Probe: &ProbeResult{Outcome: Found, Refs: []string{"<a>"}},
		Fence: &FenceResult{Outcome: FenceHeld}, Decision: &Decision{Choice: ChoiceResend, Who: "ana", Why: "seen"},
	}
	raw, err := AppendEntry(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	var got Entry
	if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, %v; want %+v", got, err, e)
	}
}

func TestEncodingRefusesYears(t *testing.T) {
	t.Parallel()
	if _, err := AppendState(nil, &State{Updated: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("year 10000: got no error")
	}
	if _, err := AppendState(nil, &State{Result: json.RawMessage("{")}); err == nil {
		t.Error("a result that is no JSON: got no error")
	}
	if _, err := EncodeEntry(&Entry{Decision: &Decision{Result: json.RawMessage("{")}}); err == nil {
		t.Error("a decided result that is no JSON: got no error")
	}
}
