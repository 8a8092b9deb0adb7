package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter turns parsed JSON into CEL values without rounding a number.
type adapter struct{ types.Adapter }

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case headers:
		return v.value(a)
	case []any:
		return types.NewDynamicList(a, v)
	}
	return a.Adapter.NativeToValue(v)
}

// number is a CEL int where the text is an integer that fits, otherwise a decimal.
func number(s string) ref.Val {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return types.Int(i)
		}
	}
	d, err := parseDecimal(s)
	if err != nil {
		return types.WrapErr(err)
	}
	return d
}

// headers are response headers by lower-case name; a look-up may use any case.
type headers map[string]string

type headerMap struct{ traits.Mapper }

func (h headers) value(a types.Adapter) ref.Val {
	return headerMap{types.NewStringStringMap(a, h)}
}

func lower(key ref.Val) ref.Val {
	if s, ok := key.(types.String); ok {
		return types.String(strings.ToLower(string(s)))
	}
	return key
}

func (h headerMap) Find(key ref.Val) (ref.Val, bool) { return h.Mapper.Find(lower(key)) }
func (h headerMap) Get(key ref.Val) ref.Val          { return h.Mapper.Get(lower(key)) }
func (h headerMap) Contains(key ref.Val) ref.Val     { return h.Mapper.Contains(lower(key)) }

// absent is what fromCEL returns for an optional without a value.
type absent struct{}

// fromCEL turns a value of an expression into one that pawl.AppendJSON takes.
func fromCEL(v ref.Val) (any, error) { return fromCELAt(v, 0) }

func fromCELAt(v ref.Val, depth int) (any, error) {
	if depth > 64 {
		return nil, fmt.Errorf("the value is nested too deeply")
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case decimal:
		return json.Number(v.String()), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("the number is not finite")
		}
		if d, ok := toDecimal(v); ok {
			return json.Number(d.String()), nil
		}
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case *types.Optional:
		if !v.HasValue() {
			return absent{}, nil
		}
		return fromCELAt(v.GetValue(), depth+1)
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			e, err := fromCELAt(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			if _, none := e.(absent); !none {
				list = append(list, e)
			}
		}
		return list, nil
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.(types.String)
			if !ok {
				return nil, fmt.Errorf("a key of an object is no text")
			}
			value, _ := v.Find(key)
			e, err := fromCELAt(value, depth+1)
			if err != nil {
				return nil, err
			}
			if _, none := e.(absent); !none {
				object[string(name)] = e
			}
		}
		return object, nil
	case *record:
		return nil, fmt.Errorf("%s as a whole has no JSON: name one of its fields", strings.ToLower(strings.TrimPrefix(v.typ.name, "pawl.")))
	case *types.Err:
		return nil, v
	}
	return nil, fmt.Errorf("a value of type %s has no JSON: use string(...)", v.Type().TypeName())
}

// textOf is a scalar as it stands in a path or a header; given is false for an optional
// without a value.
func textOf(v ref.Val) (text string, given bool, err error) {
	x, err := fromCEL(v)
	if err != nil {
		return "", false, err
	}
	if _, none := x.(absent); none {
		return "", false, nil
	}
	text, err = scalar(x)
	return text, err == nil, err
}

func scalar(x any) (string, error) {
	switch x := x.(type) {
	case string:
		return x, nil
	case json.Number:
		return string(x), nil
	case bool:
		return strconv.FormatBool(x), nil
	case nil:
		return "", errors.New("the value is null")
	}
	return "", errors.New("want a text or a number, got a list or an object")
}

// recordType is an object with a closed set of fields, so that a misspelt field is found
// when the file is loaded.
type recordType struct {
	name   string
	celT   *types.Type
	fields map[string]*types.Type
}

// record is a value of such a type.
type record struct {
	typ     *recordType
	adapter types.Adapter
	values  map[string]any
}

var (
	_ traits.Indexer     = (*record)(nil)
	_ traits.FieldTester = (*record)(nil)
)

func (r *record) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	v, ok := r.values[string(name)]
	if !ok {
		return types.NewErr("there is no %s here", string(name))
	}
	if err, ok := v.(error); ok {
		return types.WrapErr(err)
	}
	return r.adapter.NativeToValue(v)
}

func (r *record) IsSet(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(field)
	}
	v, ok := r.values[string(name)]
	if _, bad := v.(error); bad {
		return types.False
	}
	return types.Bool(ok)
}

func (r *record) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s has no native form", r.typ.name)
}

func (r *record) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return r.typ.celT
	}
	return types.NewErr("%s has no %s", r.typ.name, t.TypeName())
}

func (r *record) Equal(o ref.Val) ref.Val { return types.Bool(r == o) }
func (r *record) Type() ref.Type          { return r.typ.celT }
func (r *record) Value() any              { return r }

// provider adds the record types to CEL's own.
type provider struct {
	*types.Registry
	records map[string]*recordType
}

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if r, ok := p.records[name]; ok {
		return types.NewTypeTypeWithParam(r.celT), true
	}
	return p.Registry.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if r, ok := p.records[name]; ok {
		names := make([]string, 0, len(r.fields))
		for f := range r.fields {
			names = append(names, f)
		}
		return names, true
	}
	return p.Registry.FindStructFieldNames(name)
}

func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	r, ok := p.records[name]
	if !ok {
		return p.Registry.FindStructFieldType(name, field)
	}
	t, ok := r.fields[field]
	if !ok {
		return nil, false
	}
	key := types.String(field)
	return &types.FieldType{
		Type:  t,
		IsSet: func(v any) bool { x, ok := v.(*record); return ok && x.IsSet(key) == types.True },
		GetFrom: func(v any) (any, error) {
			x, ok := v.(*record)
			if !ok {
				return nil, fmt.Errorf("no %s", name)
			}
			got := x.Get(key)
			if err, bad := got.(*types.Err); bad {
				return nil, err
			}
			return got, nil
		},
	}, true
}
