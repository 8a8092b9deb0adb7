package draft

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// YAML is the contract file. It loads, and lint warns of each tool that nobody confirmed.
func (d *Draft) YAML() []byte {
	w := &writer{}
	from := ""
	if d.options.From != "" {
		from = " from " + d.options.From
	}
	w.comment("", fmt.Sprintf("Drafted by pawl init%s. Tools drafted as read: %d, as unsafe: %d.", from, d.Reads, d.Effects))
	w.comment("", "A draft is a guess. Check what it says of a tool, turn what you know into terms, then remove the tool's line \"draft: true\". \"pawl lint\" lists what is left.")
	w.line("version: 1")
	w.line("")
	w.line("upstreams:")
	d.options.Server.write(w)
	w.line("")
	w.line("tools:")
	declared := false
	for i := range d.Tools {
		if i > 0 {
			w.line("")
		}
		if why := d.Tools[i].leftOut(); why != "" {
			w.comment("  ", "confirm: "+d.Tools[i].Tool+" is left out: "+why+".")
			continue
		}
		declared = true
		d.tool(w, &d.Tools[i])
	}
	if !declared {
		w.line("  {}")
	}
	return []byte(w.b.String())
}

func (d *Draft) tool(w *writer, e *Entry) {
	w.line("  " + scalar(e.Tool) + ":")
	w.comment("    ", "confirm: "+string(e.Class)+", because "+strings.Join(e.Reasons, "; ")+".")
	w.line("    draft: true")
	w.line("    upstream: " + scalar(d.Upstream))
	w.line("    class: " + string(e.Class))
	if e.operation != nil {
		e.request(w)
	}
	if e.Class == pawl.Read {
		return
	}
	w.line("    effect: " + quoted(e.Effect))
	d.identity(w, e)
	if s := e.Suggested; s != nil && s.Class == pawl.Keyed {
		w.comment("    ", "suggestion: keyed, because "+s.Why+". Confirm it only with the provider's word on how long a key lives:")
		w.line("    # class: keyed")
		switch e.key.In {
		case "header":
			w.line("    # key: {carrier: header, name: " + scalar(e.key.Name) + "}")
		case "body":
			w.line("    # key: {carrier: json_pointer, name: " + scalar("/"+e.key.Name) + "}")
		case "query":
			w.line("    # key: {carrier: query, name: " + scalar(e.key.Name) + "}")
		default:
			w.line("    # key: {carrier: argument, name: " + scalar("/"+e.key.Name) + "}")
		}
		w.line("    # retention: 24h")
	} else if s != nil {
		w.comment("    ", "suggestion: "+string(s.Class)+", because "+s.Why+", if a second identical call leaves the same state.")
	}
	d.cases(w, e)
	if len(e.Probes) > 0 {
		w.comment("    ", "suggestion: could be a probe: "+strings.Join(e.Probes, ", ")+".")
	} else {
		w.comment("    ", "no read of the list shows whether this happened: every UNKNOWN of it goes to a person.")
	}
	if len(e.Compensations) > 0 {
		w.comment("    ", "suggestion: could undo it: "+strings.Join(e.Compensations, ", ")+".")
	} else {
		w.comment("    ", "no tool of the list undoes it: set irreversible: true where nothing else does.")
	}
}

// pathForm is a path that a contract file can have.
var pathForm = regexp.MustCompile(`^(/([A-Za-z0-9._~!$&'()*+,;=:@-]|\{[^{}/]+\})*)+$`)

// leftOut says why a tool cannot be declared.
func (e *Entry) leftOut() string {
	switch o := e.operation; {
	case o == nil:
	case !pathForm.MatchString(o.Path) || strings.Contains(o.Path, "/../") || strings.HasSuffix(o.Path, "/.."):
		return "its path is none that a request can be made of"
	case e.Class != pawl.Read && (o.Method == "GET" || o.Method == "HEAD"):
		return "it is a " + o.Method + " request, which nothing with an effect is, and yet " + strings.Join(e.Reasons, "; ")
	case o.Method == "HEAD":
		return "the answer of a HEAD request says nothing"
	}
	return ""
}

