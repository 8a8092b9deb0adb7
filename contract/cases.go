package contract

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// toolCase is a contract that a tool's arguments choose.
type toolCase struct {
	condition *program // nil for an inner tool, which its name chooses
	tool      *tool
}

// unwrapping is where a tool that calls another one has that tool's name and arguments.
type unwrapping struct {
	name, arguments []string // places in the arguments
	text            bool     // the inner arguments are a text that holds JSON
}

// whole is the tool whose entry in the file a contract stands in.
func (t *tool) whole() *tool {
	if t.around != nil {
		return t.around
	}
	return t
}

// chosen are the contracts that the tool's arguments choose from, besides its own.
func (t *tool) chosen() []*tool {
	list := make([]*tool, len(t.cases))
	for i, k := range t.cases {
		list[i] = k.tool
	}
	return list
}

// taken are the terms of a tool that hold for its cases and inner tools too, where these say
// nothing else: where calls go, and what answers mean.
var taken = []string{
	"draft", "request", "call", "conventions", "error_shape", "success", "accepted", "no_effect", "body_may_fail", "needs_body",
	"expect_continue", "result", "empty_success", "timeout", "linger", "min_time", "flight", "pause", "landing", "deadline_to",
}

// mayChoose sees to it that the terms of a tool with cases or inner tools are the cautious
// ones: they hold where nothing else is sure to.
func (c *compiler) mayChoose(path string, terms *toolTerms) {
	term := "when"
	switch {
	case terms.When != nil && terms.Unwrap != nil:
		c.fail(path+"/unwrap", "one tool has when or unwrap, and not both")
	case terms.Unwrap != nil:
		term = "unwrap"
	case terms.When == nil:
		return
	}
	if terms.Class != "" && terms.Class != "unsafe" {
		c.fail(path+"/class", "a tool with %s is unsafe itself: its own terms hold where no other contract is sure to", term)
	}
	if terms.Identity == nil {
		terms.Identity = &identityTerms{all: true}
	}
	if term == "when" && len(terms.When) == 0 && !c.reported(path+"/when") {
		c.fail(path+"/when", "no case is listed: name one, or remove when")
	}
	if term == "unwrap" && len(terms.Unwrap.Tools) == 0 && !c.reported(path+"/unwrap") {
		c.fail(path+"/unwrap", "no inner tool is listed: name one under tools, or remove unwrap")
	}
}

var caseName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// chosenFrom compiles the contracts that a tool's arguments choose from.
func (c *compiler) chosenFrom(t *tool, path string) []*tool {
	if t.upstream == nil || t.request == nil {
		return nil // what is wrong with it is wrong with each of them
	}
	for _, name := range slices.Sorted(maps.Keys(t.terms.When)) {
		at, terms := member(path+"/when", name), t.terms.When[name]
		if !caseName.MatchString(name) {
			c.fail(at, "%q is no name for a case: letters, digits, '_' and '-', at most 64", shorten(name))
		}
		c.alone(at, "case")
		c.take(t, path, at, &terms.toolTerms)
		own := c.tool(t.contract.Tool+"."+name, at, terms.toolTerms, t.upstream)
		own.around = t
		t.cases = append(t.cases, &toolCase{c.predicate(at+"/if", terms.If, inCall), own})
	}
	if u := t.terms.Unwrap; u != nil {
		t.unwrap = c.unwrapping(path+"/unwrap", u)
		for _, name := range slices.Sorted(maps.Keys(u.Tools)) {
			at, terms := member(path+"/unwrap/tools", name), u.Tools[name]
			c.alone(at, "inner tool")
			for _, key := range []string{"request", "call"} {
				if c.given(at + "/" + key) {
					c.fail(at+"/"+key, "an inner tool is reached by the tool around it: remove %s", key)
				}
			}
			terms.Request, terms.Call = requestTerms{}, nil
			c.take(t, path, at, &terms.toolTerms)
			own := c.tool(t.contract.Tool+"."+name, at, terms.toolTerms, t.upstream)
			own.around, own.inner = t, name
			c.wrappedKey(own, at)
			t.cases = append(t.cases, &toolCase{nil, own})
		}
	}
	return t.chosen()
}

// alone refuses what belongs to the tool around.
func (c *compiler) alone(path, what string) {
	for _, key := range []string{"upstream", "when", "unwrap"} {
		if c.given(path + "/" + key) {
			c.fail(path+"/"+key, "%s belongs to the tool and not to a single %s", key, what)
		}
	}
}

// take gives a case the terms of its tool that it leaves open, with their places.
func (c *compiler) take(t *tool, from, to string, terms *toolTerms) {
	terms.Upstream, terms.When, terms.Unwrap = t.upstream.name, nil, nil
	own, base := reflect.ValueOf(terms).Elem(), reflect.ValueOf(&t.terms).Elem()
	for _, f := range reflect.VisibleFields(own.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !slices.Contains(taken, key) || c.given(to+"/"+key) || !c.given(from+"/"+key) {
			continue
		}
		own.FieldByIndex(f.Index).Set(base.FieldByIndex(f.Index))
		for _, places := range []map[string]place{c.keys, c.values} {
			for at, p := range maps.Clone(places) {
				if below, ok := strings.CutPrefix(at, from+"/"+key); ok && (below == "" || below[0] == '/') {
					places[to+"/"+key+below] = p
				}
			}
		}
	}
	if terms.Call == nil && t.request.call != nil {
		terms.Call = &callTerms{Tool: t.request.call.tool}
	}
}

func (c *compiler) unwrapping(path string, terms *unwrapTerms) *unwrapping {
	u := &unwrapping{text: terms.As == "text"}
	for _, p := range []struct {
		key, text string
		to        *[]string
	}{{"name", terms.Name, &u.name}, {"arguments", terms.Arguments, &u.arguments}} {
		if len(p.text) < 2 || p.text[0] != '/' {
			if !c.reported(path + "/" + p.key) {
				c.fail(path+"/"+p.key, "want a JSON pointer to an argument, such as /%s", p.key)
			}
			continue
		}
		*p.to = pointer(p.text)
	}
	if u.name != nil && u.arguments != nil && overlap(terms.Name, terms.Arguments) {
		c.fail(path+"/arguments", "name and arguments are two places: one is a part of the other")
	}
	return u
}

// wrappedKey refuses what an inner tool's request cannot carry.
func (c *compiler) wrappedKey(t *tool, path string) {
	if d := t.terms.DeadlineTo; d != nil && d.JSONPointer != "" && c.given(path+"/deadline_to") {
		c.fail(path+"/deadline_to/json_pointer", "the body is that of the tool around, which carries the deadline for all")
	}
}

// namedOnce refuses two contracts of one name, as a case that is named like another tool.
func (c *compiler) namedOnce(tools []*tool) {
	seen := map[string]*tool{}
	for _, t := range tools {
		other := seen[t.contract.Tool]
		if seen[t.contract.Tool] = t; other == nil || t.contract.Tool == "" {
			continue
		}
		if t.line < other.line {
			t, other = other, t
		}
		c.report.add(place{t.line, 1}, "the tool %q is in line %d already", shorten(t.contract.Tool), other.line)
	}
}
