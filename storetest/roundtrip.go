package storetest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// same compares operations: times as instants to the microsecond, which is what a store
// must keep.
func same(t *testing.T, got, want *pawl.Operation) {
	t.Helper()
	if diff := cmp.Diff(want, got, times, blobs); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
}

var times = cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Microsecond })

var blobs = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })

func testRoundTrip(t *testing.T, s suite) {
	trip := func(name string, edit func(op *pawl.Operation)) {
		s.test(t, name, func(t *testing.T, store pawl.Store) {
			op, first := Op(Seed{Tenant: "acme", Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Subject: "S"})
			edit(op)
			if standing, err := store.Begin(t.Context(), op, first); standing != nil || err != nil {
				t.Fatalf("begin: got %v, %v", standing, err)
			}
			same(t, get(t, store, op), op)
			if got := find(t, store, pawl.Query{Tenant: op.Tenant}); len(got) != 1 {
				t.Errorf("find: got %d operations, want 1", len(got))
			} else {
				same(t, got[0], op)
			}
			c := Move(op, pawl.Unknown, nil)
			if err := store.Apply(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			op.State = *c.State
			same(t, get(t, store, op), op)
		})
	}
	trip("every field", func(op *pawl.Operation) {
		status, version, chain := op.Status, op.Version, op.Chain
		contract, hash := op.Contract, op.ContractHash
		fill(reflect.ValueOf(&op.Intent).Elem(), 1)
		fill(reflect.ValueOf(&op.State).Elem(), 1)
		op.Tenant = "acme"
		op.Status, op.Version, op.Chain = status, version, chain
		op.Contract, op.ContractHash = contract, hash
	})
	trip("only what must be", func(op *pawl.Operation) {
		op.Intent = pawl.Intent{ID: op.ID, Tool: "t", Key: op.Key, Identity: json.RawMessage(`{}`), Args: json.RawMessage(`{}`), Request: []byte{}}
		op.State = pawl.State{Status: pawl.Prepared, Version: 1, Chain: op.Chain}
	})
	trip("unicode", func(op *pawl.Operation) {
		op.Tenant, op.Tool, op.Run, op.Step = "Ärzte \x00 \"'", "ツール/refund", "run-😀\n", "'; DROP TABLE intents; --"
		op.Effect, op.Ref = "refund of 49,90 € \u2028 <b>&amp;</b>", "ref-\u202e-\x7f"
		op.Args = json.RawMessage(`{"note":"<a href=\"x\">&\u2028</a>","café":"😀"}`)
		op.Attributes = map[string]string{"": "empty", "ключ": "значение"}
	})
	trip("large", func(op *pawl.Operation) {
		op.Args = json.RawMessage(`"` + strings.Repeat("ä", 1<<20) + `"`)
		op.Request = bytes.Repeat([]byte{0, 1, 0xff, '\n'}, 1<<19)
		op.Result = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	})
	trip("times", func(op *pawl.Operation) {
		op.Lease = time.Date(2031, 2, 3, 4, 5, 6, 789_123_000, time.FixedZone("", 5*3600))
		op.Due = time.Time{}
		op.Review = time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
		op.Deadline = time.Time{}
	})

	s.test(t, "contracts are pinned", func(t *testing.T, store pawl.Store) {
		old, fresh := Contract("refund"), Contract("refund")
		fresh.Retention = time.Hour
		fresh.Source = "source: <fresh>"
		first := begin(t, store, Seed{Tool: "refund", Identity: "A", Contract: old})
		second := begin(t, store, Seed{Tool: "refund", Identity: "B", Contract: fresh})
		third := begin(t, store, Seed{Tool: "refund", Identity: "C", Contract: old})
		for _, op := range []*pawl.Operation{first, second, third} {
			same(t, get(t, store, op), op)
		}
	})
}

// fill sets every field that it can reach to a value that is not zero.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.String:
		v.SetString("s")
	case reflect.Uint8:
		v.SetUint(uint64(n))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n+i)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"n":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n+i)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*pawl.Contract]() {
			return // rules nest without end
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, 5, n*1000, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic("storetest: no value for a " + v.Kind().String())
	}
}
