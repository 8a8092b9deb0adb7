package draft

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
)

// guessed is the identity that a tool is drafted with.
type guessed struct {
	// fields are empty where whole is none or all.
	fields []field
	whole  string
	// prose are the arguments left out because a model words them differently each time.
	prose []string
}

// field is one identity field.
type field struct {
	name     string
	rule     string
	optional bool
}

var (
	// naming are the ends of names that tell one thing from another.
	naming = words(`id ids key keys number numbers ref sha slug uuid guid sku email`)
	// means are things that an effect is done with and that do not make it another one.
	means = words(`payment card wallet`)
	// amounts are numbers of money.
	amounts = words(`amount balance cost fee price subtotal sum tip total`)
)

// guess drafts the identity of a tool with effects.
func guess(t *Tool) guessed {
	var g guessed
	taken := map[string]bool{}
	for i := range t.Parameters {
		if first, second := &t.Parameters[i], t.parameter("new_"+t.Parameters[i].Name); second != nil && first.Type == "array" && second.Type == "array" {
			taken[second.Name] = true
		}
	}
	other := 0 // arguments that are neither identity nor prose
	for i := range t.Parameters {
		p := &t.Parameters[i]
		if taken[p.Name] || isKey(p) {
			continue
		}
		if contract.Prose(p.Name) {
			g.prose = append(g.prose, p.Name)
			continue
		}
		rule, ok := ruleOf(t, p)
		if !ok {
			other++
			continue
		}
		g.fields = append(g.fields, field{name: p.Name, rule: rule, optional: !p.Required || secondLine(p.Name)})
	}
	slices.SortStableFunc(g.fields, func(a, b field) int { return boolean(a.optional) - boolean(b.optional) })
	if !slices.ContainsFunc(g.fields, func(f field) bool { return !f.optional }) && (len(g.fields) > 0 || other > 0) {
		return guessed{whole: "all", prose: g.prose}
	}
	if len(g.fields) == 0 {
		g.whole = "none"
	}
	return g
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ruleOf is the canonicaliser of an argument that belongs to the identity.
func ruleOf(t *Tool, p *Parameter) (string, bool) {
	name := split(p.Name)
	if len(name) == 0 {
		return "", false
	}
	last := name[len(name)-1]
	named := naming[last] || switching[strings.Join(name, "_")]
	if !p.Required && !named {
		return "", false
	}
	if slices.ContainsFunc(name, func(w string) bool { return means[w] && !slices.Contains(split(t.Name), w) }) {
		return "", false
	}
	switch p.Type {
	case "array":
		if p.Items != "string" && p.Items != "integer" && p.Items != "number" {
			return "", false
		}
		if t.parameter("new_"+p.Name) != nil {
			return "multiset(zip(new_" + p.Name + "))", true
		}
		return "multiset", true
	case "integer":
		return "integer", true
	case "number":
		switch {
		case amounts[last] && t.parameter("currency") != nil:
			return "money(currency)", true
		case amounts[last]:
			return "decimal(2)", true
		}
		return "integer", named
	case "boolean", "object":
		return "", false
	}
	switch {
	case last == "email":
		return "lower", true
	case p.Name == "state" && (t.parameter("zip") != nil || t.parameter("country") != nil), p.Name == "currency":
		return "upper", true
	case amounts[last] && p.Type == "string" && t.parameter("currency") != nil:
		return "money(currency)", true
	}
	return "text", true
}

// secondLine reports whether an argument is a further line of an address, which often is
// empty.
func secondLine(name string) bool {
	base := strings.TrimRight(name, "23")
	return base != name && (strings.HasSuffix(base, "address") || strings.HasSuffix(base, "line") || strings.HasSuffix(base, "line_") || strings.HasSuffix(base, "address_"))
}

// keyNames are names of idempotency keys, without what separates their words.
var keyNames = words(`clientrequestid clienttoken idempotencekey idempotencykey idempotencytoken paypalrequestid
	requesttoken xidempotencykey`)

// isKey reports whether an argument looks like the place of an idempotency key.
func isKey(p *Parameter) bool {
	name := strings.Join(split(p.Name), "")
	if keyNames[name] {
		return true
	}
	return name == "requestid" && p.Type != "array" && strings.Contains(strings.ToLower(p.Description), "idempoten")
}

// steady are verbs after which a second identical call usually finds the state that the
// first one left.
var steady = words(`archive assign close disable enable follow lock mark modify mute pin put
	rename replace set star subscribe unarchive unassign unfollow unlock unmute unpin unstar
	unsubscribe update upsert`)

// suggestion is a class that a person may turn a tool into.
type suggestion struct {
	class pawl.Class
	why   string
}

// suggest finds what speaks for a stronger class than unsafe.
func suggest(t *Tool, prefix int) *suggestion {
	for i := range t.Parameters {
		if p := &t.Parameters[i]; isKey(p) {
			return &suggestion{pawl.Keyed, "its parameter " + p.Name + " looks like an idempotency key"}
		}
	}
	if t.Hints.Idempotent != nil && *t.Hints.Idempotent {
		return &suggestion{pawl.Convergent, "the server says that a second identical call changes nothing more"}
	}
	name := split(t.Name)
	once := slices.ContainsFunc(clauses(t.Description), func(c clause) bool { return slices.Contains(c.words, "once") })
	if len(name) > prefix && steady[name[prefix]] && !once {
		return &suggestion{pawl.Convergent, "its name begins with \"" + name[prefix] + "\""}
	}
	if o := t.Operation; o != nil && (o.Method == "PUT" || o.Method == "DELETE") {
		return &suggestion{pawl.Convergent, "it is a " + o.Method + " request"}
	}
	return nil
}
