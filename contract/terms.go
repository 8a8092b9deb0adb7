package contract

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// rules compiles what is declared about answers.
func (c *compiler) rules(t *tool, path string) {
	k := &t.terms
	r := &t.rules
	answer, _ := t.vocabulary()
	r.success = c.predicate(path+"/success", k.Success, answer)
	r.accepted = c.predicate(path+"/accepted", k.Accepted, answer)
	r.onMismatch = c.predicate(path+"/on_mismatch", k.OnMismatch, answer)
	r.onConcurrent = c.predicate(path+"/on_concurrent", k.OnConcurrent, answer)
	r.replaySignal = c.predicate(path+"/replay_signal", k.ReplaySignal, answer)
	shape := k.ErrorShape
	if shape == "" && t.upstream != nil {
		shape = t.upstream.terms.ErrorShape
	}
	r.errorShape = c.predicate(path+"/error_shape", shape, answer)
	conventions := k.Conventions
	if conventions == "" && t.upstream != nil {
		conventions = t.upstream.terms.Conventions
	}
	t.contract.Conventions = conventions == "http" || conventions == "mcp"
	c.kindOfConventions(t, path, conventions)
	for i, n := range k.NoEffect {
		at := item(path+"/no_effect", i)
		if _, long := c.values[at+"/when"]; long {
			at += "/when"
		}
		r.noEffect = append(r.noEffect, noEffectRule{c.predicate(at, n.When, answer), n.Transient})
	}
	r.result = c.expression(path+"/result", k.Result, answer, nil)
	r.ref = c.locator(path+"/result_ref", k.ResultRef, answer)
	if d := k.OnDuplicate; d != nil {
		at := path + "/on_duplicate"
		r.duplicate = &duplicateRule{when: c.predicate(at+"/when", d.When, answer), id: c.locator(at+"/conflict_with_id", d.ConflictWithID, answer)}
		if d.Read != nil {
			r.duplicate.read = c.request(at+"/read", d.Read, t.upstream, inFollowUp, true)
			c.readsOnly(at+"/read", d.Read)
		}
	}
	if k.NeedsBody && t.request.body == nil {
		c.fail(path+"/needs_body", "the request has no body")
	}
	r.expectBody = strings.HasPrefix(string(k.ResultRef), "/") || strings.Contains(string(k.ResultRef), "response.body") ||
		strings.Contains(string(k.Result), "response.body")
}

func (c *compiler) readsOnly(path string, t *requestTerms) {
	if t.Method == "PUT" || t.Method == "PATCH" || t.Method == "DELETE" {
		c.fail(path+"/method", "%s changes something: this request only reads", t.Method)
	}
}

// reconciliation compiles probe, fence and snapshot.
func (c *compiler) reconciliation(t *tool, path string) {
	answer, match := t.vocabulary()
	if p := t.terms.Probe; p != nil {
		at := path + "/probe"
		t.probe = &probe{
			request:    c.asks(t, at, &p.Request, p.Call, inFollowUp, true),
			by:         pawl.MatchKind(p.By),
			match:      c.expression(at+"/match", p.Match, answer, nil),
			complete:   c.predicate(at+"/complete", p.Complete, answer),
			absent:     c.predicate(at+"/absent", p.Absent, answer),
			inProgress: c.predicate(at+"/in_progress", p.InProgress, answer),
			result:     c.expression(at+"/result", p.Result, match, nil),
			reference:  c.expression(at+"/ref", p.Ref, match, nil),
			errorShape: t.rules.errorShape,
		}
		c.readsOnly(at+"/request", &p.Request)
		if (p.By == "key" || p.By == "marker") && t.probe.match != nil && !t.probe.match.usesKey && !usesKey(t.probe.request) {
			c.fail(at+"/by", "by: %s, but neither match nor the request mentions key: whatever it finds could be anybody's", p.By)
		}
		if p.NegativeProof != "" && p.Lag == nil {
			c.fail(at+"/negative_proof", "needs lag: say how long until an effect is visible to the probe (0 if at once)")
		}
	}
	if f := t.terms.Fence; f != nil {
		at := path + "/fence"
		t.fence = &fence{
			request:    c.asks(t, at, &f.Request, f.Call, inFollowUp, false),
			held:       c.predicate(at+"/held", f.Held, answer),
			found:      c.predicate(at+"/found", f.Found, answer),
			result:     c.expression(at+"/result", f.Result, answer, nil),
			reference:  c.expression(at+"/ref", f.Ref, answer, nil),
			errorShape: t.rules.errorShape,
		}
		if f.Tombstone > 0 && !f.RefusesLater {
			c.fail(at+"/tombstone", "a tombstone refuses later arrivals: add refuses_later: true, or remove it")
		}
		if f.RefusesLater && f.Tombstone == 0 {
			c.fail(at+"/refuses_later", "for how long? add tombstone, such as 24h")
		}
	}
	if s := t.terms.Snapshot; s != nil {
		at := path + "/snapshot"
		t.before = &snapshot{
			request: c.asks(t, at, &s.Request, s.Call, inRequest, true),
			result:  c.expression(at+"/result", s.Result, answer, nil),
			absent:  c.predicate(at+"/absent", s.Absent, answer), errorShape: t.rules.errorShape,
		}
		c.readsOnly(at+"/request", &s.Request)
	}
}

// usesKey reports whether a request has the key anywhere.
func usesKey(r *request) bool {
	for _, q := range r.query {
		if q.expr != nil && q.expr.usesKey {
			return true
		}
	}
	for _, e := range r.exprs {
		if e != nil && e.usesKey {
			return true
		}
	}
	for _, h := range r.headers {
		if keyInParts(h) {
			return true
		}
	}
	return slices.ContainsFunc(r.path, keyInParts)
}

