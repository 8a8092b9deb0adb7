package receivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Target is a service under test. Only URL is needed.
type Target struct {
	// URL is the route with an effect, called by POST.
	URL string
	// Other is another route with an effect of the same service, for the scope of keys.
	Other string
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
	// Retention is how long the service keeps an answer, if it is short enough to wait for.
	Retention time.Duration
	// Restart kills the service and starts it again on the same database.
	Restart func(ctx context.Context) error
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

// quoted is a key in the draft's form.
func quoted(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
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

var errNoEffects = errors.New("the service does not tell how many changes it made")

// effects counts the service's changes.
func (t *Target) effects(ctx context.Context) (int, error) {
	if t.Effects == "" {
		return 0, errNoEffects
	}
	res, err := t.do(ctx, asked{method: http.MethodGet, url: t.Effects})
	if err != nil {
		return 0, err
	}
	var count struct {
		Count *int `json:"count"`
	}
	if err := json.Unmarshal([]byte(res.body), &count); err != nil || count.Count == nil {
		return 0, fmt.Errorf("%s: want {\"count\": N}, got status %d", t.Effects, res.status)
	}
	return *count.Count, nil
}
