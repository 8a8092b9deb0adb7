package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	"github.com/pawl-dev/pawl"
)

// Limits of one expression.
const (
	maxExpression = 4096      // characters
	maxCost       = 2_000_000 // CEL's units of one evaluation
)

// vocabulary is the set of variables that an expression may use.
type vocabulary int

const (
	// inRequest: args, identity, key, operation.
	inRequest vocabulary = iota
	// inCall: args alone: what is decided before there is an operation.
	inCall
	// inFollowUp: those and before: requests that are made for an operation later.
	inFollowUp
	// inAnswer: those and response.
	inAnswer
	// inMatch: those and match.
	inMatch
	// inToolAnswer and inToolMatch are the same where response is the answer of an MCP tool.
	inToolAnswer
	inToolMatch
	// inCompensation: those of inFollowUp and result.
	inCompensation
)

var vocabularyWords = map[vocabulary]string{
	inRequest:  "args, identity, key and operation",
	inCall:     "args",
	inFollowUp: "args, identity, key, operation and before",
	inAnswer:   "response, args, identity, key, operation and before",
	inMatch:    "match, response, args, identity, key, operation and before",

	inToolAnswer: "response, args, identity, key, operation and before",
	inToolMatch:  "match, response, args, identity, key, operation and before",

	inCompensation: "args, identity, result, before, key and operation",
}

var (
	operationType = &recordType{name: "pawl.Operation", celT: types.NewObjectType("pawl.Operation"), fields: map[string]*types.Type{
		"id": types.StringType, "tool": types.StringType, "tenant": types.StringType, "actor": types.StringType,
		"run": types.StringType, "step": types.StringType, "ref": types.StringType,
		"created": types.TimestampType, "permit": types.TimestampType,
	}}
	responseType = &recordType{name: "pawl.Response", celT: types.NewObjectType("pawl.Response"), fields: map[string]*types.Type{
		"status": types.IntType, "header": types.NewMapType(types.StringType, types.StringType),
		"body": types.DynType, "text": types.StringType,
	}}
	toolResponseType = &recordType{name: "pawl.ToolResponse", celT: types.NewObjectType("pawl.ToolResponse"), fields: map[string]*types.Type{
		"body": types.DynType, "text": types.StringType, "result": types.DynType, "is_error": types.BoolType, "code": types.IntType,
		"status": types.IntType, "header": types.NewMapType(types.StringType, types.StringType),
	}}
)

// language is CEL as contract files speak it.
type language struct {
	envs   map[vocabulary]*cel.Env
	values adapter
}

// speak makes the language once; it never changes.
var speak = sync.OnceValues(func() (*language, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	l := &language{envs: map[vocabulary]*cel.Env{}, values: adapter{registry}}
	args := cel.MapType(cel.StringType, cel.DynType)
	env, err := cel.NewEnv(
		cel.CustomTypeAdapter(l.values),
		cel.CustomTypeProvider(provider{registry, map[string]*recordType{
			operationType.name: operationType, responseType.name: responseType, toolResponseType.name: toolResponseType,
		}}),
		cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxDepth),
		ext.Strings(ext.StringsVersion(2)),
		cel.Variable("args", args),
		cel.Lib(library{}),
	)
	if err != nil {
		return nil, err
	}
	l.envs[inCall] = env
	if l.envs[inRequest], err = env.Extend(
		cel.Variable("identity", args), cel.Variable("key", cel.StringType), cel.Variable("operation", operationType.celT),
	); err != nil {
		return nil, err
	}
	for _, v := range []struct {
		words, base vocabulary
		variable    string
		typ         *cel.Type
	}{
		{inFollowUp, inRequest, "before", cel.DynType},
		{inAnswer, inFollowUp, "response", responseType.celT}, {inMatch, inAnswer, "match", cel.DynType},
		{inToolAnswer, inFollowUp, "response", toolResponseType.celT}, {inToolMatch, inToolAnswer, "match", cel.DynType},
		{inCompensation, inFollowUp, "result", cel.DynType},
	} {
		if l.envs[v.words], err = l.envs[v.base].Extend(cel.Variable(v.variable, v.typ)); err != nil {
			return nil, err
		}
	}
	return l, nil
})

