package contract

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rule"
)

// toolAnswer is the answer of an MCP tool with what decides taken out of it.
type toolAnswer struct {
	*MCPAnswer
	// result is the whole result; resultErr says why it cannot be relied on.
	result    any
	resultErr error
	// kind is the result's type, empty where it has none, as in legacy revisions.
	kind    string
	isError bool
	// empty: there is neither content nor structured content. unknown: there is content of
	// a type that is not known here.
	empty, unknown bool
	texts          []string
	other          bool // content beside the texts
	structured     any
	hasStructured  bool
}

var (
	errShape    = errors.New("the result has not the shape of a tool's")
	errToolSaid = errors.New("the tool says that it failed")
	errKind     = errors.New("the result is of a type that is not known")
)

// contentTypes are those of the published revisions.
var contentTypes = []string{"text", "image", "audio", "resource", "resource_link"}

// readToolAnswer reads strictly: a result that two readers could understand in two ways is
// none to rely on.
func readToolAnswer(a *MCPAnswer) *toolAnswer {
	t := &toolAnswer{MCPAnswer: a}
	if a.Result != nil {
		t.resultErr = t.read()
	}
	return t
}

func (t *toolAnswer) read() (err error) {
	if t.result, err = pawl.ParseJSONLimit(t.Result, len(t.Result)); err != nil {
		return err
	}
	o, ok := t.result.(map[string]any)
	if !ok {
		return errShape
	}
	if v, given := o["resultType"]; given {
		if t.kind, ok = v.(string); !ok || t.kind == "" {
			return errShape
		}
	}
	if v, given := o["isError"]; given {
		if t.isError, ok = v.(bool); !ok {
			return errShape
		}
	}
	t.structured, t.hasStructured = o["structuredContent"]
	t.hasStructured = t.hasStructured && t.structured != nil
	var content []any
	if v, given := o["content"]; given {
		if content, ok = v.([]any); !ok {
			return errShape
		}
	}
	for _, c := range content {
		item, _ := c.(map[string]any)
		kind, _ := item["type"].(string)
		text, isText := item["text"].(string)
		switch {
		case kind == "text" && isText:
			t.texts = append(t.texts, text)
		case slices.Contains(contentTypes, kind):
			t.other = true
		default:
			t.unknown = true
		}
	}
	t.empty = len(content) == 0 && !t.hasStructured
	return nil
}

// complete is nil for a result that is whole and no error.
func (t *toolAnswer) complete() error {
	switch {
	case t.Error != nil:
		return fmt.Errorf("%w: error %d", errToolSaid, t.Error.Code)
	case t.Result == nil:
		return errNoAnswer
	case t.resultErr != nil:
		return t.resultErr
	case t.kind != "" && t.kind != "complete":
		return errKind
	case t.isError:
		return errToolSaid
	}
	return nil
}

// body is the structured content, or the JSON that is the only content.
func (t *toolAnswer) body() (any, error) {
	switch {
	case t.Result == nil || t.resultErr != nil:
		return nil, errShape
	case t.hasStructured:
		return t.structured, nil
	case len(t.texts) != 1 || t.other || t.unknown:
		return nil, errors.New("the content is not one text")
	}
	return pawl.ParseJSONLimit([]byte(t.texts[0]), len(t.texts[0]))
}

func (t *toolAnswer) seen() (code int, body []byte) {
	return t.Facts.Code, t.Facts.Body[:min(len(t.Facts.Body), pawl.MaxBody)]
}

// toolAnswered are the variables of inToolAnswer.
func (s *subject) toolAnswered(t *toolAnswer) map[string]any {
	header := headers{}
	for name, v := range t.Header {
		header[strings.ToLower(name)] = strings.Join(v, ", ")
	}
	values := map[string]any{
		"status": int64(t.Facts.Code), "header": header, "code": int64(0), "is_error": t.isError || t.Error != nil,
		"text": strings.Join(t.texts, "\n"), "result": t.result,
	}
	if t.Error != nil {
		values["code"], values["text"] = t.Error.Code, t.Error.Message
	}
	if t.Result == nil || t.resultErr != nil {
		values["result"] = fmt.Errorf("there is no result that can be relied on")
	}
	if body, err := t.body(); err != nil {
		values["body"] = fmt.Errorf("the content is no JSON that can be relied on")
	} else {
		values["body"] = body
	}
	vars := maps.Clone(s.vars)
	a, _ := celValues() // a subject exists, so they do
	vars["response"] = &record{toolResponseType, a, values}
	return vars
}

