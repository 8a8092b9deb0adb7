package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// Message is the body of a webhook.
type Message struct {
	// Type is review.opened or review.closed.
	Type pawl.NoticeKind `json:"type"`
	// Timestamp is the time of the fact.
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data says which operation it is about and how it stands now. It holds no argument.
type Data struct {
	Operation string      `json:"operation"`
	Tenant    string      `json:"tenant,omitempty"`
	Tool      string      `json:"tool"`
	Run       string      `json:"run,omitempty"`
	Status    pawl.Status `json:"status"`
	// Reason is why a person is asked.
	Reason pawl.Reason `json:"reason,omitempty"`
	// Since is the time since when a person is, or was, asked.
	Since time.Time `json:"since"`
	// Expires is the time until which a yes is taken; KeyUntil the end of the key's retention.
	Expires  time.Time `json:"expires,omitzero"`
	KeyUntil time.Time `json:"key_until,omitzero"`
	Link     string    `json:"link,omitempty"`
}

// tell sends notices and records what becomes of them. It reports whether the receiver is
// gone for good.
func (n *Notifier) tell(ctx context.Context, taken []*pawl.Notice) bool {
	var wg sync.WaitGroup
	var gone atomic.Bool
	room := make(chan struct{}, atOnce)
	for _, notice := range taken {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if gone.Load() || ctx.Err() != nil {
				return // it is due again when its lease ends
			}
			end, last := n.deliver(ctx, notice)
			if last {
				gone.Store(true)
			}
			if ctx.Err() != nil && !end.Told {
				return
			}
			if _, err := n.box.EndNotice(context.WithoutCancel(ctx), notice, end); err != nil {
				n.failed(ctx, "record what was told", err)
			}
		})
	}
	wg.Wait()
	return gone.Load()
}

// deliver makes one request. gone: the receiver wants nothing any more.
func (n *Notifier) deliver(ctx context.Context, notice *pawl.Notice) (end pawl.NoticeEnd, gone bool) {
	wish, err := n.post(ctx, notice)
	if err == nil {
		return pawl.NoticeEnd{Told: true}, false
	}
	now, clockErr := n.store.Now(ctx)
	if clockErr != nil {
		now = time.Now()
	}
	if wish.gone {
		return pawl.NoticeEnd{Again: now}, true // whoever is started next tells it
	}
	if notice.Tries > len(n.opts.Pauses) {
		n.opts.Log.ErrorContext(ctx, "an operator could not be told, and this is given up", slog.String("operation", notice.Operation.String()),
			slog.String("kind", string(notice.Kind)), slog.Int("tries", notice.Tries), slog.Any("error", err))
		return pawl.NoticeEnd{}, false
	}
	pause := n.opts.Pauses[notice.Tries-1]
	pause += rand.N(pause/5 + 1)
	pause = max(pause, wish.pause)
	n.failed(ctx, "post a webhook", err)
	return pawl.NoticeEnd{Again: now.Add(pause)}, false
}

// wish is what a receiver that took nothing asks for.
type wish struct {
	pause time.Duration
	gone  bool
}

// post makes one signed request; nil means that it was taken.
func (n *Notifier) post(ctx context.Context, notice *pawl.Notice) (w wish, err error) {
	op, err := n.store.Get(ctx, notice.Tenant, notice.Operation)
	if err != nil {
		return w, fmt.Errorf("read operation: %w", err)
	}
	body, err := json.Marshal(n.message(notice, op))
	if err != nil {
		return w, fmt.Errorf("encode: %w", err)
	}
	at := time.Now()
	signature, err := n.hook.Sign(notice.ID(), at, body)
	if err != nil {
		return w, fmt.Errorf("sign: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.opts.URL, bytes.NewReader(body))
	if err != nil {
		return w, fmt.Errorf("request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "pawl")
	r.Header.Set("webhook-id", notice.ID())
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	res, err := n.client.Do(r)
	if err != nil {
		return w, fmt.Errorf("no answer of %s", n.shown()) // the error names the whole URL
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be used again
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return w, nil
	}
	w.gone = res.StatusCode == http.StatusGone
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		w.pause = min(time.Duration(s)*time.Second, maxPause)
	}
	return w, fmt.Errorf("%s answered %d", n.shown(), res.StatusCode)
}

func (n *Notifier) message(notice *pawl.Notice, op *pawl.Operation) *Message {
	m := &Message{Type: notice.Kind, Timestamp: notice.Since.UTC(), Data: Data{
		Operation: op.ID.String(), Tenant: op.Tenant, Tool: op.Tool, Run: op.Run, Status: op.Status, Reason: op.ReviewReason, Since: notice.Since.UTC(),
	}}
	if notice.Kind == pawl.ReviewClosed {
		m.Timestamp, m.Data.Reason = op.Updated.UTC(), op.Reason
	} else {
		r := pawl.NewReview(op, notice.Since)
		m.Data.Expires, m.Data.KeyUntil = r.Expires, r.KeyUntil
	}
	if n.opts.Link != "" {
		m.Data.Link = strings.ReplaceAll(n.opts.Link, "{id}", op.ID.String())
	}
	return m
}
