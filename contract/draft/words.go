package draft

import (
	"slices"
	"strings"
	"unicode"
)

// words of a list separated by spaces.
func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

var (
	// reading are the verbs that only look.
	reading = words(`browse calculate cat check compare compute count describe diff discover echo
		enumerate explain fetch find get glob grep head inspect list locate lookup ls peek ping preview
		read retrieve search show stat tail view whoami`)

	// writing are verbs that no look has among the words of its name.
	writing = words(`add append assign attach cancel clear create delete destroy detach drop
		edit enqueue execute insert invoke modify move mutate overwrite patch post publish purge push
		put remove rename replace reset save send set submit toggle trigger truncate unassign unset
		update upload upsert write`)

	// effecting are the other verbs that say in a description that something changes.
	// A verb that is mostly a noun or an adjective in English is not among them.
	effecting = words(`activate adjust allocate allow append apply approve archive associate authorize
		ban block book build buy charge claim close commit complete consume copy deactivate decline decrement
		deploy deposit dequeue disable dismiss disconnect dispatch duplicate email enable enroll
		exchange expire fork grant ignore import increment initiate install kick launch lock make mark
		merge migrate mute notify pause pay pin place pop promote provision queue
		reactivate rebuild reboot record refund register reject renew reopen reply reprioritize
		reserve resend resolve restart restore resume revert revoke rollback rotate run scale
		schedule share ship sign spawn star start stop store subscribe suspend sync terminate transfer
		transition trash unarchive unblock uninstall unlock unpin unresolve unstar unsubscribe
		upgrade vote withdraw`)

	// nouns are those of the verbs of change that end a name as a noun, as in get_last_update.
	nouns = words(`edit move patch post update`)

	// handedOut are things that are made when they are asked for.
	handedOut = words(`coupon invite link otp presigned token upload voucher`)

	// switching are parameters that choose what a tool does.
	switching = words(`action command method mode op operation verb`)

	// program are parameters that are a program for the server to run.
	program = words(`bash cmd code command graphql javascript mutation python script shell sql
		statement statements`)

	// output are parameters that name a place to write to.
	output = words(`outfile output_file output_path outputfile outputpath save_path
		savepath save_to saveto target_path targetpath`)

	// views are nouns that a whole name, or its last word, may be of a tool that looks, where
	// its description begins with a verb of looking.
	views = words(`blame history info log reflog stats status tree version`)

	// demands are verbs that ask for a change in the name of a switch, beside those of writing.
	demands = words(`apply commit consume lock mark notify register store`)

	negation = words(`cannot doesn't don't never no not won't without`)
	modal    = words(`also and automatically can may might must optionally or shall should then will`)
	// following are words before which a word that could be a verb is a noun.
	following = words(`about and as at by for from in into is of on or that to was were which with`)
)

// changes reports whether a word is a verb of change in a description: as it stands, or
// with the s of the third person.
func changes(word string) bool {
	if writing[word] || effecting[word] {
		return true
	}
	for _, end := range []struct{ cut, put string }{{"s", ""}, {"es", ""}, {"ies", "y"}} {
		if base, ok := strings.CutSuffix(word, end.cut); ok && (writing[base+end.put] || effecting[base+end.put]) {
			return true
		}
	}
	return false
}

// looks reports whether a word is a verb of looking, as it stands, with s, or with ing.
func looks(word string) bool {
	if reading[word] {
		return true
	}
	for _, end := range []string{"s", "es", "ing"} {
		if base, ok := strings.CutSuffix(word, end); ok && (reading[base] || reading[base+"e"]) {
			return true
		}
	}
	return false
}

// split cuts a name into its words in lower case: at signs, and where a small letter or
// digit is followed by a capital.
func split(name string) []string {
	var all []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			all = append(all, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word.WriteRune(r)
	}
	end()
	return all
}

// clause is a piece of a description: words in lower case between two marks.
type clause struct {
	words []string
	// first: it begins a sentence.
	first bool
}

// clauses cuts a description into its clauses.
func clauses(text string) []clause {
	var all []clause
	current := clause{first: true}
	var word strings.Builder
	endWord := func() {
		if w := strings.Trim(word.String(), "'"); w != "" {
			current.words = append(current.words, w)
		}
		word.Reset()
	}
	end := func(sentence bool) {
		endWord()
		if len(current.words) > 0 {
			all = append(all, current)
			current = clause{}
		}
		current.first = current.first || sentence
	}
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' || r == '’':
			if r == '’' {
				r = '\''
			}
			word.WriteRune(unicode.ToLower(r))
		case r == '-' || r == '_' || r == '`' || r == '"':
			// "re-run" and "tool_name" are one word, which is then no verb known here.
			if word.Len() > 0 && r != '`' && r != '"' {
				word.WriteRune(r)
			}
		case (r == '.' || r == '!' || r == '?' || r == ':') && (i+1 == len(runes) || unicode.IsSpace(runes[i+1])), r == '\n' && i+1 < len(runes) && (runes[i+1] == '\n' || runes[i+1] == '-' || runes[i+1] == '*'):
			end(true)
		case r == ',' || r == ';' || r == '(' || r == ')' || r == '—' || r == '–':
			end(false)
		default:
			endWord()
		}
	}
	end(true)
	return all
}

// changing finds a verb of change in a description: at the beginning of a clause, or after
// a word such as also, then or will. A clause with a negation has none, and neither has a
// word that something is told of, as in "comments and updates on issues".
func changing(text string) string {
	for _, c := range clauses(text) {
		if slices.ContainsFunc(c.words, func(w string) bool { return negation[w] }) {
			continue
		}
		for i, w := range c.words {
			if !changes(w) {
				continue
			}
			noun := i+1 < len(c.words) && following[c.words[i+1]] && !(i == 0 && c.first)
			alone := i+1 == len(c.words) && !(i == 0 && c.first)
			switch {
			case noun || alone:
			case i == 0, modal[c.words[i-1]], i >= 2 && told(c.words[:i]):
				return w
			}
		}
	}
	return ""
}

// told reports whether the words before a verb say that the tool does it: "this tool",
// "it", or "use this tool to".
func told(before []string) bool {
	n := len(before)
	switch before[n-1] {
	case "tool", "function", "call", "it", "this":
		return true
	case "to":
		return n >= 3 && slices.Contains(before[:n-1], "use") && (before[n-2] == "this" || before[n-2] == "tool")
	}
	return false
}
