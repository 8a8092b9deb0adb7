package storetest

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestCloneSharesNothing meets every field that the root package has or will have.
func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	op := new(pawl.Operation)
	fill(reflect.ValueOf(op).Elem(), 1)
	apart(t, "Operation", reflect.ValueOf(op).Elem(), reflect.ValueOf(clone(op)).Elem())
}

func apart(t *testing.T, path string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 || b.Len() != a.Len() {
			t.Errorf("%s: got %d elements, want %d", path, b.Len(), a.Len())
		} else if a.UnsafePointer() == b.UnsafePointer() {
			t.Errorf("%s is shared", path)
		}
		if a.Kind() == reflect.Slice {
			for i := range a.Len() {
				apart(t, path, a.Index(i), b.Index(i))
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			apart(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Pointer:
		if a.Type() != reflect.TypeFor[*pawl.Contract]() && !a.IsNil() && a.UnsafePointer() == b.UnsafePointer() {
			t.Errorf("%s is shared", path)
		}
	}
}
