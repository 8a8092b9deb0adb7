package contract

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// exactOperators are the operators that CEL would resolve by the type of their left side
// alone: with a decimal on the right, 49.90 == args.amount would be false and
// 100 < args.amount an error. Here both sides count.
var exactOperators = map[string]func(a, b ref.Val) ref.Val{
	operators.Equals:        exactEqual,
	operators.NotEquals:     func(a, b ref.Val) ref.Val { return exactEqual(a, b).(types.Bool).Negate() },
	operators.Less:          ordered(func(c types.Int) bool { return c < 0 }),
	operators.LessEquals:    ordered(func(c types.Int) bool { return c <= 0 }),
	operators.Greater:       ordered(func(c types.Int) bool { return c > 0 }),
	operators.GreaterEquals: ordered(func(c types.Int) bool { return c >= 0 }),
	operators.In:            exactIn,
	operators.Add: exactly(add, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Adder); ok {
			return x.Add(b)
		}
		return types.MaybeNoSuchOverloadErr(a)
	}),
	operators.Subtract: exactly(subtract, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Subtractor); ok {
			return x.Subtract(b)
		}
		return types.MaybeNoSuchOverloadErr(a)
	}),
	operators.Multiply: exactly(multiply, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Multiplier); ok {
			return x.Multiply(b)
		}
		return types.MaybeNoSuchOverloadErr(a)
	}),
}

// withExactOperators replaces the nodes of those operators in a program.
func withExactOperators(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	op, ok := exactOperators[call.Function()]
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(v ...ref.Val) ref.Val {
		return op(v[0], v[1])
	}), nil
}

// listCost charges a search or a comparison by the elements it may look at. CEL charges
// by overload, which is not known where a type is dynamic.
type listCost struct{}

// CallCost is nil where CEL's own cost holds.
func (listCost) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	switch function {
	case operators.In, operators.Equals, operators.NotEquals:
	default:
		return nil
	}
	cost := uint64(1)
	for _, a := range args {
		if list, ok := a.(traits.Lister); ok {
			cost += uint64(list.Size().(types.Int))
		}
	}
	return &cost
}

func isDecimal(v ref.Val) bool {
	_, ok := v.(decimal)
	return ok
}

func exactly(exact, plain func(a, b ref.Val) ref.Val) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		if isDecimal(a) || isDecimal(b) {
			return exact(a, b)
		}
		return plain(a, b)
	}
}

func ordered(holds func(types.Int) bool) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		c := exactCompare(a, b)
		if i, ok := c.(types.Int); ok {
			return types.Bool(holds(i))
		}
		return c
	}
}

func exactCompare(a, b ref.Val) ref.Val {
	if isDecimal(a) || isDecimal(b) {
		x, ok1 := toDecimal(a)
		y, ok2 := toDecimal(b)
		if !ok1 || !ok2 {
			return types.MaybeNoSuchOverloadErr(b)
		}
		return types.Int(x.cmp(y))
	}
	if x, ok := a.(traits.Comparer); ok {
		return x.Compare(b)
	}
	return types.MaybeNoSuchOverloadErr(a)
}

// exactEqual is always a types.Bool. It looks into lists and maps, whose own comparison
// would again ask the left side alone.
func exactEqual(a, b ref.Val) ref.Val {
	if isDecimal(a) || isDecimal(b) {
		x, ok1 := toDecimal(a)
		y, ok2 := toDecimal(b)
		return types.Bool(ok1 && ok2 && x.cmp(y) == 0)
	}
	switch x := a.(type) {
	case traits.Lister:
		y, ok := b.(traits.Lister)
		if !ok || x.Size() != y.Size() {
			return types.False
		}
		for i := types.Int(0); i < x.Size().(types.Int); i++ {
			if exactEqual(x.Get(i), y.Get(i)) != types.True {
				return types.False
			}
		}
		return types.True
	case traits.Mapper:
		y, ok := b.(traits.Mapper)
		if !ok || x.Size() != y.Size() {
			return types.False
		}
		for it := x.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			p, ok1 := x.Find(key)
			q, ok2 := y.Find(key)
			if !ok1 || !ok2 || exactEqual(p, q) != types.True {
				return types.False
			}
		}
		return types.True
	}
	if eq, ok := types.Equal(a, b).(types.Bool); ok {
		return eq
	}
	return types.False
}

func exactIn(a, b ref.Val) ref.Val {
	switch set := b.(type) {
	case traits.Mapper:
		return set.Contains(a)
	case traits.Lister:
		for i := types.Int(0); i < set.Size().(types.Int); i++ {
			if exactEqual(a, set.Get(i)) == types.True {
				return types.True
			}
		}
		return types.False
	}
	return types.MaybeNoSuchOverloadErr(b)
}
