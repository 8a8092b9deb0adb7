package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
	"testing"
)

// token has characters that each way of writing escapes.
const token = `sk_live+a/b"c\d<e>&f%41`

func hidden(body string, err error, list ...string) *Observation {
	o := answer(200, "application/json", body)
	o.Response.BodyErr = err
	secretsOf(&Request{Secrets: list}).hide(o)
	return o
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	quoted, _ := json.Marshal(token)
	unicode := strings.NewReplacer("+", `\u002B`, "/", `\/`).Replace(token[:11]) + `\u0022c\\d\u003ce\u003E\u0026f%41`
	for name, c := range map[string]struct{ body, want string }{
		"as it is":              {"x " + token + " y " + token, "x *** y ***"},
		"JSON":                  {`{"a":` + string(quoted) + `,"b":"x"}`, `{"a":"***","b":"x"}`},
		"JSON with its escapes": {`{"a":"Bearer ` + unicode + `"}`, `{"a":"Bearer ***"}`},
		"query":                 {"a=" + url.QueryEscape(token) + "&b=1", "a=***&b=1"},
		"page":                  {"<p>" + template.HTMLEscapeString(token) + "</p>", "<p>***</p>"},
		"a part of it":          {token[:len(token)-1], token[:len(token)-1]},
		"nothing of it":         {`{"a":"\n\u00e9 & % %zz &amp;"}`, `{"a":"\n\u00e9 & % %zz &amp;"}`},
	} {
		o := hidden(c.body, nil, token)
		if got := string(o.Response.Body); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if o.Response.Size != int64(len(c.body)) {
			t.Errorf("%s: got size %d, want that of what was received: %d", name, o.Response.Size, len(c.body))
		}
		if got, want := o.Response.SHA256(), answer(200, "", c.body).Response.SHA256(); got != want {
			t.Errorf("%s: got digest %s, want that of what was received", name, got)
		}
	}
}

func TestSecretsOfSeveralSizes(t *testing.T) {
	t.Parallel()
	const long, longer = "abcdefghijkl", "abcdefghijklmnop"
	for name, c := range map[string]struct {
		secrets    []string
		body, want string
	}{
		"one within another": {[]string{long, longer}, `["` + longer + `","` + long + `"]`, `["***","***"]`},
		"scheme and token":   {[]string{"Bearer " + long}, `["Bearer ` + long + `","` + long + `"]`, `["***","***"]`},
		"too short":          {[]string{long[:11]}, `["` + long + `"]`, `["` + long + `"]`},
		"just long enough":   {[]string{long}, `["` + long + `"]`, `["***"]`},
		"a number":           {[]string{"123456789012"}, `{"a":123456789012}`, `"***"`},
		"behind an escape":   {[]string{"n" + long}, `{"a":"\n` + long + `"}`, `"***"`},
		"a name":             {[]string{long}, `{"` + long + `":1}`, `{"***":1}`},
		"no JSON":            {[]string{"123456789012"}, `{123456789012`, `{***`},
	} {
		got := hidden(c.body, nil, c.secrets...).Response.Body
		if string(got) != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	for n, want := range map[int]string{11: `{"a":"` + longer[:11], 12: `{"a":"***`, 15: `{"a":"***`, 16: `{"a":"***`} {
		if got := string(hidden(`{"a":"`+longer[:n], io.ErrUnexpectedEOF, longer).Response.Body); got != want {
			t.Errorf("cut after %d bytes: got %s, want %s", n, got, want)
		}
	}
}

// An error of the transport may quote what the other end wrote.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(c *rawConn) {
		if c.exec() {
			c.say("HTTP/1.1 200 OK\r\nAuthorization Bearer " + token + "\r\n\r\n")
		}
	})
	r := post("http://" + s.addr())
	plain := transport(t, nil).Attempt(within(t, patience), r)
	if plain.Err == nil || !strings.Contains(plain.Err.Error(), "sk_live") {
		t.Fatalf("got %v, want an error that quotes the answer", plain.Err)
	}
	r.Secrets = []string{token}
	o := transport(t, nil).Attempt(within(t, patience), r)
	if text := o.Err.Error(); strings.Contains(text, "sk_live") || !strings.Contains(text, mask) {
		t.Errorf("got %s, want *** in it", text)
	}
	cause := fmt.Errorf("%s: %w", token, io.ErrUnexpectedEOF)
	if err := hidden("{", cause, token).Response.BodyErr; !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), token) {
		t.Errorf("got %v, want the error without the secret", err)
	}
}

func FuzzSecrets(f *testing.F) {
	f.Add([]byte(`{"a":"\u002B%2B&#43;`+token+`"}`), token)
	f.Add([]byte(`{"a":123456789012}`), "123456789012")
	f.Add([]byte(`"\nabcdefghijkl"`), "nabcdefghijkl")
	f.Fuzz(func(t *testing.T, body []byte, secret string) {
		s := secretsOf(&Request{Secrets: []string{secret}})
		got := s.maskBody(body)
		if len(got) > len(body) {
			t.Errorf("got %d bytes of %d", len(got), len(body))
		}
		if json.Valid(body) && !json.Valid(got) {
			t.Errorf("got %q of %q, which was JSON", got, body)
		}
		for _, x := range s {
			if strings.Contains(string(got), x) && !strings.Contains(x, "*") {
				t.Errorf("got %q, which has %q", got, x)
			}
		}
	})
}
