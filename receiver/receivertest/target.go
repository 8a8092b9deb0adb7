package receivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Target is a service under test. Only URL is needed.
type Target struct {
	// URL is the route with an effect, called by POST.
	URL string
	// Other is another route with an effect of the same service, for the scope of keys.
	Other string
	// Node is the same route at another process of the service.
	Node string
	// Record tells what is known of a key, and Undo, called by POST with a key of its own,
	// undoes what a key did. Both have {key} in their URL.
	Record, Undo string
	// NotAfter is the header that carries a not-after, if the service enforces one.
	NotAfter string
	// Body is a request of the route: JSON. Default {"amount": 1}.
	Body string
	// OtherBody asks for something else. Default {"amount": 2}.
	OtherBody string
	// Authorization and OtherAuthorization are two callers' headers.
	Authorization, OtherAuthorization string
	// Effects is the URL that tells how many changes the service has made.
	Effects string
	// Drills says that the service obeys Receiver-Drill.
	Drills bool
	// Retention is how long the service keeps an answer, and Lease how long it works on a
	// request at most, if they are short enough to wait for.
	Retention, Lease time.Duration
	// Restart kills the service and starts it again on the same database.
	Restart func(ctx context.Context) error
	// Store takes the service's database away, or gives it back.
	Store func(ctx context.Context, up bool) error
	// Client is used for every request; default one with a timeout of 30 s.
	Client *http.Client
}

func (t *Target) withDefaults() *Target {
	d := *t
	def := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	def(&d.Body, `{"amount": 1}`)
	def(&d.OtherBody, `{"amount": 2}`)
	def(&d.Authorization, "Bearer alice")
	if d.Client == nil {
		d.Client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	}
	return &d
}

// asked is one request of the suite; zero fields are the target's own.
type asked struct {
	method, url, body, key string
	keys                   []string // in place of key: the header's lines
	authorization, drill   string
	header                 http.Header
}

// answered is what came back.
type answered struct {
	status int
	header http.Header
	body   string
}

func (a *answered) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// refused reports whether the service says that it did not carry the request out.
func (a *answered) refused() bool { return a.status >= 400 && a.status <= 499 }

// quoted is a key in the draft's form.
func quoted(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// about is a URL with its {key} filled in.
func about(template, key string) string {
	return strings.ReplaceAll(template, "{key}", url.PathEscape(key))
}

const maxAnswer = 8 << 20

func (t *Target) do(ctx context.Context, a asked) (*answered, error) {
	if a.method == "" {
		a.method = http.MethodPost
	}
	if a.url == "" {
		a.url = t.URL
	}
	if a.body == "" {
		a.body = t.Body
	}
	if a.authorization == "" {
		a.authorization = t.Authorization
	}
	r, err := http.NewRequestWithContext(ctx, a.method, a.url, bytes.NewReader([]byte(a.body)))
	if err != nil {
		return nil, err
	}
	if a.method == http.MethodGet {
		r.Body, r.ContentLength = nil, 0
	}
	r.GetBody = nil // so that the client never sends it twice by itself
	for name, values := range a.header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", a.authorization)
	if a.drill != "" {
		r.Header.Set("Receiver-Drill", a.drill)
	}
	if a.key != "" {
		a.keys = []string{quoted(a.key)}
	}
	for _, k := range a.keys {
		r.Header.Add("Idempotency-Key", k)
	}
	res, err := t.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return &answered{res.StatusCode, res.Header, string(body)}, nil
}

// get reads a JSON answer that must be a success.
func (t *Target) get(ctx context.Context, url string, into any) error {
	res, err := t.do(ctx, asked{method: http.MethodGet, url: url})
	if err := success(res, err); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(res.body), into); err != nil {
		return errors.New("got no JSON of the form that is wanted")
	}
	return nil
}

// state is what the record says of a key, now or behind a fence.
func (t *Target) state(ctx context.Context, key string, fence bool) (string, error) {
	u := about(t.Record, key)
	if fence {
		u += "?fence=1"
	}
	var s struct{ State string }
	if err := t.get(ctx, u, &s); err != nil {
		return "", fmt.Errorf("the record: %w", err)
	}
	return s.State, nil
}

var errNoEffects = errors.New("the service does not tell how many changes it made")

// effects counts the service's changes.
func (t *Target) effects(ctx context.Context) (int, error) {
	if t.Effects == "" {
		return 0, errNoEffects
	}
	var count struct{ Count *int }
	if err := t.get(ctx, t.Effects, &count); err != nil {
		return 0, fmt.Errorf("the count of effects: %w", err)
	}
	if count.Count == nil {
		return 0, errors.New(`the count of effects: want {"count": N}`)
	}
	return *count.Count, nil
}
