package contract

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// store reads where the operations are kept: the path of a file, or the URL of a database,
// in which credentials are references.
func (c *compiler) store(text string) (parts []part) {
	for rest := text; rest != ""; {
		before, _, found := strings.Cut(rest, "${")
		if before != "" {
			parts = append(parts, part{text: before})
		}
		rest = rest[len(before):]
		if !found {
			break
		}
		r, after, problem := cutReference(rest)
		if problem != "" {
			c.fail("/store", "%s", problem)
			return nil
		}
		parts, rest = append(parts, part{ref: &r}), after
	}
	if writtenOut.MatchString(text) {
		c.fail("/store", "a credential is never written into the file: put it into the environment or a file and write ${env:NAME} or ${file:/path}")
	}
	return parts
}

// writtenOut finds a password in a URL that is not a reference.
var writtenOut = regexp.MustCompile(`://[^/?#@:]*:[^/?#@$][^/?#]*@|[?&](ssl)?password=[^&$]`)

// Store is the path or URL of the operations' store with its credentials, or empty. A
// reference that is the whole text is taken as it is; inside a URL it is escaped.
func (f *File) Store() (string, error) {
	var b strings.Builder
	for _, p := range f.store {
		if p.ref == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := f.vault.value(*p.ref)
		if err != nil {
			return "", fmt.Errorf("store: %w", err)
		}
		if len(f.store) > 1 {
			v = strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
		}
		b.WriteString(v)
	}
	return b.String(), nil
}
