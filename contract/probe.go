package contract

import (
	"context"
	"errors"
	"net/http"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

// Probe asks the provider whether the operation's effect exists. Only a complete and
// successful read without a match says absent, or an answer that the contract declares as
// absent; whatever else goes wrong is inconclusive.
func (t *tool) Probe(ctx context.Context, op *pawl.Operation) pawl.ProbeResult {
	own, err := t.asPinned(op)
	if err == nil && own.probe == nil {
		err = errors.New("the contract declares no probe")
	}
	if err != nil {
		return pawl.ProbeResult{Outcome: pawl.Inconclusive, Error: err.Error()}
	}
	s, err := own.ofOperation(op)
	if err != nil {
		return pawl.ProbeResult{Outcome: pawl.Inconclusive, Error: err.Error()}
	}
	res, err := own.ask(ctx, own.probe.request, s)
	result := pawl.ProbeResult{Outcome: pawl.Inconclusive}
	result.Code, result.Body = seen(res)
	if err == nil {
		err = own.probe.read(&result, s, res)
	}
	if err != nil {
		result.Outcome, result.Error = pawl.Inconclusive, err.Error()
	}
	return result
}

// seen is what is kept of an answer for the record.
func seen(res *evidence.Response) (code int, body []byte) {
	if res == nil {
		return 0, nil
	}
	return res.Status, res.Body[:min(len(res.Body), pawl.MaxBody)]
}

// read fills the result from an intact answer. An error leaves it inconclusive.
func (p *probe) read(result *pawl.ProbeResult, s *subject, res *evidence.Response) error {
	if res.Page() {
		return errPage
	}
	if !speaks(res.Status) || res.Status == http.StatusNoContent || res.Status == http.StatusResetContent {
		return errRead
	}
	vars := s.answered(res)
	if p.absent != nil {
		if gone, err := p.absent.holds(vars); gone && err == nil {
			return p.isAbsent(result, vars, res)
		}
	}
	if !complete(res.Status) {
		return errRead
	}
	matches, err := p.matches(vars)
	if err != nil {
		return err
	}
	if err := p.judge(result, vars, matches); err != nil || result.Outcome != pawl.Absent {
		return err
	}
	return p.isAbsent(result, vars, res)
}

// judge fills the result from the matches in a complete answer.
func (p *probe) judge(result *pawl.ProbeResult, vars map[string]any, matches []ref.Val) error {
	if p.inProgress != nil {
		working, err := p.inProgress.holds(vars)
		if err != nil {
			return err
		}
		if working {
			result.Outcome = pawl.InProgress
			return nil
		}
	}
	whole := true
	if p.complete != nil {
		var err error
		if whole, err = p.complete.holds(vars); err != nil {
			return err
		}
	}
	switch {
	case len(matches) > 0 && (whole || p.by == pawl.MatchKey || p.by == pawl.MatchMarker):
		p.found(result, vars, matches)
		return nil
	case whole && len(matches) == 0:
		result.Outcome = pawl.Absent
		return nil
	}
	// One page proves neither that there is no match nor, without key or marker, that the
	// match is the only one.
	return errors.New("the answer is not the whole picture")
}

var (
	errPage    = errors.New("the answer is an HTML page and none of the upstream's API")
	errForeign = errors.New("the answer has not the upstream's own shape, so another may have given it")
	errCached  = errors.New("the answer was kept by a cache, so it may be older than the effect")
)

// speaks reports whether an answer of this status can say that there is no effect, if the
// contract takes it so: what is partial, for later or elsewhere cannot.
func speaks(status int) bool { return complete(status) || status >= 400 }

// isAbsent takes an answer for absent if the upstream itself gave it, and just now.
func (p *probe) isAbsent(result *pawl.ProbeResult, vars map[string]any, res *evidence.Response) error {
	if err := fromUpstream(p.errorShape, vars, res); err != nil {
		return err
	}
	result.Outcome = pawl.Absent
	return nil
}

// fromUpstream is nil if the upstream itself gave an answer, and just now.
func fromUpstream(errorShape *program, vars map[string]any, res *evidence.Response) error {
	if !complete(res.Status) {
		itself := false
		if errorShape != nil {
			yes, err := errorShape.holds(vars)
			itself = yes && err == nil
		} else if v, err := res.JSON(); err == nil {
			_, itself = v.(map[string]any)
		}
		if !itself {
			return errForeign
		}
	}
	if age := res.Header.Get("Age"); age != "" && age != "0" {
		return errCached
	}
	return nil
}

// matches evaluates match: a list is its elements, true is one match without a value.
func (p *probe) matches(vars map[string]any) ([]ref.Val, error) {
	v, err := p.match.eval(vars)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Bool:
		if v {
			return []ref.Val{nil}, nil
		}
		return nil, nil
	case traits.Lister:
		var list []ref.Val
		for it := v.Iterator(); it.HasNext() == types.True; {
			list = append(list, it.Next())
		}
		return list, nil
	}
	return nil, errors.New("match gives neither a list nor true or false")
}

