package contract

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// decimal is an exact decimal number in expressions: coef / 10^scale. Its scale is the
// number of places it is written with, so 49.90 stays 49.90.
type decimal struct {
	coef  *big.Int
	scale int
}

// maxDigits bounds the digits before and after the point of a decimal.
const maxDigits = 400

var (
	decimalType = cel.ObjectType("pawl.Decimal",
		traits.ComparerType, traits.AdderType, traits.SubtractorType, traits.MultiplierType, traits.NegatorType)
	errDecimal = errors.New("no decimal number")
	errDigits  = fmt.Errorf("a number with more than %d digits", maxDigits)
)

var (
	_ ref.Val           = decimal{}
	_ traits.Comparer   = decimal{}
	_ traits.Adder      = decimal{}
	_ traits.Subtractor = decimal{}
	_ traits.Multiplier = decimal{}
	_ traits.Negater    = decimal{}
	_ fmt.Stringer      = decimal{}
)

// parseDecimal reads a JSON number.
func parseDecimal(s string) (decimal, error) {
	mantissa, exponent := s, 0
	if len(s) > 2*maxDigits {
		return decimal{}, errDigits
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(strings.TrimPrefix(s[i+1:], "+"))
		if err != nil || strings.HasPrefix(s[i+1:], "+-") {
			return decimal{}, errDecimal
		}
		if e > maxDigits || e < -maxDigits {
			return decimal{}, errDigits
		}
		mantissa, exponent = s[:i], e
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	digits := strings.TrimPrefix(whole, "-")
	if digits == "" || point && fraction == "" || strings.Trim(digits+fraction, "0123456789") != "" {
		return decimal{}, errDecimal
	}
	coef, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return decimal{}, errDecimal
	}
	return decimal{coef, len(fraction) - exponent}.settled()
}

// settled brings the scale to zero or more and checks the bounds.
func (d decimal) settled() (decimal, error) {
	if d.scale < 0 {
		d = decimal{new(big.Int).Mul(d.coef, power(-d.scale)), 0}
	}
	if d.scale > maxDigits || d.coef.BitLen() > maxDigits*4 {
		return decimal{}, errDigits
	}
	return d, nil
}

func power(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// String is plain decimal notation, which is also the JSON of the number.
func (d decimal) String() string {
	s := new(big.Int).Abs(d.coef).String()
	if d.scale > 0 {
		if len(s) <= d.scale {
			s = strings.Repeat("0", d.scale-len(s)+1) + s
		}
		s = s[:len(s)-d.scale] + "." + s[len(s)-d.scale:]
	}
	if d.coef.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// aligned returns both coefficients at one scale.
func aligned(a, b decimal) (x, y *big.Int, scale int) {
	switch {
	case a.scale < b.scale:
		return new(big.Int).Mul(a.coef, power(b.scale-a.scale)), b.coef, b.scale
	case a.scale > b.scale:
		return a.coef, new(big.Int).Mul(b.coef, power(a.scale-b.scale)), a.scale
	}
	return a.coef, b.coef, a.scale
}

func (d decimal) cmp(o decimal) int {
	x, y, _ := aligned(d, o)
	return x.Cmp(y)
}

// int64 is the value if it is whole and fits.
func (d decimal) int64() (int64, bool) {
	q, r := new(big.Int).QuoRem(d.coef, power(d.scale), new(big.Int))
	return q.Int64(), r.Sign() == 0 && q.IsInt64()
}

// toDecimal turns any CEL number into a decimal. A double is taken as the shortest
// decimal that names it: that is the literal as it was written.
func toDecimal(v ref.Val) (decimal, bool) {
	switch v := v.(type) {
	case decimal:
		return v, true
	case types.Int:
		return decimal{big.NewInt(int64(v)), 0}, true
	case types.Uint:
		return decimal{new(big.Int).SetUint64(uint64(v)), 0}, true
	case types.Double:
		f := float64(v)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return decimal{}, false
		}
		d, err := parseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
		return d, err == nil
	}
	return decimal{}, false
}

// arithmetic applies an exact operation to two numbers.
func arithmetic(a, b ref.Val, op func(z, x, y *big.Int) *big.Int, scales func(x, y decimal) (*big.Int, *big.Int, int)) ref.Val {
	x, ok1 := toDecimal(a)
	y, ok2 := toDecimal(b)
	if !ok1 || !ok2 {
		return types.MaybeNoSuchOverloadErr(b)
	}
	p, q, scale := scales(x, y)
	d, err := decimal{op(new(big.Int), p, q), scale}.settled()
	if err != nil {
		return types.WrapErr(err)
	}
	return d
}

func add(a, b ref.Val) ref.Val      { return arithmetic(a, b, (*big.Int).Add, aligned) }
func subtract(a, b ref.Val) ref.Val { return arithmetic(a, b, (*big.Int).Sub, aligned) }
func multiply(a, b ref.Val) ref.Val {
	return arithmetic(a, b, (*big.Int).Mul, func(x, y decimal) (*big.Int, *big.Int, int) {
		return x.coef, y.coef, x.scale + y.scale
	})
}

// Add, Subtract, Multiply, Negate, Compare and Equal are CEL's operators.
func (d decimal) Add(o ref.Val) ref.Val      { return add(d, o) }
func (d decimal) Subtract(o ref.Val) ref.Val { return subtract(d, o) }
func (d decimal) Multiply(o ref.Val) ref.Val { return multiply(d, o) }
func (d decimal) Negate() ref.Val            { return decimal{new(big.Int).Neg(d.coef), d.scale} }
func (d decimal) Compare(o ref.Val) ref.Val  { return exactCompare(d, o) }
func (d decimal) Equal(o ref.Val) ref.Val    { return exactEqual(d, o) }
func (d decimal) Type() ref.Type             { return decimalType }
func (d decimal) Value() any                 { return d.String() }

// ConvertToNative gives the text.
func (d decimal) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.String {
		return d.String(), nil
	}
	return nil, fmt.Errorf("a decimal has no exact %v", t)
}

// ConvertToType converts to a text, and to an int where that is exact.
func (d decimal) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.StringType:
		return types.String(d.String())
	case types.IntType:
		if i, ok := d.int64(); ok {
			return types.Int(i)
		}
		return types.NewErr("the number is not a whole number of 64 bits")
	case types.TypeType:
		return decimalType
	}
	if t.TypeName() == decimalType.TypeName() {
		return d
	}
	return types.NewErr("a decimal has no exact %s", t.TypeName())
}
