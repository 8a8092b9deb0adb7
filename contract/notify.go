package contract

import (
	"fmt"
	"net/url"
	"strings"
)

type notifyTerms struct {
	URL    string   `json:"url" jsonschema:"Takes a webhook (Standard Webhooks) for each operation that waits for a person, and when it does so no longer."`
	Secret template `json:"secret" jsonschema:"Signs it, by reference: whsec_ and the base64 of 24 to 64 random bytes."`
	Link   string   `json:"link,omitempty" jsonschema:"Where a person decides; {id} stands for the operation's id."`
}

// Notify is how an operator is told of what waits for a person.
type Notify struct {
	URL, Secret, Link string
}

// notify is a checked notifyTerms.
type notify struct {
	url, link string
	secret    reference
}

func (c *compiler) notify(t *notifyTerms) *notify {
	if t == nil {
		return nil
	}
	const path = "/notify"
	n := &notify{url: t.URL, link: t.Link}
	if u, err := url.Parse(t.URL); c.given(path+"/url") && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		c.fail(path+"/url", "want an http or https URL")
	} else if err == nil && u.User != nil {
		c.fail(path+"/url", "a credential is never written into the file: the receiver knows pawl by its signature")
	}
	if t.Link != "" && !strings.Contains(t.Link, "{id}") {
		c.fail(path+"/link", "want {id} where the operation's id belongs")
	}
	if !c.given(path + "/secret") {
		return n
	}
	parts, err := parseTemplate(string(t.Secret), inRequest, true)
	if err != nil || len(parts) != 1 || parts[0].ref == nil {
		c.fail(path+"/secret", "a secret is never written into the file: put it into the environment or a file and write ${env:NAME} or ${file:/path}")
		return n
	}
	n.secret = *parts[0].ref
	return n
}

// Notify resolves how an operator is told; nil where the file says nothing of it.
func (f *File) Notify() (*Notify, error) {
	if f.notify == nil {
		return nil, nil
	}
	secret, err := f.vault.value(f.notify.secret)
	if err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	return &Notify{URL: f.notify.url, Secret: secret, Link: f.notify.link}, nil
}
