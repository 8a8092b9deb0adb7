package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-dev/pawl"
)

// Options of New. Zero fields mean the defaults.
type Options struct {
	// URL takes the webhook; it is mandatory.
	URL string
	// Secret signs it: whsec_ and the base64 of 24 to 64 random bytes; it is mandatory.
	Secret string
	// Link leads from a notice to the operation: {id} in it stands for the operation's id.
	Link string
	// Every is the pause between two looks into the store; default 10 s. What this process
	// does is told at once.
	Every time.Duration
	// Timeout bounds one request; default 15 s.
	Timeout time.Duration
	// Pauses are those before each further try; by default they grow from 5 s to a day, ten
	// in all. What is not taken then is given up.
	Pauses []time.Duration
	// Log takes what an operator should read; default slog.Default().
	Log *slog.Logger
}

// defaultPauses are those that Standard Webhooks recommends.
var defaultPauses = []time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	minSecret, maxSecret = 24, 64
	// batch is how many notices are found or taken at once.
	batch = 32
	// atOnce is how many requests are out at a time.
	atOnce = 4
	// maxPause caps what the receiver asks for.
	maxPause = 24 * time.Hour
)

// Notifier tells an operator of the reviews of one store. Its methods are safe for
// concurrent use.
type Notifier struct {
	store  pawl.Store
	box    pawl.Outbox
	opts   Options
	hook   *standardwebhooks.Webhook
	client *http.Client

	wake     chan struct{}
	mu       sync.Mutex
	stop     context.CancelFunc // nil until started
	stopped  bool
	finished chan struct{}
}

// New makes a notifier of a store that is an outbox too. It starts nothing. An error names
// the option that cannot be used, and never a secret.
func New(store pawl.Store, o Options) (*Notifier, error) {
	box, ok := store.(pawl.Outbox)
	if !ok {
		return nil, errors.New("notify: the store has no outbox")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, errors.New("notify: option URL: want an http or https URL without credentials")
	}
	hook, err := signer(o.Secret)
	if err != nil {
		return nil, fmt.Errorf("notify: option Secret: %w", err)
	}
	def := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	def(&o.Every, 10*time.Second)
	def(&o.Timeout, 15*time.Second)
	if o.Pauses == nil {
		o.Pauses = defaultPauses
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	n := &Notifier{store: store, box: box, opts: o, hook: hook, wake: make(chan struct{}, 1), finished: make(chan struct{})}
	n.client = &http.Client{
		Timeout: o.Timeout, Transport: &http.Transport{MaxConnsPerHost: atOnce, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return n, nil
}

// signer checks the form of a secret.
func signer(secret string) (*standardwebhooks.Webhook, error) {
	const form = "want whsec_ and the base64 of 24 to 64 random bytes"
	rest, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return nil, errors.New(form)
	}
	if n := len(rest) / 4 * 3; n < minSecret || n > maxSecret+2 {
		return nil, errors.New(form)
	}
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, errors.New(form)
	}
	return hook, nil
}

// Observer is what wakes the notifier. It belongs into the options of the executor.
func (n *Notifier) Observer() *pawl.Observer {
	return &pawl.Observer{Changed: func(_ context.Context, op *pawl.Operation, e *pawl.Entry) {
		if !op.Review.IsZero() || e.Decision != nil {
			n.nudge()
		}
	}}
}

func (n *Notifier) nudge() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Notified reports whether the operator was told that an operation waits for a person; a
// store that cannot be read says no.
func (n *Notifier) Notified(ctx context.Context, op *pawl.Operation) bool {
	told, err := n.box.Notified(ctx, op)
	return err == nil && told
}

// Start begins to tell. It may be called twice; the second call does nothing. It does
// nothing after Stop.
func (n *Notifier) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop != nil || n.stopped {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() {
		defer close(n.finished)
		n.run(ctx)
	}()
}

// Stop gives up what is out, which is told again later, and returns when nothing runs any
// more. It may be called twice, and without Start.
func (n *Notifier) Stop() {
	n.mu.Lock()
	n.stopped = true
	stop := n.stop
	n.mu.Unlock()
	if stop != nil {
		stop()
		<-n.finished
	}
	n.client.CloseIdleConnections()
}

func (n *Notifier) run(ctx context.Context) {
	ticker := time.NewTicker(n.opts.Every)
	defer ticker.Stop()
	for {
		if gone := n.round(ctx); gone {
			n.opts.Log.ErrorContext(ctx, "the receiver of webhooks answers 410 Gone: nobody is told until a restart", slog.String("url", n.shown()))
			return
		}
		select {
		case <-ticker.C:
		case <-n.wake:
		case <-ctx.Done():
			return
		}
	}
}

// round tells what there is to tell, and reports whether the receiver is gone for good.
func (n *Notifier) round(ctx context.Context) (gone bool) {
	for {
		made, err := n.box.GatherNotices(ctx, batch)
		if err != nil {
			n.failed(ctx, "find what is to be told", err)
			return false
		}
		taken, err := n.box.TakeNotices(ctx, batch, n.opts.Timeout*(batch/atOnce)+time.Minute)
		if err != nil {
			n.failed(ctx, "take what is to be told", err)
			return false
		}
		if n.tell(ctx, taken) {
			return true
		}
		if made < batch && len(taken) < batch || ctx.Err() != nil {
			return false
		}
	}
}

func (n *Notifier) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		n.opts.Log.WarnContext(ctx, "operators may be told late", slog.String("what", what), slog.Any("error", err))
	}
}

// shown is the URL without what may be secret in it.
func (n *Notifier) shown() string {
	u, err := url.Parse(n.opts.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
