package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const eventsText = `A stream of server-sent events, from now on: what happened before is in the list of operations.

- change: an operation changed; data is a Change
- alarm: a contract or the record turned out wrong; data is an Alarm
- gap: what happened since Last-Event-ID is not known any more; data is a Gap
- end: the server ends the stream; data is an End, whose code says why: slow, idle, stopping or unauthorized

Comments keep the connection alive. After any end, ask again with the header Last-Event-ID; after a gap, read what is missing from the list.`

type eventsInput struct {
	TenantQuery
	Last string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the event that was read last; what happened since is told first."`
}

func (d *door) addEvents() {
	schemas := d.huma.OpenAPI().Components.Schemas
	for _, name := range documented {
		schemas.Schema(name, true, "")
	}
	register(d, route{who: forRead, stream: true}, huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/v1/events", Summary: "Follow what happens to operations",
		Description: eventsText,
		Responses: map[string]*huma.Response{"200": {
			Description: "A stream of events", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}, func(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
		s := sessionOf(ctx)
		sub := d.opts.Feed.subscribe(&s.Principal, in.Last)
		if sub == nil {
			return nil, problem(http.StatusTooManyRequests, CodeTooMany, "this tenant follows as many streams of events as it may")
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			defer d.opts.Feed.unsubscribe(sub)
			r, w := humago.Unwrap(hc)
			d.stream(r, w, s, sub)
		}}, nil
	})
}

// stream writes events until somebody ends it.
func (d *door) stream(r *http.Request, w http.ResponseWriter, s *session, sub *subscriber) {
	o := &d.opts.Feed.opts
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	c := http.NewResponseController(w)
	send := func(frame []byte) bool {
		_ = c.SetWriteDeadline(time.Now().Add(o.WriteTime)) // a test's writer has none
		_, err := w.Write(frame)
		return err == nil && c.Flush() == nil
	}
	end := func(code, detail string) { send(frame("end", End{Code: code, Detail: detail})) }
	if r.Method == http.MethodHead || !send([]byte(": following\n\n")) {
		return
	}
	for _, f := range sub.backlog {
		if !send(f) {
			return
		}
	}
	beat := time.NewTicker(o.Heartbeat)
	defer beat.Stop()
	idle := time.NewTimer(o.Idle)
	defer idle.Stop()
	for {
		select {
		case f, going := <-sub.frames:
			switch {
			case !going:
				d.opts.Log.WarnContext(r.Context(), "a stream of events was too slow", slog.String("tenant", s.Tenant), slog.String("actor", s.Actor))
				end("slow", fmt.Sprintf("%d events waited to be read: read the list and ask again", o.Buffer))
				return
			case !s.holds(forRead):
				end("unauthorized", "the token does not hold any more")
				return
			case !send(f):
				return
			}
			idle.Reset(o.Idle)
		case <-beat.C:
			if !s.holds(forRead) {
				end("unauthorized", "the token does not hold any more")
				return
			}
			if !send([]byte(":\n\n")) {
				return
			}
		case <-idle.C:
			end("idle", "nothing happened for "+o.Idle.String()+": ask again")
			return
		case <-d.opts.Stopping:
			if len(sub.frames) > 0 {
				continue // what happened before is told first
			}
			end("stopping", "the server stops: ask again later")
			return
		case <-r.Context().Done():
			return
		}
	}
}
