package upstream

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/evidence"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// listen keeps the stream open on which a legacy server says what belongs to no request,
// as long as the session lasts and the server has such a stream.
func (r *remote) listen() {
	lastID, pause := "", time.Duration(0)
	for n := 0; ; n++ {
		req, err := r.request(http.MethodGet, nil, nil)
		if err != nil {
			return
		}
		if lastID != "" {
			req.Header.Set(wire.HeaderLastEvent, lastID)
		}
		heard := false
		req.Consume = func(head *evidence.Response, body io.Reader) {
			kind, _, _ := mime.ParseMediaType(head.Header.Get("Content-Type"))
			if head.Status != http.StatusOK || kind != "text/event-stream" {
				return
			}
			heard = true
			events := wire.NewEventReader(body, wire.MaxMessage)
			for {
				e, err := events.Next()
				lastID, pause = events.LastID(), events.Retry()
				if errors.Is(err, wire.ErrTooLong) {
					continue
				}
				if err != nil {
					return
				}
				if m, err := wire.Parse(req.Mask(e.Data)); err == nil && !m.IsResponse() {
					r.stray(m)
				}
			}
		}
		o := r.transport.Attempt(r.ctx, req)
		if heard {
			n = 0
		} else if o.Response != nil && o.Response.Status == http.StatusNotFound && req.Header.Get(wire.HeaderSession) != "" {
			r.end.Do(func() { close(r.gone) }) // the server has forgotten the session
			return
		} else if o.Response != nil && o.Response.Status != http.StatusOK && o.Response.Status < 500 {
			return // such as 405: there is no such stream
		}
		if pause == 0 {
			pause = resumePause << min(n, 5)
		}
		select {
		case <-time.After(min(pause, maxPause)):
		case <-r.gone:
			return
		case <-r.ctx.Done():
			return
		}
	}
}
