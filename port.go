package pawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// What a port does wrong stays with the port: a panic proves nothing, a result that is no
// JSON cannot be read, and what is too large is kept cut.

// safePrepare turns a panic into a refusal of the arguments.
func safePrepare(p Port, inv *Invocation) (out Outbound, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = Outbound{}, fmt.Errorf("the tool cannot read these arguments")
		}
	}()
	return p.Prepare(inv)
}

// safeSelect turns a panic into a tool that there is not.
func safeSelect(s Selector, args json.RawMessage) (tool string, own json.RawMessage) {
	defer func() {
		if r := recover(); r != nil {
			tool, own = "", nil
		}
	}()
	return s.Select(args)
}

// safeSend makes one attempt.
func safeSend(ctx context.Context, p Port, s *Sending) (e Evidence) {
	began := time.Now()
	defer func() {
		if r := recover(); r != nil {
			e = Evidence{Class: ClassAmbiguous, Proof: "panic", Error: fmt.Sprintf("panic: %T", r)}
		}
		e.tidy()
		e.Took = time.Since(began)
	}()
	return p.Send(ctx, s)
}

// tidy bounds what is kept and corrects what cannot be kept.
func (e *Evidence) tidy() {
	if e.Class == "" {
		e.Class = ClassAmbiguous
	}
	if e.Result != nil && !validJSON(e.Result) {
		e.Body, e.Result = e.Result, nil
		if e.Class == ClassSucceeded {
			e.Class = ClassResultLost
		}
	}
	if len(e.Result) > MaxResult {
		e.ResultCut = true
		e.BodySize, e.BodySHA256 = int64(len(e.Result)), hexSHA256(e.Result)
		e.Result = nil
	}
	if len(e.Body) > MaxBody {
		if e.BodySHA256 == "" {
			e.BodySize, e.BodySHA256 = int64(len(e.Body)), hexSHA256(e.Body)
		}
		e.Body = e.Body[:MaxBody:MaxBody]
	}
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// retryAfter is the pause in seconds that the provider asked for, at most an hour.
func (e *Evidence) retryAfter() time.Duration {
	s, err := strconv.Atoi(e.Header["retry-after"])
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(s, 3600)) * time.Second
}

// safeProbe asks the port; what goes wrong there is inconclusive.
func safeProbe(ctx context.Context, p Port, op *Operation) (r ProbeResult) {
	defer func() {
		if v := recover(); v != nil {
			r = ProbeResult{Outcome: Inconclusive, Error: fmt.Sprintf("panic: %T", v)}
		}
		if !validJSON(r.Result) || len(r.Result) > MaxResult {
			r.Result = nil
		}
		r.Body = r.Body[:min(len(r.Body), MaxBody)]
	}()
	prober, ok := p.(Prober)
	if !ok {
		return ProbeResult{Outcome: Inconclusive, Error: "the tool has no probe any more"}
	}
	return prober.Probe(ctx, op)
}

// safeFence is safeProbe for a fence.
func safeFence(ctx context.Context, p Port, op *Operation) (r FenceResult) {
	defer func() {
		if v := recover(); v != nil {
			r = FenceResult{Outcome: FenceInconclusive, Error: fmt.Sprintf("panic: %T", v)}
		}
		if !validJSON(r.Result) || len(r.Result) > MaxResult {
			r.Result = nil
		}
		r.Body = r.Body[:min(len(r.Body), MaxBody)]
	}()
	fencer, ok := p.(Fencer)
	if !ok {
		return FenceResult{Outcome: FenceInconclusive, Error: "the tool has no fence any more"}
	}
	return fencer.Fence(ctx, op)
}

// safeSnapshot reads the state before an attempt.
func safeSnapshot(ctx context.Context, p Port, inv *Invocation) (before json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %T", v)
		}
	}()
	reader, ok := p.(Snapshotter)
	if !ok {
		return nil, fmt.Errorf("the tool has no snapshot any more")
	}
	before, err = reader.Snapshot(ctx, inv)
	switch {
	case err != nil:
		return nil, err
	case !validJSON(before):
		return nil, fmt.Errorf("the state before is no JSON")
	case len(before) > MaxResult:
		return nil, fmt.Errorf("the state before has %d bytes, at most %d are kept", len(before), MaxResult)
	}
	return before, nil
}
