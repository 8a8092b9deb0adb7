package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/api"
)

// tokensFile writes a file of lines and opens it.
func tokensFile(t *testing.T, lines ...string) *tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := openTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func newToken(t *testing.T, g Grant) (token, line string) {
	t.Helper()
	token, line, err := NewToken(g)
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

func TestTokens(t *testing.T) {
	t.Parallel()
	ana, anaLine := newToken(t, Grant{Tenant: "acme", Actor: "ana", Scopes: []string{"read", "settle"}})
	ben, benLine := newToken(t, Grant{Scopes: []string{"call"}})
	old, oldLine := newToken(t, Grant{Tenant: "acme", Scopes: []string{"call"}, Expires: time.Now().Add(-time.Second)})
	list := tokensFile(t, "# ours", "", anaLine, "  "+benLine+"\r", oldLine)
	if len(ana) != len("pawl_")+43 || !strings.HasPrefix(ana, "pawl_") || strings.Contains(anaLine, ana[5:]) {
		t.Errorf("got token %q and line %q, want pawl_ with 256 bits and nothing of it in the line", ana, anaLine)
	}
	got, ok := list.authenticate(ana)
	if want := (api.Principal{Tenant: "acme", Actor: "ana", Scopes: []api.Scope{"read", "settle"}}); !ok || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	if got, ok := list.authenticate(ben); !ok || got.Tenant != "" || got.Actor != "" {
		t.Errorf("got %+v, %v, want nobody in particular", got, ok)
	}
	for _, bad := range []string{"", "pawl_", old, ana[:len(ana)-1], ana + "x", strings.ToUpper(ana), ana[5:], strings.Fields(anaLine)[0]} {
		if got, ok := list.authenticate(bad); ok {
			t.Errorf("got %+v for a token that is none", got)
		}
	}
}

// TestTokenIsTakenBack: a line that is gone lets nobody in for longer than a moment, and a
// file that cannot be used lets nobody in at all.
func TestTokenIsTakenBack(t *testing.T) {
	t.Parallel()
	ana, anaLine := newToken(t, Grant{Actor: "ana", Scopes: []string{"read"}})
	ben, benLine := newToken(t, Grant{Actor: "ben", Scopes: []string{"read"}})
	list := tokensFile(t, anaLine, benLine)
	path := list.path
	replace := func(text string) { // as an editor does it
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, wantAna, wantBen bool) {
		t.Helper()
		time.Sleep(tokensFresh)
		_, a := list.authenticate(ana)
		_, b := list.authenticate(ben)
		if a != wantAna || b != wantBen {
			t.Errorf("%s: got ana %v, ben %v, want %v, %v", when, a, b, wantAna, wantBen)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		list.checked = time.Now() // the bubble's clock
		check("at first", true, true)
		replace(benLine)
		check("without ana's line", false, true)
		replace(benLine + "\nnonsense")
		check("with nonsense in it", false, false)
		replace(anaLine)
		check("with ana's line alone", true, false)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		check("without a file", false, false)
	})
}

func TestTokenLinesThatAreRefused(t *testing.T) {
	t.Parallel()
	hash := hashPrefix + strings.Repeat("0a", 32)
	for _, c := range []struct{ text, says string }{
		{"\n# x\nsecret-canary scopes=call", ":3: want sha256:"},
		{hash[:20] + " scopes=call", "64 hex digits"},
		{hash + "0 scopes=call", "64 hex digits"},
		{hash, "scopes: want some"},
		{hash + " scopes=", "scopes: one is none"},
		{hash + " scopes=call,canary", "scopes: one is none"},
		{hash + " scopes=call,call", "there twice"},
		{hash + " scopes=call tenant=a tenant=b", "there twice"},
		{hash + " scopes=call canary=1", "a part is none"},
		{hash + " scopes=call expires=canary", "expires: want"},
		{hash + " scopes=call actor=\x01canary", "actor: spaces and control"},
		{hash + " scopes=call tenant=" + strings.Repeat("x", 300), "more than 256"},
		{hash + " scopes=call\n" + hash + " scopes=read", ":2: this token is there twice"},
	} {
		_, err := parseTokens("tokens", []byte(c.text))
		var bad *TokenError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: got %v, want a token error that says %q and repeats nothing", c.text, err, c.says)
		}
	}
	for _, g := range []Grant{{}, {Scopes: []string{"admin"}}, {Scopes: []string{"call"}, Tenant: "a b"}, {Scopes: []string{"call"}, Actor: "a\n"}} {
		if _, _, err := NewToken(g); err == nil {
			t.Errorf("a token for %+v: got no error", g)
		}
	}
}

func FuzzTokens(f *testing.F) {
	hash := hashPrefix + strings.Repeat("0a", 32)
	f.Add(hash + " tenant=acme actor=ana scopes=call,read expires=2027-01-01T00:00:00Z\n# x\n")
	f.Add(hash + " scopes=\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		grants, err := parseTokens("tokens", []byte(text))
		if err != nil {
			if msg := err.Error(); len(msg) > 200 || strings.ContainsAny(msg, "\n\x1b") {
				t.Errorf("got a message %q, want one short line", msg)
			}
			return
		}
		for _, g := range grants {
			again := fmt.Sprintf("%s%x", hashPrefix, g.hash)
			grant := Grant{Tenant: g.who.Tenant, Actor: g.who.Actor, Expires: g.expires}
			for _, s := range g.who.Scopes {
				grant.Scopes = append(grant.Scopes, string(s))
			}
			_, line, err := NewToken(grant)
			if err != nil {
				t.Fatalf("a grant that was read cannot be written: %v", err)
			}
			back, err := parseGrant(again + line[strings.Index(line, " "):])
			if err != nil || !cmp.Equal(back.who, g.who) || !back.expires.Truncate(time.Second).Equal(g.expires.Truncate(time.Second)) {
				t.Errorf("got %+v, %v, want %+v", back, err, g)
			}
		}
	})
}