func keyInParts(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.expr != nil && p.expr.usesKey })
}

// lateHeaders checks the carriers of deadline and not-after.
func (c *compiler) lateHeaders(t *tool, path string) {
	if t.speaksMCP() {
		c.lateMCP(t, path)
		return
	}
	late := map[string]bool{}
	check := func(at, name string) {
		canonical, ok := c.header(at, name)
		if !ok {
			return
		}
		if _, taken := t.request.headers[canonical]; taken || late[canonical] || slices.ContainsFunc(t.attach, func(a carrierTerms) bool {
			return a.Carrier == "header" && strings.EqualFold(a.Name, canonical)
		}) {
			c.fail(at, "header %s is set elsewhere too", canonical)
		}
		late[canonical] = true
	}
	if n := t.terms.NotAfter; n != nil && n.Header != "" {
		check(path+"/not_after/header", n.Header)
	}
	d := t.terms.DeadlineTo
	if d == nil || d.Meta != "" {
		return
	}
	at := path + "/deadline_to"
	switch {
	case (d.Header == "") == (d.JSONPointer == ""):
		c.fail(at, "want one of header and json_pointer")
	case d.Header != "":
		check(at+"/header", d.Header)
	case !strings.HasPrefix(d.JSONPointer, "/") || d.JSONPointer == "/":
		c.fail(at+"/json_pointer", "want a JSON pointer into the body, such as /options/deadline")
	case d.Format != "" && d.Format != "rfc3339":
		c.fail(at+"/format", "a body is computed once and sent again as it is, so it can only carry a point in time: write rfc3339, or use a header")
	case t.request.body == nil:
		c.fail(at+"/json_pointer", "the request has no body")
	}
	for _, a := range t.attach {
		if d.JSONPointer != "" && a.Carrier == "json_pointer" && overlap(a.Name, d.JSONPointer) {
			c.fail(at+"/json_pointer", "%s carries the key: the deadline would take its place", shorten(a.Name))
		}
	}
}

// combinations refuses what contradicts itself or cannot be safe.
func (c *compiler) combinations(t *tool, path string) {
	k := &t.terms
	at := func(name string) string { return member(path, name) }
	switch k.Class {
	case "keyed":
		if k.Key == nil && !c.reported(at("class")) {
			c.fail(at("class"), "class keyed needs key: where does the provider take our key?")
		}
	case "read":
		for _, name := range []string{
			"identity", "free", "scope", "repeat", "after_rejection", "max_generations", "max_attempts", "serialize", "irreversible",
			"compensation", "corrective",
			"key", "marker", "retention", "on_mismatch", "on_concurrent", "on_duplicate", "replays_errors", "replay_signal",
			"accepted", "no_effect", "probe", "fence", "snapshot", "confirm", "watch", "flight", "pause", "landing", "not_after", "convergent_for",
		} {
			if c.given(at(name)) {
				c.fail(at(name), "a read has no effect, so it has no %s: remove it, or give the tool another class", name)
			}
		}
	}
	if k.Class != "keyed" && k.Class != "read" {
		if k.Key != nil {
			c.fail(at("key"), "only a provider that honours the key has one: write class: keyed, or marker for a reference that a probe finds again")
		}
		for _, name := range []string{"on_mismatch", "on_concurrent", "on_duplicate", "replays_errors", "replay_signal"} {
			if c.given(at(name)) {
				c.fail(at(name), "only class keyed has %s", name)
			}
		}
	}
	if k.Class != "read" && t.request.method == "GET" {
		c.fail(path+"/request/method", "a GET is repeated by everything on the way: an effect needs another method, a read needs class: read")
	}
	for i, free := range k.Free {
		if f := identifies(t.contract.Identity, free); f != "" {
			c.fail(item(at("free"), i), "%q is part of the identity (field %q), so it cannot differ between repeats: remove it here or there", shorten(free), shorten(f))
		}
	}
	if k.BodyMayFail && k.Success == "" {
		c.fail(at("body_may_fail"), "the body may carry a failure, so success must say what is none")
	}
	if k.ExpectContinue && t.request.body == nil {
		c.fail(at("expect_continue"), "the request has no body")
	}
	if p := k.Probe; p != nil {
		switch {
		case p.By == "key" && k.Key == nil:
			c.fail(path+"/probe/by", "the tool sends no key: use marker, state or business")
		case p.By == "marker" && k.Marker == nil && !usesKey(t.request):
			c.fail(path+"/probe/by", "the request carries no reference of ours: add marker, or use key somewhere in the request")
		}
	}
	if k.Snapshot == nil && t.probe != nil {
		for name, p := range map[string]*program{"match": t.probe.match, "in_progress": t.probe.inProgress, "complete": t.probe.complete} {
			if p != nil && p.usesBefore {
				c.fail(path+"/probe/"+name, "before is empty without a snapshot: add snapshot")
			}
		}
	}
}

// identifies returns the identity field that is read from an argument or from what it is
// in, or "".
func identifies(fields []pawl.Field, argument string) string {
	path := pointer(argument)
	for _, f := range fields {
		for _, from := range sources(f) {
			whole := pointer(from)
			if len(whole) <= len(path) && slices.Equal(whole, path[:len(whole)]) {
				return f.Name
			}
		}
	}
	return ""
}

// given reports whether the file has the key at path.
func (c *compiler) given(path string) bool {
	_, ok := c.keys[path]
	return ok
}