// classify says what an answer proves. A status of HTTP proves nothing about a tool; a
// result that is complete and no error says that the effect exists, unless the contract or
// an empty content speaks against it; everything else is doubt, unless the contract lists
// it as having had no effect.
func (t *mcpTool) classify(a *MCPAnswer, s *subject) pawl.Evidence {
	e := a.Facts
	set := func(class pawl.AttemptClass, strength pawl.Strength, proof string) pawl.Evidence {
		e.Class, e.Strength, e.Proof = class, strength, proof
		return e
	}
	switch {
	case e.Class != "":
		return e // by the way itself
	case a.Result == nil && a.Error == nil:
		return set(pawl.ClassAmbiguous, "", "no_answer")
	}
	r := readToolAnswer(a)
	if r.resultErr != nil {
		e.Error = r.resultErr.Error()
		return set(pawl.ClassAmbiguous, "", "unreadable")
	}
	vars := s.toolAnswered(r)
	holds := func(p *program) bool {
		if p == nil {
			return false
		}
		yes, err := p.holds(vars)
		return yes && err == nil
	}
	e.Replayed = holds(t.rules.replaySignal)
	if d := t.rules.duplicate; d != nil && holds(d.when) {
		if id, err := d.id.find(vars); err == nil {
			e.Replayed, e.Ref = true, id
			if r.complete() == nil {
				e.Result = a.Result
			}
			return set(pawl.ClassSucceeded, "", "contract_duplicate")
		}
	}
	switch {
	case holds(t.rules.onConcurrent):
		e.InFlight = true
		return set(pawl.ClassAmbiguous, "", "contract_in_flight")
	case holds(t.rules.onMismatch):
		e.KeyMismatch = true
		return set(pawl.ClassAmbiguous, "", "contract_mismatch")
	}
	for _, n := range t.rules.noEffect {
		if holds(n.when) {
			e.Transient = n.transient
			return set(pawl.ClassRejected, pawl.P3, "contract_no_effect")
		}
	}
	switch {
	case neverCalled(r):
		return set(pawl.ClassRejected, pawl.P4, "mcp_convention")
	case a.Error != nil:
		return set(pawl.ClassAmbiguous, "", "protocol_error")
	case r.kind != "" && r.kind != "complete":
		return set(pawl.ClassAmbiguous, "", "result_type")
	case r.isError && !rule.Holds(rule.ToolErrorsAreDoubt):
		return set(pawl.ClassRejected, pawl.P3, "is_error")
	case r.isError:
		return set(pawl.ClassEffectPossible, "", "is_error")
	case holds(t.rules.accepted):
		return set(pawl.ClassAccepted, "", "contract_accepted")
	case t.rules.success != nil:
		switch yes, err := t.rules.success.holds(vars); {
		case err != nil:
			e.Error = err.Error()
			return set(pawl.ClassAmbiguous, "", "contract_undecided")
		case !yes:
			return set(pawl.ClassEffectPossible, "", "contract_no_success")
		}
		return t.succeeded(e, a, vars, "contract_success")
	case r.unknown:
		return set(pawl.ClassAmbiguous, "", "unknown_content")
	case r.empty && t.doubtsEmpty():
		return set(pawl.ClassAmbiguous, "", "empty_success")
	}
	return t.succeeded(e, a, vars, "result")
}

func (t *mcpTool) succeeded(e pawl.Evidence, a *MCPAnswer, vars map[string]any, proof string) pawl.Evidence {
	e.Class, e.Strength, e.Proof, e.Result = pawl.ClassSucceeded, "", proof, a.Result
	if t.rules.ref != nil {
		var err error
		if e.Ref, err = t.rules.ref.find(vars); err != nil {
			e.Error = fmt.Sprintf("result_ref: %v", err) // the effect exists, and its result is here
		}
	}
	return e
}

// doubtsEmpty reports whether a result without any content is doubt: gateways on the way
// are known to answer so for what they lost.
func (t *mcpTool) doubtsEmpty() bool {
	word := t.terms.EmptySuccess
	if word == "" && t.upstream.terms.MCP != nil {
		word = t.upstream.terms.MCP.EmptySuccess
	}
	return word != "success"
}

// The codes of JSON-RPC for a request that no tool was called for.
var neverCalledCodes = []int64{-32601, -32602}

// neverCalled reports whether an answer is one that by convention says that no tool was
// called: there is none of that name, or the arguments do not fit it. Some servers write
// the code of the latter into the text of an error.
func neverCalled(r *toolAnswer) bool {
	if r.Error != nil {
		return slices.Contains(neverCalledCodes, r.Error.Code)
	}
	return r.isError && len(r.texts) == 1 && strings.HasPrefix(r.texts[0], "MCP error -32602:")
}
