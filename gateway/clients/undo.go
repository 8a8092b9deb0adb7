package clients

import (
	"net/url"
	"slices"
	"strings"
)

// Remove takes pawl away from every server that Install put it in front of: the command
// that stands in the arguments becomes the command again. The URL that a server had cannot
// be told from the file, so it comes from the earlier text, nil where there is none.
func (f *File) Remove(earlier *File) *Change {
	c := &Change{}
	var edits []edit
	for i, s := range f.Servers() {
		e := f.servers[i]
		out := Outcome{Server: s.Name, Line: s.Line, What: Skipped, Why: "pawl is not in front of it"}
		switch old := earlier.server(s.Name); {
		case s.Installed:
			own := slices.Index(s.Args, "--") + 1
			if own == 0 || own == len(s.Args) {
				out.Why = "its arguments do not name the command that pawl starts"
				break
			}
			out.What, out.Why = Unwrapped, ""
			edits = append(edits, f.unwrap(e, own)...)
			out.Before = blot(append([]string{s.Command}, s.Args...))
			out.After = out.Before[own+1:]
		case e.redirected(old):
			out.What, out.Why = Unwrapped, ""
			edits = append(edits, edit{e.url.start, e.url.end, string(earlier.text[old.url.start:old.url.end])})
			if now, before := e.table.member("type"), old.table.member("type"); now != nil && before != nil {
				edits = append(edits, edit{now.start, now.end, string(earlier.text[before.start:before.end])})
			}
			out.Before, out.After = []string{blotURL(e.url.text)}, []string{blotURL(old.url.text)}
		}
		c.Servers = append(c.Servers, out)
	}
	c.Text = apply(f.text, edits)
	return c
}

// redirected reports whether the URL is one that Install wrote in the place of another.
func (e *entry) redirected(old *entry) bool {
	end := "/" + url.PathEscape(e.name)
	return e.url != nil && old != nil && old.url != nil && strings.HasSuffix(e.url.text, end) && !strings.HasSuffix(old.url.text, end)
}

// server finds a server by its name, in a file that may be nil.
func (f *File) server(name string) *entry {
	if f == nil {
		return nil
	}
	i := slices.IndexFunc(f.servers, func(e *entry) bool { return e.name == name })
	if i < 0 {
		return nil
	}
	return f.servers[i]
}

// unwrap are the edits that undo those of wrap; own is the place of the server's own
// command among the arguments.
func (f *File) unwrap(e *entry, own int) []edit {
	items := e.args.items
	edits := []edit{{e.command.start, e.command.end, string(f.text[items[own].start:items[own].end])}}
	if own+1 < len(items) {
		// What stands between the last word of ours and the first that stays goes as far as
		// wrap wrote it.
		end := items[own].end
		rest := string(f.text[end:items[own+1].start])
		if cut, ok := strings.CutPrefix(rest, ", "); ok {
			end += len(rest) - len(cut)
		} else {
			end += strings.IndexByte(rest, ',') + 1
		}
		return append(edits, edit{items[0].start, end, ""})
	}
	// Nothing stays. Where wrap wrote the whole list it goes as a whole.
	at, before := f.ownArgs(e)
	list := "[" + string(f.text[items[0].start:items[own].end]) + "]"
	if string(f.text[e.args.start:e.args.end]) == list && e.args.start == at+len(before) && string(f.text[at:e.args.start]) == before {
		return append(edits, edit{at, e.args.end, ""})
	}
	return append(edits, edit{items[0].start, items[own].end, ""})
}
