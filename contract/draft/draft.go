package draft

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Options of New. Nil and zero fields mean the defaults.
type Options struct {
	// Server is whose tools they are.
	Server Server
	// From says in the file's head what it was drafted from.
	From string
	// TrustHints counts the server's hint that a tool only reads.
	TrustHints bool
}

// Draft is a contract file to be confirmed by a person.
type Draft struct {
	Upstream string `json:"upstream"`
	// Tools are in the order of their names.
	Tools []Entry `json:"tools"`
	Reads int     `json:"reads"`
	// Effects is the number of tools that are drafted as unsafe.
	Effects int `json:"effects"`

	options Options
}

// Entry is what was drafted for one tool, and why.
type Entry struct {
	// Tool is the name in the file.
	Tool  string     `json:"tool"`
	Class pawl.Class `json:"class"`
	// Reasons are phrases that speak for the class, the weightiest first.
	Reasons []string `json:"reasons"`
	// Identity is none, all, or the rule of each field; a rule that ends in "?" is of an
	// optional field. It is empty for a read, as is all that follows.
	Identity IdentityGuess `json:"identity,omitzero"`
	Effect   string        `json:"effect,omitempty"`
	// Suggested is the class that a person may turn the tool into, and why.
	Suggested *Suggestion `json:"suggested,omitempty"`
	// Probes and Compensations name tools that could be one.
	Probes        []string `json:"probes,omitempty"`
	Compensations []string `json:"compensations,omitempty"`
	// Chooses is the argument that selects what the tool does, with its values.
	Chooses *Choice `json:"chooses,omitempty"`

	operation  *Operation
	parameters []Parameter
	key        *Parameter
}

// IdentityGuess is the identity that a tool is drafted with.
type IdentityGuess struct {
	// Whole is none or all where no fields are listed.
	Whole  string       `json:"whole,omitempty"`
	Fields []FieldGuess `json:"fields,omitempty"`
	// Prose are arguments that were left out because a model words them anew each time.
	Prose []string `json:"prose,omitempty"`
}

// FieldGuess is one identity field and its canonicaliser.
type FieldGuess struct {
	Name     string `json:"name"`
	Rule     string `json:"rule"`
	Optional bool   `json:"optional,omitempty"`
}

// Suggestion is a class to confirm.
type Suggestion struct {
	Class pawl.Class `json:"class"`
	Why   string     `json:"why"`
}

// Choice is an argument that selects what a tool does.
type Choice struct {
	Argument string   `json:"argument"`
	Values   []string `json:"values"`
}

// New drafts a contract for each tool. The tools have names that differ.
func New(tools []Tool, o *Options) (*Draft, error) {
	d := &Draft{}
	if o != nil {
		d.options = *o
	}
	if d.options.Server.Name == "" {
		d.options.Server.Name = "server"
	}
	if d.options.Server.HTTP && d.options.Server.URL == "" {
		return nil, errors.New("the document names no server that tools could call: give its URL")
	}
	if err := d.options.Server.check(); err != nil {
		return nil, err
	}
	d.Upstream = d.options.Server.Name
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	prefix := commonPrefix(tools)
	all := make([]drafted, len(tools))
	for i := range tools {
		all[i] = drafted{tools[i], judge(&tools[i], prefix, d.options.TrustHints)}
	}
	for i := range all {
		e := d.entry(&all[i], all, prefix)
		if len(e.Tool) > 128 {
			return nil, fmt.Errorf("the name %q is longer than the 128 characters that a tool may have: choose a shorter name for the upstream", shorten(e.Tool))
		}
		if d.Tools = append(d.Tools, e); e.Class == pawl.Read {
			d.Reads++
		} else {
			d.Effects++
		}
	}
	return d, nil
}

// drafted is a tool and its class.
type drafted struct {
	tool   Tool
	judged judged
}

func (d *Draft) entry(t *drafted, all []drafted, prefix int) Entry {
	e := Entry{Tool: d.name(t.tool.Name), Class: t.judged.class, Reasons: t.judged.reasons, operation: t.tool.Operation}
	e.parameters = t.tool.Parameters
	if e.Class == pawl.Read {
		return e
	}
	g := guess(&t.tool)
	e.Identity = IdentityGuess{Whole: g.whole, Prose: g.prose}
	for _, f := range g.fields {
		e.Identity.Fields = append(e.Identity.Fields, FieldGuess{f.name, f.rule, f.optional})
	}
	e.Effect = effectOf(&t.tool, g, prefix)
	if s := suggest(&t.tool, prefix); s != nil {
		e.Suggested = &Suggestion{s.class, s.why}
	}
	for i := range t.tool.Parameters {
		p := &t.tool.Parameters[i]
		if isKey(p) && e.key == nil {
			e.key = p
		}
		if switching[strings.Join(split(p.Name), "_")] && len(p.Enum) > 1 && e.Chooses == nil {
			e.Chooses = &Choice{p.Name, p.Enum}
		}
	}
	for _, n := range probes(&t.tool, all, prefix) {
		e.Probes = append(e.Probes, d.name(n))
	}
	for _, n := range compensations(&t.tool, all, prefix) {
		e.Compensations = append(e.Compensations, d.name(n))
	}
	return e
}

// name is what callers use.
func (d *Draft) name(tool string) string { return d.Upstream + "/" + tool }

// maxMentioned bounds the arguments in an effect's text.
const maxMentioned = 4

// effectOf words an effect: the tool's name and the fields that tell it from others.
func effectOf(t *Tool, g guessed, prefix int) string {
	name := split(t.Name)
	if len(name) > prefix {
		name = name[prefix:]
	}
	text := strings.Join(name, " ")
	var mentioned []string
	for _, f := range g.fields {
		if !f.optional && !strings.HasPrefix(f.rule, "multiset") && len(mentioned) < maxMentioned && placeholder(f.name) {
			mentioned = append(mentioned, f.name)
		}
	}
	if len(mentioned) == 1 {
		return text + " {" + mentioned[0] + "}"
	}
	for i, f := range mentioned {
		mentioned[i] = strings.Join(split(f), " ") + " {" + f + "}"
	}
	if len(mentioned) > 0 {
		text += ": " + strings.Join(mentioned, ", ")
	}
	return text
}