func celValues() (adapter, error) {
	l, err := speak()
	if err != nil {
		return adapter{}, err
	}
	return l.values, nil
}

// library has the functions that CEL lacks.
type library struct{}

func (library) CompileOptions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function("decimal", cel.Overload("pawl_decimal", []*cel.Type{cel.DynType}, cel.DynType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				if s, ok := v.(types.String); ok {
					d, err := parseDecimal(string(s))
					if err != nil {
						return types.WrapErr(err)
					}
					return d
				}
				if d, ok := toDecimal(v); ok {
					return d
				}
				return types.MaybeNoSuchOverloadErr(v)
			}))),
		cel.Function("minor", cel.Overload("pawl_minor", []*cel.Type{cel.DynType, cel.StringType}, cel.IntType,
			cel.BinaryBinding(minor))),
		cel.Function("string", cel.Overload("pawl_decimal_to_string", []*cel.Type{decimalType}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(types.StringType) }))),
		cel.Function("int", cel.Overload("pawl_decimal_to_int", []*cel.Type{decimalType}, cel.IntType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(types.IntType) }))),
	}
}

func (library) ProgramOptions() []cel.ProgramOption { return nil }

// minor is an amount in the currency's minor units; an amount with more places than the
// currency has is an error and never rounded.
func minor(amount, currency ref.Val) ref.Val {
	x, err := fromCEL(amount)
	if err != nil {
		return types.WrapErr(err)
	}
	units, err := pawl.MinorUnits(x, string(currency.(types.String)))
	if err != nil {
		return types.WrapErr(err)
	}
	i, err := strconv.ParseInt(units, 10, 64)
	if err != nil {
		return types.NewErr("minor: the amount is too large")
	}
	return types.Int(i)
}

// program is a checked expression.
type program struct {
	prg cel.Program
	// usesKey and usesBefore: the variable is in it.
	usesKey, usesBefore bool
}

// compileExpression checks an expression; the error is a list of *faults.
func compileExpression(source string, v vocabulary, want *cel.Type) (*program, error) {
	l, err := speak()
	if err != nil {
		return nil, err
	}
	env := l.envs[v]
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		f := &faults{}
		for _, e := range issues.Errors() {
			f.list = append(f.list, fault{e.Location.Line(), e.Location.Column(), e.Message})
		}
		f.hint = "an expression here knows " + vocabularyWords[v] + "; a literal text needs quotes of its own, such as \"'EUR'\""
		return nil, f
	}
	if out := checked.OutputType(); want != nil && !out.IsAssignableType(want) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression gives %s, want %s", out, want)
	}
	prg, err := env.Program(checked,
		cel.CostLimit(maxCost),
		cel.CostTracking(listCost{}),
		cel.InterruptCheckFrequency(100),
		cel.CustomDecoratorV2(withExactOperators),
	)
	if err != nil {
		return nil, err
	}
	return &program{prg, mentions(checked, "key"), mentions(checked, "before")}, nil
}

// fault is one error in an expression; line and column count from 1 and 0.
type fault struct {
	line, column int
	message      string
}

type faults struct {
	list []fault
	hint string
}

func (f *faults) Error() string {
	var b strings.Builder
	for i, e := range f.list {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.message)
	}
	return b.String()
}

// errEvaluation is what every failed evaluation is, for errors.Is. Its text never holds a
// value of the arguments.
var errEvaluation = errors.New("the expression could not be evaluated")

func (p *program) eval(vars map[string]any) (ref.Val, error) {
	v, _, err := p.prg.Eval(vars)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEvaluation, err)
	}
	if types.IsError(v) || types.IsUnknown(v) {
		return nil, errEvaluation
	}
	return v, nil
}

// holds evaluates a predicate.
func (p *program) holds(vars map[string]any) (bool, error) {
	v, err := p.eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%w: want true or false, got %s", errEvaluation, v.Type().TypeName())
	}
	return bool(b), nil
}

// json evaluates an expression to a value that pawl.AppendJSON takes, or absent.
func (p *program) json(vars map[string]any) (any, error) {
	v, err := p.eval(vars)
	if err != nil {
		return nil, err
	}
	x, err := fromCEL(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEvaluation, err)
	}
	return x, nil
}
