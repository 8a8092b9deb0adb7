package clients

import (
	"net/url"
	"regexp"
	"strings"
)

var (
	// secretFlag is an argument that is followed by a secret or has one behind its '='.
	secretFlag = regexp.MustCompile(`(?i)^(--?[a-z0-9_-]*(?:token|secret|password|passwd|credential|api[-_]?key|apikey|access[-_]?key|auth|bearer)[a-z0-9_-]*)(=.*)?$`)
	// secretText looks like a secret by itself.
	secretText = regexp.MustCompile(`(?i)\b(bearer|basic)\s+\S+|\b(sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z])[-_][A-Za-z0-9_-]{8,}|//[^/\s@]*:[^/\s@]*@|[A-Za-z0-9+_-]{40,}|(?:token|secret|password|key)=[^&\s]+`)
	// reference is a value that names where it is found instead of holding it.
	reference = regexp.MustCompile(`\$\{[^}]*\}`)
)

// isSecret reports whether an argument may be or hold a secret.
func isSecret(text string) bool {
	return secretText.MatchString(reference.ReplaceAllString(text, ""))
}

// blot replaces what may be secret among a command and its arguments.
func blot(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		switch m := secretFlag.FindStringSubmatch(w); {
		case i > 0 && hasValue(words[i-1]) && reference.ReplaceAllString(w, "") != "":
			out[i] = "***"
		case m != nil && m[2] != "":
			out[i] = m[1] + "=***"
		case isSecret(w):
			out[i] = "***"
		default:
			out[i] = w
		}
	}
	return out
}

// hasValue reports whether an argument is one whose value, a secret, follows it.
func hasValue(word string) bool {
	m := secretFlag.FindStringSubmatch(word)
	return m != nil && m[2] == ""
}

// blotURL is a URL without user, query and fragment.
func blotURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "***"
	}
	if u.User != nil {
		u.User = url.User("***")
	}
	if u.RawQuery != "" {
		u.RawQuery = "***"
	}
	u.Fragment = ""
	segments := strings.Split(u.Path, "/")
	for i, s := range segments {
		if isSecret(s) {
			segments[i] = "***"
		}
	}
	u.Path, u.RawPath = strings.Join(segments, "/"), ""
	return strings.ReplaceAll(u.String(), "%2A%2A%2A", "***")
}