// request writes the request of an HTTP operation.
func (e *Entry) request(w *writer) {
	w.line("    request:")
	w.line("      method: " + e.operation.Method)
	path := e.operation.Path
	var query, body []Parameter
	for _, p := range e.parameters {
		switch p.In {
		case "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", "{"+argument(p.Name, true)+"}")
		case "query":
			query = append(query, p)
		case "body":
			if e.key == nil || e.key.Name != p.Name {
				body = append(body, p)
			}
		}
	}
	w.line("      path: " + quoted(path))
	if len(query) > 0 {
		w.line("      query:")
		for _, p := range query {
			w.line("        " + scalar(p.Name) + ": " + quoted(argument(p.Name, p.Required)))
		}
	}
	switch {
	case !e.operation.HasBody:
	case e.operation.Whole:
		w.line("      body: args.body")
	default:
		w.line("      body:")
		for _, p := range body {
			w.line("        " + scalar(p.Name) + ": " + quoted(argument(p.Name, p.Required)))
		}
	}
}

// argument is CEL for an argument; one that is not required may be absent.
func argument(name string, required bool) string {
	optional := "?"
	if required {
		optional = ""
	}
	if identifier.MatchString(name) {
		return "args." + optional + name
	}
	return "args[" + optional + quoted(name) + "]"
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// caseName is a value that can name a case and stand in a CEL text.
var caseName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// cases suggests a contract for each thing that a tool does.
func (d *Draft) cases(w *writer, e *Entry) {
	c := e.Chooses
	if c == nil || !caseName.MatchString(c.Argument) || strings.Contains(c.Argument, "-") {
		return
	}
	w.comment("    ", "suggestion: "+c.Argument+" chooses what the tool does. A contract for each, in the place of class and identity:")
	w.line("    # when:")
	for _, v := range c.Values {
		if !caseName.MatchString(v) {
			continue
		}
		change := false
		if said := nameSays(split(v), func(string, ...any) { change = true }); said != "" && !change {
			w.line(fmt.Sprintf("    #   %s: {if: args.%s == '%s', class: read}", scalar(v), c.Argument, v))
			continue
		}
		var fields []string
		for _, f := range e.Identity.Fields {
			if f.Name != c.Argument && !f.Optional {
				fields = append(fields, scalar(f.Name)+": "+scalar(f.Rule))
			}
		}
		identity := "all"
		if len(fields) > 0 {
			identity = "{" + strings.Join(fields, ", ") + "}"
		}
		w.line(fmt.Sprintf("    #   %s: {if: args.%s == '%s', identity: %s}", scalar(v), c.Argument, v, identity))
	}
}

func (d *Draft) identity(w *writer, e *Entry) {
	switch g := &e.Identity; {
	case g.Whole == "none":
		w.comment("    ", "confirm: no argument tells one such effect from another, so it happens once in a run.")
		w.line("    identity: none")
	case g.Whole == "all":
		w.comment("    ", "confirm: nothing is known of the arguments, so all of them are the identity. The same intention in other words would be a second effect.")
		w.line("    identity: all")
	default:
		w.comment("    ", "confirm: these arguments make two calls the same intention. Any other argument may not differ between them.")
		w.line("    identity:")
		for _, f := range g.Fields {
			if f.Optional {
				w.line("      " + scalar(f.Name) + ": {rule: " + scalar(f.Rule) + ", optional: true}")
			} else {
				w.line("      " + scalar(f.Name) + ": " + scalar(f.Rule))
			}
		}
	}
	if len(e.Identity.Prose) > 0 {
		w.comment("    ", "confirm: left out as prose, which a model words anew each time: "+strings.Join(e.Identity.Prose, ", ")+".")
	}
}

// writer writes lines; long comments are broken between words.
type writer struct{ b strings.Builder }

func (w *writer) line(text string) {
	w.b.WriteString(text)
	w.b.WriteByte('\n')
}

const commentWidth = 96

func (w *writer) comment(indent, text string) {
	line := indent + "#"
	for word := range strings.FieldsSeq(printable(text)) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > commentWidth && line != indent+"#" {
			w.line(line)
			line = indent + "#"
		}
		line += " " + word
	}
	w.line(line)
}

// printable replaces what has no place in a line of a text file.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// simple are texts that YAML takes for themselves without quotes.
var simple = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./()-]*$`)

// scalar writes a text, in quotes where YAML would read it as something else.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return quoted(s)
	}
	if simple.MatchString(s) {
		return s
	}
	return quoted(s)
}

// quoted writes a text in double quotes with the escapes that YAML and JSON share.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// placeholder reports whether {name} in an effect's text stands for an argument.
func placeholder(name string) bool {
	return simple.MatchString(name) && !strings.ContainsAny(name, "/()")
}
