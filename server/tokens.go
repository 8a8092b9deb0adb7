package server

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/api"
)

// Grant is what a token stands for. It is one line of a tokens file:
//
//	sha256:HEX tenant=acme actor=agent-7 scopes=call,read expires=2027-01-01T00:00:00Z
//
// A tenant, an actor or an expiry that is left out is empty, empty and never. Empty lines
// and lines that begin with # say nothing.
type Grant struct {
	Tenant, Actor string
	// Scopes are of call, read and settle.
	Scopes []string
	// Expires is zero for a token that holds until its line is taken out.
	Expires time.Time
}

// TokenError is a line of a tokens file that cannot be used, or a grant that cannot be
// made. It tells nothing of the line.
type TokenError struct {
	// Path and Line are where, Line 0 where there is no line.
	Path string
	Line int
	What string
}

// Error gives place and reason on one line.
func (e *TokenError) Error() string {
	if e.Line == 0 {
		return "token: " + e.What
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.What)
}

const (
	tokenPrefix = "pawl_"
	hashPrefix  = "sha256:"
	// maxTokens and maxTokenFile bound what every request is compared with.
	maxTokens    = 10_000
	maxTokenFile = 4 << 20
	// maxGrantName is the number of bytes of a tenant or an actor.
	maxGrantName = 256
	// tokensFresh is how old the knowledge of the file may be: a token whose line is gone
	// holds no longer than that.
	tokensFresh = 250 * time.Millisecond
)

// NewToken makes a token of 256 random bits and the line of the tokens file that lets it
// in. The line holds the token's hash; the token itself is kept nowhere.
func NewToken(g Grant) (token, line string, err error) {
	if err := g.validate(); err != nil {
		return "", "", err
	}
	var b [32]byte
	rand.Read(b[:]) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(token))
	line = hashPrefix + hex.EncodeToString(sum[:])
	if g.Tenant != "" {
		line += " tenant=" + g.Tenant
	}
	if g.Actor != "" {
		line += " actor=" + g.Actor
	}
	line += " scopes=" + strings.Join(g.Scopes, ",")
	if !g.Expires.IsZero() {
		line += " expires=" + g.Expires.UTC().Format(time.RFC3339)
	}
	return token, line, nil
}

func (g *Grant) validate() error {
	for _, n := range []struct{ name, value string }{{"tenant", g.Tenant}, {"actor", g.Actor}} {
		if len(n.value) > maxGrantName {
			return &TokenError{What: fmt.Sprintf("%s: more than %d bytes", n.name, maxGrantName)}
		}
		if !utf8.ValidString(n.value) || strings.ContainsFunc(n.value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			return &TokenError{What: n.name + ": spaces and control characters are not allowed"}
		}
	}
	if len(g.Scopes) == 0 {
		return &TokenError{What: "scopes: want some of call, read, settle"}
	}
	for i, s := range g.Scopes {
		if !slices.Contains(api.Scopes, api.Scope(s)) {
			return &TokenError{What: "scopes: one is none of call, read, settle"}
		}
		if slices.Contains(g.Scopes[:i], s) {
			return &TokenError{What: "scopes: " + s + " is there twice"}
		}
	}
	return nil
}

// tokens are those of a file, which is read again when it has changed.
type tokens struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	grants  []granted
	read    os.FileInfo // of the file as it was read
	checked time.Time
}

// granted is one line, ready to be compared.
type granted struct {
	hash    [sha256.Size]byte
	who     api.Principal
	expires time.Time
}

func openTokens(path string, log *slog.Logger) (*tokens, error) {
	t := &tokens{path: path, log: log}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// authenticate finds a token's grant. It compares with every line, and each in constant
// time, so that how long it takes says nothing of any.
func (t *tokens) authenticate(token string) (api.Principal, bool) {
	sum := sha256.Sum256([]byte(token))
	found := -1
	grants := t.current()
	for i := range grants {
		if subtle.ConstantTimeCompare(sum[:], grants[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 || !grants[found].expires.IsZero() && !time.Now().Before(grants[found].expires) {
		return api.Principal{}, false
	}
	return grants[found].who, true
}

// current is what the file says now. A file that cannot be read or used any more lets
// nobody in, for it may be the one that takes a token back.
func (t *tokens) current() []granted {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.checked) < tokensFresh {
		return t.grants
	}
	info, err := os.Stat(t.path)
	if err == nil && t.read != nil && os.SameFile(info, t.read) && info.Size() == t.read.Size() && info.ModTime().Equal(t.read.ModTime()) {
		t.checked = time.Now()
		return t.grants
	}
	if err := t.load(); err != nil {
		if t.read != nil || t.grants != nil {
			t.log.Error("no token holds: the tokens file cannot be used", slog.Any("error", err))
		}
		t.grants, t.read = nil, nil
	}
	t.checked = time.Now()
	return t.grants
}

func (t *tokens) load() error {
	f, err := os.Open(t.path)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	grants, err := parseTokens(t.path, raw)
	if err != nil {
		return err
	}
	t.grants, t.read, t.checked = grants, info, time.Now()
	return nil
}

// parseTokens reads a tokens file, strictly. Its errors are *TokenError.
func parseTokens(path string, raw []byte) ([]granted, error) {
	if len(raw) > maxTokenFile {
		return nil, &TokenError{Path: path, Line: 1, What: fmt.Sprintf("the file is larger than %d bytes", maxTokenFile)}
	}
	grants := []granted{}
	seen := make(map[[sha256.Size]byte]bool)
	for i, line := range bytes.Split(raw, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		g, err := parseGrant(text)
		var bad *TokenError
		switch {
		case errors.As(err, &bad):
			return nil, &TokenError{Path: path, Line: i + 1, What: bad.What}
		case seen[g.hash]:
			return nil, &TokenError{Path: path, Line: i + 1, What: "this token is there twice"}
		case len(grants) == maxTokens:
			return nil, &TokenError{Path: path, Line: i + 1, What: fmt.Sprintf("more than %d tokens", maxTokens)}
		}
		seen[g.hash] = true
		grants = append(grants, *g)
	}
	return grants, nil
}

// parseGrant reads one line.
func parseGrant(line string) (*granted, error) {
	fields := strings.Fields(line)
	digits, ok := strings.CutPrefix(fields[0], hashPrefix)
	var d granted
	if n, err := hex.Decode(d.hash[:], []byte(digits[:min(len(digits), 2*sha256.Size)])); !ok || err != nil || n != sha256.Size || len(digits) != 2*sha256.Size {
		return nil, &TokenError{What: "want " + hashPrefix + " and 64 hex digits first: pawl token new writes such a line"}
	}
	var g Grant
	given := make(map[string]bool)
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		if given[name] {
			return nil, &TokenError{What: "a part is there twice"}
		}
		given[name] = true
		switch name {
		case "tenant":
			g.Tenant = value
		case "actor":
			g.Actor = value
		case "scopes":
			g.Scopes = strings.Split(value, ",")
		case "expires":
			var err error
			if g.Expires, err = time.Parse(time.RFC3339, value); err != nil {
				return nil, &TokenError{What: "expires: want an instant such as 2027-01-01T00:00:00Z"}
			}
		default:
			return nil, &TokenError{What: "a part is none of tenant=, actor=, scopes=, expires="}
		}
	}
	if err := g.validate(); err != nil {
		return nil, err
	}
	d.who, d.expires = api.Principal{Tenant: g.Tenant, Actor: g.Actor}, g.Expires
	for _, s := range g.Scopes {
		d.who.Scopes = append(d.who.Scopes, api.Scope(s))
	}
	return &d, nil
}