// maxRefs caps the references of one result; two matches already go to a person.
const maxRefs = 20

// found fills in what was found. An id or a result that cannot be computed takes nothing
// from that.
func (p *probe) found(result *pawl.ProbeResult, vars map[string]any, matches []ref.Val) {
	result.Outcome, result.Match, result.Count = pawl.Found, p.by, len(matches)
	for i, m := range matches[:min(len(matches), maxRefs)] {
		shown := any(m)
		if m == nil {
			shown = vars["response"].(*record).values["body"]
		}
		at := with(vars, "match", shown)
		if p.reference != nil {
			if v, err := p.reference.json(at); err == nil {
				if id, err := refText(v); err == nil {
					result.Refs = append(result.Refs, id)
				}
			}
		}
		if i > 0 {
			continue
		}
		if p.result != nil {
			result.Result, _ = p.result.raw(at)
		} else if m != nil {
			if v, err := fromCEL(m); err == nil {
				result.Result, _ = pawl.AppendJSON(nil, v)
			}
		} else if _, bad := shown.(error); !bad {
			result.Result, _ = pawl.AppendJSON(nil, shown)
		}
	}
}

func with(vars map[string]any, name string, v any) map[string]any {
	out := make(map[string]any, len(vars)+1)
	for k, x := range vars {
		out[k] = x
	}
	out[name] = v
	return out
}

// Fence asks the provider to see to it that the effect never happens.
func (t *tool) Fence(ctx context.Context, op *pawl.Operation) pawl.FenceResult {
	own, err := t.asPinned(op)
	if err == nil && own.fence == nil {
		err = errors.New("the contract declares no fence")
	}
	if err != nil {
		return pawl.FenceResult{Outcome: pawl.FenceInconclusive, Error: err.Error()}
	}
	s, err := own.ofOperation(op)
	if err != nil {
		return pawl.FenceResult{Outcome: pawl.FenceInconclusive, Error: err.Error()}
	}
	res, err := own.ask(ctx, own.fence.request, s)
	result := pawl.FenceResult{Outcome: pawl.FenceInconclusive}
	result.Code, result.Body = seen(res)
	if err == nil {
		err = own.fence.read(&result, s, res)
	}
	if err != nil {
		result.Outcome, result.Error = pawl.FenceInconclusive, err.Error()
	}
	return result
}

func (f *fence) read(result *pawl.FenceResult, s *subject, res *evidence.Response) error {
	if res.Page() {
		return errPage
	}
	vars := s.answered(res)
	exists, err := f.found.holds(vars)
	if err != nil {
		return err
	}
	if exists {
		f.exists(result, vars)
		return nil
	}
	held := complete(res.Status)
	if f.held != nil {
		if held, err = f.held.holds(vars); err != nil {
			return err
		}
	}
	if !held || !speaks(res.Status) {
		return errRead
	}
	if err := fromUpstream(f.errorShape, vars, res); err != nil {
		return err
	}
	result.Outcome = pawl.FenceHeld
	return nil
}

// exists fills the result with an effect that is there already.
func (f *fence) exists(result *pawl.FenceResult, vars map[string]any) {
	result.Outcome = pawl.FenceFound
	if f.reference != nil {
		if v, err := f.reference.json(vars); err == nil {
			result.Ref, _ = refText(v)
		}
	}
	if f.result != nil {
		result.Result, _ = f.result.raw(vars)
	}
}
