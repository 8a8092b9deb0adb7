package draft

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// maxSiblings bounds how many tools are suggested for one purpose.
const maxSiblings = 3

// opposites are pairs of verbs of which each undoes the other.
var opposites = [][2]string{
	{"add", "remove"}, {"add", "delete"}, {"archive", "unarchive"}, {"archive", "restore"}, {"assign", "unassign"},
	{"attach", "detach"}, {"block", "unblock"}, {"book", "cancel"}, {"close", "reopen"}, {"create", "cancel"},
	{"create", "delete"}, {"create", "remove"}, {"create", "void"}, {"disable", "enable"}, {"follow", "unfollow"},
	{"grant", "revoke"}, {"install", "uninstall"}, {"lock", "unlock"}, {"mute", "unmute"}, {"open", "close"},
	{"pause", "resume"}, {"pay", "refund"}, {"charge", "refund"}, {"pin", "unpin"}, {"place", "cancel"},
	{"reserve", "release"}, {"reserve", "cancel"}, {"resolve", "unresolve"}, {"schedule", "cancel"},
	{"star", "unstar"}, {"start", "stop"}, {"submit", "withdraw"}, {"subscribe", "unsubscribe"}, {"delete", "restore"},
}

// probes lists the reads of the list that could show whether a tool had its effect: reads
// about the same thing whose required arguments the tool has. The best comes first.
func probes(t *Tool, all []drafted, prefix int) []string {
	things := thingsOf(t, prefix)
	type candidate struct {
		name  string
		score int
	}
	var found []candidate
	for i := range all {
		r := &all[i]
		if r.judged.class != pawl.Read || r.tool.Name == t.Name {
			continue
		}
		shared, missing, own := 0, false, 0
		for _, p := range r.tool.Parameters {
			has := t.parameter(p.Name) != nil
			if p.Required && !has && !switching[p.Name] {
				missing = true
			}
			if p.Required && has {
				own++
			}
		}
		for w := range thingsOf(&r.tool, prefix) {
			if things[w] {
				shared++
			}
		}
		if missing || shared == 0 || own == 0 && len(required(&r.tool)) > 0 {
			continue
		}
		found = append(found, candidate{r.tool.Name, 4*shared + own - len(thingsOf(&r.tool, prefix))})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return b.score - a.score })
	var names []string
	for _, c := range found[:min(len(found), maxSiblings)] {
		names = append(names, c.name)
	}
	return names
}

func required(t *Tool) []Parameter {
	return slices.DeleteFunc(slices.Clone(t.Parameters), func(p Parameter) bool { return !p.Required })
}

// compensations lists the tools of the list whose name is that of this one with the
// opposite verb.
func compensations(t *Tool, all []drafted, prefix int) []string {
	name := split(t.Name)
	if len(name) <= prefix {
		return nil
	}
	verb, rest := name[prefix], strings.Join(singulars(name[prefix+1:]), " ")
	var names []string
	for i := range all {
		other := split(all[i].tool.Name)
		if len(other) <= prefix || strings.Join(singulars(other[prefix+1:]), " ") != rest {
			continue
		}
		if slices.ContainsFunc(opposites, func(o [2]string) bool {
			return o == [2]string{verb, other[prefix]} || o == [2]string{other[prefix], verb} && undoesBoth(o)
		}) && len(names) < maxSiblings {
			names = append(names, all[i].tool.Name)
		}
	}
	return names
}

// undoesBoth reports whether the first verb of a pair also undoes the second: what was
// deleted is not made again by creating another one.
func undoesBoth(o [2]string) bool {
	switch o[0] {
	case "create", "book", "pay", "charge", "place", "reserve", "schedule", "submit":
		return false
	}
	return o != [2]string{"add", "delete"}
}

// fillers are words of a name that say nothing of the thing.
var fillers = words(`a all by details details for from in info information of on or pending the to with`)

// thingsOf are the words of a tool's name that say what it is about, in the singular.
func thingsOf(t *Tool, prefix int) map[string]bool {
	name := split(t.Name)
	if len(name) > prefix {
		name = name[prefix:]
	}
	things := map[string]bool{}
	for _, w := range singulars(name) {
		if !reading[w] && !writing[w] && !effecting[w] && !fillers[w] {
			things[w] = true
		}
	}
	return things
}

func singulars(ws []string) []string {
	out := make([]string, len(ws))
	for i, w := range ws {
		switch {
		case strings.HasSuffix(w, "ies") && len(w) > 4:
			w = w[:len(w)-3] + "y"
		case strings.HasSuffix(w, "ses") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "xes"):
			w = w[:len(w)-2]
		case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && len(w) > 3:
			w = w[:len(w)-1]
		}
		out[i] = w
	}
	return out
}
