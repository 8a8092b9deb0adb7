package clients

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/contract/draft"
)

// Imported is one server of a client's file as a contract file declares it.
type Imported struct {
	Server draft.Server
	// From is its name in the client's file.
	From string
	// Needs names the variables that pawl's own environment must have, in alphabetical order.
	Needs []string
	// Skipped says why it cannot be declared; Server then has its name alone.
	Skipped string
}

// variable is a reference to a variable as clients write it: ${env:NAME}, ${NAME},
// ${NAME:-default}, or ${input:name}.
var variable = regexp.MustCompile(`\$\{(?:(env|input):)?([A-Za-z0-9_.-]+)(:-[^}]*)?\}`)

// Import declares the servers of the file. Values of variables and headers are never taken
// over: the declaration names a variable of pawl's own environment instead.
func (f *File) Import() []Imported {
	var all []Imported
	taken := map[string]bool{}
	for _, s := range f.Servers() {
		i := Imported{From: s.Name, Server: draft.Server{Name: nameFor(s.Name, taken)}}
		if s.Installed {
			own := slices.Index(s.Args, "--") + 1
			if own == 0 || own == len(s.Args) {
				i.Skipped = "pawl is in front of it, and its arguments do not name the command that pawl starts"
				all = append(all, i)
				continue
			}
			s.Command, s.Args = s.Args[own], s.Args[own+1:]
		}
		switch {
		case s.Odd != "":
			i.Skipped = s.Odd
		case s.Command != "":
			i.command(&s)
		default:
			i.address(&s)
		}
		slices.Sort(i.Needs)
		i.Needs = slices.Compact(i.Needs)
		if i.Skipped == "" && len(i.Needs) > 0 {
			i.Server.Notes = append(i.Server.Notes, "confirm: pawl's own environment has "+strings.Join(i.Needs, ", ")+".")
		}
		all = append(all, i)
	}
	return all
}

func (i *Imported) command(s *Server) {
	words := append([]string{s.Command}, s.Args...)
	if slices.ContainsFunc(blotted(words), func(hidden bool) bool { return hidden }) {
		i.Skipped = "an argument looks like a secret, and a contract file holds none: pass it in a variable"
		return
	}
	if slices.ContainsFunc(words, reference.MatchString) {
		i.Skipped = "an argument names a variable of the client's own, which pawl cannot know: write the value or pass it in a variable"
		return
	}
	i.Server.Command, i.Server.Dir = words, s.Dir
	if reference.MatchString(s.Dir) {
		i.Server.Dir = ""
		i.Server.Notes = append(i.Server.Notes, "confirm: the folder that the server runs in is named by a variable of the client.")
	}
	i.Server.Env = map[string]string{}
	for name, value := range s.Env {
		if !plainVariable.MatchString(name) {
			i.Skipped = fmt.Sprintf("the variable %q has a name that no environment has", printable(name))
			return
		}
		i.Server.Env[name] = i.need(referenced(value, name))
	}
}

// plainVariable is the name of a variable.
var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// need remembers a variable and writes a reference to it.
func (i *Imported) need(name string) string {
	i.Needs = append(i.Needs, name)
	return "${env:" + name + "}"
}

// referenced is the variable that a value names as a whole, or else own.
func referenced(value, own string) string {
	if m := variable.FindStringSubmatch(value); m != nil && m[0] == value && m[1] != "input" && plainVariable.MatchString(m[2]) {
		return m[2]
	}
	return own
}

// blotted tells for each word whether it may be a secret.
func blotted(words []string) []bool {
	shown := blot(words)
	out := make([]bool, len(words))
	for i := range words {
		out[i] = shown[i] != words[i]
	}
	return out
}

func (i *Imported) address(s *Server) {
	u, err := url.Parse(s.URL)
	switch {
	case reference.MatchString(s.URL):
		i.Skipped = "its URL names a variable of the client's own, which pawl cannot know"
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		i.Skipped = "its URL is none of http or https"
	case u.User != nil || u.RawQuery != "" || blotURL(s.URL) != u.String():
		i.Skipped = "its URL may hold a secret, and a contract file holds none: pass it in a header"
	case u.Fragment != "":
		i.Skipped = "its URL has a fragment"
	}
	if i.Skipped != "" {
		return
	}
	i.Server.URL, i.Server.Headers = s.URL, map[string]string{}
	for name, value := range s.Headers {
		scheme, rest, ok := strings.Cut(value, " ")
		if !ok || !plainVariable.MatchString(scheme) {
			scheme, rest = "", value
		}
		i.Server.Headers[name] = strings.TrimSpace(scheme + " " + i.need(referenced(rest, variableFor(i.Server.Name, name))))
	}
	for name, v := range s.Variables {
		i.Server.Headers[name] = i.need(referenced("${"+v+"}", variableFor(i.Server.Name, name)))
	}
	if s.Bearer != "" {
		i.Server.Headers["Authorization"] = "Bearer " + i.need(referenced("${"+s.Bearer+"}", variableFor(i.Server.Name, "Authorization")))
	}
}

// variableFor makes a variable's name of a server's and a header's: GITHUB_AUTHORIZATION.
func variableFor(server, header string) string {
	name := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(server+"_"+header))
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// nameFor makes a server's name one that a contract file can have, and that none has yet.
func nameFor(name string, taken map[string]bool) string {
	base := strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, name), "-_")
	if base == "" {
		base = "server"
	}
	base = base[:min(len(base), 48)]
	for n := 1; ; n++ {
		one := base
		if n > 1 {
			one = fmt.Sprintf("%s-%d", base, n)
		}
		if !taken[one] {
			taken[one] = true
			return one
		}
	}
}
