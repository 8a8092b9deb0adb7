package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// judged is the class that a tool is drafted with and what speaks for it.
type judged struct {
	class pawl.Class
	// reasons are phrases, the weightiest first; there is at least one.
	reasons []string
}

// judge classes a tool. prefix is the words that all names of the list begin with.
func judge(t *Tool, prefix int, trust bool) judged {
	name := split(t.Name)
	if len(name) > prefix {
		name = name[prefix:]
	}
	var against []string
	object := func(format string, args ...any) {
		if r := fmt.Sprintf(format, args...); !slices.Contains(against, r) {
			against = append(against, r)
		}
	}
	said := nameSays(name, object)
	if verb := changing(t.Description); verb != "" {
		object("its description says %q", verb)
	}
	for i := range t.Parameters {
		parameterSays(&t.Parameters[i], object)
	}
	if o := t.Operation; o != nil && o.Method != "GET" && o.Method != "HEAD" {
		object("it is a %s request", o.Method)
	}
	h := t.Hints
	if h.ReadOnly != nil && !*h.ReadOnly {
		object("the server says that it is not read-only")
	}
	if h.Destructive != nil && *h.Destructive && (h.ReadOnly == nil || !*h.ReadOnly) {
		object("the server says that it may destroy")
	}
	hinted := h.ReadOnly != nil && *h.ReadOnly
	if len(against) > 0 {
		if hinted && trust {
			against = append(against, "the server's hint that it only reads contradicts that")
		}
		return judged{pawl.Unsafe, against}
	}
	var reasons []string
	if i := viewIn(name); said == "" && i >= 0 && looks(first(t.Description)) {
		said = fmt.Sprintf("its name has the word %q and its description begins with %q", name[i], first(t.Description))
	}
	if said == "" && t.Operation != nil {
		said = "it is a " + t.Operation.Method + " request"
	}
	if said != "" {
		reasons = append(reasons, said)
	}
	if hinted && trust {
		reasons = append(reasons, "the server says that it is read-only, and its hints are trusted")
	}
	if len(reasons) == 0 {
		reason := "no word of its name says that it only reads"
		if hinted {
			reason += ", and a hint of the server alone is no licence"
		}
		return judged{pawl.Unsafe, []string{reason}}
	}
	return judged{pawl.Read, append(reasons, "nothing that is known of it speaks of a change")}
}

// viewIn is the place of a word in a name that, with a description that agrees, says that
// the tool looks; -1 where there is none.
func viewIn(name []string) int {
	if i := slices.IndexFunc(name, looks); i >= 0 || len(name) == 0 {
		return i
	}
	if last := len(name) - 1; views[name[last]] {
		return last
	}
	return -1
}

// nameSays returns what a name says for a read, if it begins with a verb of looking, and
// objects to what it says of a change.
func nameSays(name []string, object func(string, ...any)) string {
	if len(name) == 0 {
		return ""
	}
	for i, w := range name {
		joined := i > 0 && (name[i-1] == "and" || name[i-1] == "or" || name[i-1] == "then")
		noun := i > 0 && i == len(name)-1 && nouns[w] && reading[name[0]] && !joined
		switch {
		case i == 0 && !reading[w] && changes(w):
			object("its name begins with %q", w)
		case writing[w] && !noun, handedOut[w]:
			object("its name has the word %q", w)
		case joined && !reading[w]:
			object("its name goes on with %q", w)
		case w == "next" && i+1 < len(name) && name[i+1] != "page":
			object("its name has the word %q: taking the next one may use it up", w)
		}
	}
	if !reading[name[0]] {
		return ""
	}
	if name[0] == "check" && len(name) > 1 && slices.Contains([]string{"in", "out", "off"}, name[1]) {
		object("its name begins with %q", name[0]+" "+name[1])
		return ""
	}
	return fmt.Sprintf("its name begins with %q", name[0])
}

// parameterSays objects to a parameter that no look has.
func parameterSays(p *Parameter, object func(string, ...any)) {
	name := split(p.Name)
	if len(name) == 0 {
		return
	}
	joined := strings.Join(name, "_")
	if switching[joined] {
		if len(p.Enum) == 0 && p.Type != "boolean" && p.Type != "integer" {
			object("its argument %s may ask for anything", p.Name)
		}
		for _, value := range p.Enum {
			change := false
			nameSays(split(value), func(string, ...any) { change = true })
			if change {
				object("its argument %s may be %q", p.Name, value)
			}
		}
		return
	}
	switch {
	case program[joined]:
		object("its argument %s is a program to run", p.Name)
	case output[joined]:
		object("its argument %s names a place to write to", p.Name)
	case p.Type == "boolean" && (writing[name[0]] || demands[name[0]]):
		object("its argument %s asks for a change", p.Name)
	}
}

// first is the first word of a description that is no article; "Tools for listing" begins
// with "listing".
func first(description string) string {
	list := clauses(description)
	if len(list) == 0 {
		return ""
	}
	for _, w := range list[0].words[:min(6, len(list[0].words))] {
		switch w {
		case "a", "an", "the", "this", "tool", "tools", "for", "to", "use", "used", "it", "fast", "and":
		default:
			return w
		}
	}
	return ""
}

// commonPrefix counts the words that all names begin with, such as the server's own in
// git_log and git_commit. A verb is none, and each name keeps a word.
func commonPrefix(tools []Tool) int {
	if len(tools) < 3 {
		return 0
	}
	shared := split(tools[0].Name)
	for i := range tools {
		name := split(tools[i].Name)
		n := 0
		for n < len(shared) && n < len(name)-1 && shared[n] == name[n] {
			n++
		}
		shared = shared[:n]
	}
	for n, w := range shared {
		if looks(w) || changes(w) {
			return n
		}
	}
	return len(shared)
}
