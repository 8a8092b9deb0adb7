package contract

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
	"github.com/pawl-dev/pawl"
)

// evaluate gives the canonical JSON of an expression over args.
func evaluate(source, args string) (string, error) {
	p, err := compileExpression(source, inRequest, nil)
	if err != nil {
		return "", err
	}
	v, err := pawl.ParseJSON([]byte(args))
	if err != nil {
		return "", err
	}
	a, err := celValues()
	if err != nil {
		return "", err
	}
	raw, err := p.raw(map[string]any{
		"args": v, "identity": map[string]any{}, "key": "k", "operation": &record{operationType, a, map[string]any{"id": "op_1"}},
	})
	return string(raw), err
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	const args = `{"a":49.90,"b":49.9,"c":50,"big":9007199254740993,"huge":123456789012345678901234567890,"e":1e2,"s":"x","l":[49.9,1],"m":{"p":49.90},"cur":"EUR","neg":-0.5}`
	for source, want := range map[string]string{
		// A number on either side, a literal on either side.
		`args.a == 49.90`: "true", `49.90 == args.a`: "true", `args.a == args.b`: "true", `49.9 != args.a`: "false",
		`args.a > 49`: "true", `49 < args.a`: "true", `args.a >= 49.900`: "true", `50 > args.a`: "true", `args.a < args.c`: "true",
		`args.c > args.a`: "true", `args.c == 50.0`: "true", `50.0 == args.c`: "true", `args.a == 49.900000001`: "false",
		`args.big == 9007199254740993`: "true", `args.big == 9007199254740992`: "false", `args.huge > args.big`: "true",
		`args.huge == decimal("123456789012345678901234567890")`: "true", `args.huge == 1.2345678901234568e29`: "false",
		`args.e == 100`: "true", `100 == args.e`: "true", `args.a == "49.90"`: "false", `args.s == 1`: "false", `args.a == null`: "false",
		// In lists and maps, whoever is on the left.
		`49.90 in args.l`: "true", `args.a in [1, 49.9]`: "true", `50 in args.l`: "false", `[49.90, 1] == args.l`: "true",
		`args.l == [49.9, 1.0]`: "true", `{'p': 49.9} == args.m`: "true", `args.m == {'p': 49.9}`: "true", `args.l.exists(x, 49.9 == x)`: "true",
		`'p' in args.m`: "true", `'q' in args.m`: "false",
		// Arithmetic without rounding.
		`args.a + 0.1`: "50.00", `0.1 + args.a`: "50.00", `args.a * 100`: "4990.00", `100 * args.a`: "4990.00", `args.c - args.a`: "0.10",
		`-args.a`: "-49.90", `args.neg + 1`: "0.5", `args.big + 1`: "9007199254740994", `args.huge * 10`: "1234567890123456789012345678900",
		`0.1 + 0.2 + decimal("0")`: "0.30000000000000004", `args.c + 1`: "51", `'a' + args.s`: `"ax"`, `args.l + [2]`: "[49.9,1,2]",
		// Conversions.
		`string(args.a)`: `"49.90"`, `int(args.e)`: "100", `decimal("1.10")`: "1.10", `decimal(3)`: "3", `minor(args.a, args.cur)`: "4990",
		`minor(80, 'JPY')`: "80", `string(args.c)`: `"50"`, `double("1.5") == 1.5`: "true", `args.c`: "50", `1.5`: "1.5", `args.huge`: "123456789012345678901234567890",
		// Optional values, texts, records.
		`args.?none.orValue(1)`: "1", `[args.?none, args.?s]`: `["x"]`, `args.s.upperAscii()`: `"X"`, `"a,b".split(",")`: `["a","b"]`,
		`operation.id + key`: `"op_1k"`, `has(args.none)`: "false",
	} {
		if got, err := evaluate(source, args); err != nil || got != want {
			t.Errorf("%s: got %s %v, want %s", source, got, err, want)
		}
	}
}

func TestExpressionsThatFail(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		`args.none`, `args.a / 3`, `args.a > "x"`, `args.s + 1`, `minor(1.005, "EUR")`, `minor(1, "XXX1")`, `minor("x", "EUR")`,
		`int(args.a)`, `decimal("1e999999999")`, `decimal("NaN")`, `decimal("x")`, `args.e * decimal("1e400") * decimal("1e400")`,
		`args.l[7]`, `decimal("1e-400") * decimal("1e-400")`, `operation`, `duration("1s")`, `{1: 2}`, `args.a > double("NaN")`,
	} {
		if got, err := evaluate(source, `{"a":49.9,"e":1e2,"s":"x","l":[]}`); !errors.Is(err, errEvaluation) {
			t.Errorf("%s: got %s %v, want an evaluation error", source, got, err)
		}
	}
	if _, err := evaluate(`args.x`, `{"x":1e999999999}`); !errors.Is(err, errEvaluation) {
		t.Errorf("got %v, want an evaluation error", err)
	}
}

// An expression that the arguments make expensive ends.
func TestExpressionCost(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat("1,", 2000) + "1]"
	start := time.Now()
	if _, err := evaluate(`args.l.exists(a, args.l.exists(b, args.l.exists(c, a + b + c == 0)))`, `{"l":`+list+`}`); !errors.Is(err, errEvaluation) {
		t.Errorf("got %v, want an evaluation error", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	deep := strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200)
	for _, source := range []string{deep, strings.Repeat("1+", maxExpression) + "1"} {
		if _, err := compileExpression(source, inRequest, nil); err == nil {
			t.Errorf("%s...: got no error, want one", source[:10])
		}
	}
}

// FuzzDecimal compares with big.Rat.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0", "49.90", "1e2", "-1.5E-3", "9007199254740993", "00", "1.", ".5", "1e", "+1", "1e+-2"} {
		f.Add(s, "1.25")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := parseDecimal(a)
		if err != nil {
			return
		}
		r, ok := new(big.Rat).SetString(a)
		if !ok {
			t.Fatalf("%q is no number for big.Rat", a)
		}
		back, ok := new(big.Rat).SetString(x.String())
		if !ok || back.Cmp(r) != 0 {
			t.Fatalf("%q: got %s", a, x)
		}
		y, err := parseDecimal(b)
		if err != nil {
			return
		}
		s, _ := new(big.Rat).SetString(b)
		if x.cmp(y) != r.Cmp(s) {
			t.Fatalf("%q and %q: got %d, want %d", a, b, x.cmp(y), r.Cmp(s))
		}
		if exactEqual(x, y) != types.Bool(r.Cmp(s) == 0) {
			t.Fatalf("%q == %q: got %v", a, b, exactEqual(x, y))
		}
		for _, op := range []struct {
			got  any
			want *big.Rat
		}{
			{add(x, y), new(big.Rat).Add(r, s)}, {subtract(x, y), new(big.Rat).Sub(r, s)}, {multiply(x, y), new(big.Rat).Mul(r, s)},
		} {
			d, ok := op.got.(decimal)
			if !ok {
				continue // too many digits
			}
			if got, _ := new(big.Rat).SetString(d.String()); got.Cmp(op.want) != 0 {
				t.Fatalf("%q and %q: got %s, want %s", a, b, d, op.want)
			}
		}
	})
}
