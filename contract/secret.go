package contract

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// reference names a secret without holding it.
type reference struct{ kind, name string }

func (r reference) String() string { return "${" + r.kind + ":" + r.name + "}" }

var (
	referenceText = regexp.MustCompile(`^\$\{(env|file):([^}]*)\}`)
	envName       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// cutReference reads the reference at the beginning of s.
func cutReference(s string) (r reference, rest, problem string) {
	m := referenceText.FindStringSubmatch(s)
	if m == nil {
		return r, s, "'${' begins a reference: write ${env:NAME} or ${file:/path}"
	}
	r = reference{m[1], m[2]}
	switch {
	case r.kind == "env" && !envName.MatchString(r.name):
		problem = "${env:...} takes the name of an environment variable: letters, digits and '_'"
	case r.kind == "file" && !strings.HasPrefix(r.name, "/"):
		problem = "${file:...} takes an absolute path"
	case strings.ContainsFunc(r.name, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '$' }):
		problem = "a reference is plain ASCII without spaces"
	}
	return r, s[len(m[0]):], problem
}

// ErrSecret: a credential that a contract names could not be had. The text names it.
var ErrSecret = errors.New("credential is not available")

// ErrShortSecret: a key secret is there, and it is too short to keep keys from being
// guessed. It is an ErrSecret too.
var ErrShortSecret = fmt.Errorf("%w: it is too short", ErrSecret)

// maxSecret caps the size of a secret's file.
const maxSecret = 64 << 10

// vault resolves references; nothing is kept, so that a rotated file is seen.
type vault struct {
	getenv   func(string) (string, bool)
	readFile func(string) ([]byte, error)
}

func (v *vault) value(r reference) (string, error) {
	var s string
	switch r.kind {
	case "env":
		var ok bool
		if s, ok = v.getenv(r.name); !ok {
			return "", fmt.Errorf("%v: %w: the environment variable is not set", r, ErrSecret)
		}
	case "file":
		b, err := v.readFile(r.name)
		if err != nil {
			return "", fmt.Errorf("%v: %w: %w", r, ErrSecret, err)
		}
		if len(b) > maxSecret {
			return "", fmt.Errorf("%v: %w: the file is larger than %d bytes", r, ErrSecret, maxSecret)
		}
		s = strings.TrimRight(string(b), "\r\n")
	}
	if s == "" {
		return "", fmt.Errorf("%v: %w: it is empty", r, ErrSecret)
	}
	return s, nil
}

// maxReferenced caps the files that a contract file names; bundles of certificates are
// the largest.
const maxReferenced = 1 << 20

func readReferenced(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReferenced+1))
	if err == nil && len(b) > maxReferenced {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxReferenced)
	}
	return b, err
}

// keySecret is one secret that keys are made with.
type keySecret struct {
	id  string
	ref reference
}

// minKeySecret is the least number of bytes of a key secret.
const minKeySecret = 16

// KeySecrets resolves the key secrets of the file. The function gives the live secrets of
// a tenant, the one for new keys first; nil where the file names none.
func (f *File) KeySecrets() (func(tenant string) []pawl.Secret, error) {
	resolve := func(list []keySecret) ([]pawl.Secret, error) {
		var secrets []pawl.Secret
		for _, k := range list {
			v, err := f.vault.value(k.ref)
			if err != nil {
				return nil, fmt.Errorf("key secret %q: %w", k.id, err)
			}
			if len(v) < minKeySecret {
				return nil, fmt.Errorf("key secret %q: %v: %w: it has %d bytes, want at least %d", k.id, k.ref, ErrShortSecret, len(v), minKeySecret)
			}
			secrets = append(secrets, pawl.Secret{ID: k.id, Value: []byte(v)})
		}
		return secrets, nil
	}
	everyone, err := resolve(f.keySecrets)
	if err != nil {
		return nil, err
	}
	own := map[string][]pawl.Secret{}
	for tenant, list := range f.tenantSecrets {
		if own[tenant], err = resolve(list); err != nil {
			return nil, fmt.Errorf("tenant %q: %w", tenant, err)
		}
	}
	return func(tenant string) []pawl.Secret {
		if list, ok := own[tenant]; ok {
			return list
		}
		return everyone
	}, nil
}

// CheckSecrets reports every reference of the file that cannot be resolved now, joined.
func (f *File) CheckSecrets() error {
	var errs []error
	if _, err := f.KeySecrets(); err != nil {
		errs = append(errs, err)
	}
	if _, err := f.Store(); err != nil {
		errs = append(errs, err)
	}
	if _, err := f.Notify(); err != nil {
		errs = append(errs, err)
	}
	var seen []reference
	check := func(refs []reference) {
		for _, r := range refs {
			if slices.Contains(seen, r) {
				continue
			}
			seen = append(seen, r)
			if _, err := f.vault.value(r); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, t := range f.tools {
		check(t.references())
	}
	for _, name := range slices.Sorted(maps.Keys(f.upstreams)) {
		check(f.upstreams[name].mcpReferences()) // tools that no term declares are called too
	}
	return errors.Join(errs...)
}

// secretHeader reports whether a header is one that carries a credential.
func secretHeader(name string) bool {
	n := strings.ToLower(name)
	for _, word := range []string{"authorization", "cookie", "api-key", "apikey", "token", "secret", "password", "access-key", "credential", "signature"} {
		if strings.Contains(n, word) {
			return true
		}
	}
	return false
}
