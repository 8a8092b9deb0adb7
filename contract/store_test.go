package contract

import (
	"errors"
	"strings"
	"testing"
)

func TestStore(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PASSWORD": "p@ss/w%rd +", "DATABASE_URL": "postgres://ana:hunter2@db/pawl"}
	o := &Options{Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	for _, c := range []struct{ text, want, problem string }{
		{"pawl.db", "pawl.db", ""},
		{"a$b.db", "a$b.db", ""},
		{"${env:DATABASE_URL}", "postgres://ana:hunter2@db/pawl", ""},
		{"postgres://ana:${env:PASSWORD}@db/pawl?sslmode=verify-full", "postgres://ana:p%40ss%2Fw%25rd%20%2B@db/pawl?sslmode=verify-full", ""},
		{"postgres://ana@db/pawl", "postgres://ana@db/pawl", ""},
		{"postgres://db/pawl", "postgres://db/pawl", ""},
		{"postgres://ana:hunter2@db/pawl", "", "never written into the file"},
		{"postgres://db/pawl?user=ana&password=hunter2", "", "never written into the file"},
		{"postgres://db/pawl?password=${env:PASSWORD}", "postgres://db/pawl?password=p%40ss%2Fw%25rd%20%2B", ""},
		{"postgres://ana:${env:PASSWORD}x@db/pawl", "postgres://ana:p%40ss%2Fw%25rd%20%2Bx@db/pawl", ""},
		{"postgres://ana:${vault:x}@db/pawl", "", "write ${env:NAME}"},
	} {
		f, err := Parse("pawl.yaml", []byte("version: 1\nstore: \""+c.text+"\"\n"), o)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got %v, want a problem that says %q", c.text, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := f.Store(); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	f, err := Parse("pawl.yaml", []byte("version: 1\nstore: \"${env:NOT_SET}\"\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store(); !errors.Is(err, ErrSecret) {
		t.Errorf("got %v, want ErrSecret", err)
	}
	if err := f.CheckSecrets(); !errors.Is(err, ErrSecret) {
		t.Errorf("check: got %v, want ErrSecret", err)
	}
}
