package sandbox

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

// htmlPage is what a proxy sends in place of the service's own answer.
const htmlPage = "<!DOCTYPE html>\n<html><head><title>%[1]d %[2]s</title></head>\n<body><h1>%[2]s</h1><p>The request could not be completed.</p></body></html>\n"

// failure is the service's own answer when it fails.
func failure(status int) answer {
	p := &problem{Status: status, Code: "service_failed", Message: "the service failed"}
	switch status {
	case 401:
		p.Code, p.Message = "unauthorized", "the credential is not accepted"
	case 403:
		p.Code, p.Message = "forbidden", "the credential does not allow it"
	case 429:
		p.Code, p.Message, p.RetryAfter = "rate_limited", "too many requests; nothing was done", 1
	case 503:
		p.Code, p.Message, p.RetryAfter = "unavailable", "the service is not available", 1
	}
	return p.answer()
}

// plain answers without any fault.
func (x *exchange) plain(p *problem) error {
	x.fault = Fault{}
	return x.deliver(p.answer())
}

// deliver puts the answer, or what the fault makes of it, on the wire.
func (x *exchange) deliver(a answer) error {
	h := x.w.Header()
	h.Set(headerRequest, strconv.FormatInt(x.seq, 10))
	h.Set("Content-Type", "application/json")
	a = x.dressed(a)
	n := x.fault.n
	switch x.fault.ending {
	case endRefuse:
		return x.drop("refused", true)
	case endReset:
		return x.drop("reset", true)
	case endFin:
		return x.drop("fin", false)
	case endStatus:
		a = x.dressed(failure(n))
	case endHTML:
		h.Set("Content-Type", "text/html; charset=utf-8")
		a = answer{status: n, body: fmt.Appendf(nil, htmlPage, n, http.StatusText(n))}
	case endEdge:
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Server", "edge")
		a = answer{status: n, body: fmt.Appendf(nil, htmlPage, n, http.StatusText(n)), retry: 1}
	case endEmpty:
		h.Del("Content-Type")
		a = answer{status: n}
	case endGarbage:
		a.body = bytes.Repeat([]byte(`{"id":[,`), 3)
	}
	if a.replayed {
		h.Set(headerReplayed, "true")
	}
	for name, value := range a.header {
		h.Set(name, value)
	}
	if a.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(a.retry))
	}
	switch x.fault.ending {
	case endCut:
		return x.cut(a, n)
	case endSlow:
		return x.slow(a, n)
	}
	if err := x.note(strconv.Itoa(a.status), a.status); err != nil {
		return err
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	x.writeDeadline()
	x.w.WriteHeader(a.status)
	_, _ = x.w.Write(a.body) // the client may have gone; the ledger has what it needs
	return nil
}

// note records what goes on the wire, just before it does. A request the ledger had no
// room for has no row.
func (x *exchange) note(text string, status int) error {
	x.s.log.Info("request answered", slog.Int64("request", x.seq), slog.String("method", x.r.Method), slog.String("path", x.r.URL.Path),
		slog.String("key", x.key), slog.String("fault", x.fault.String()), slog.String("answer", text))
	return x.s.ledger.write(x.s.ledger.noted, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE requests SET answer = ?, status = ?, fault = ? WHERE seq = ?`, text, status, x.fault.String(), x.seq)
		return err
	})
}

func (x *exchange) writeDeadline() {
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(writeTime))
}

// drop ends the connection without an answer: with RST, or in order. Where the
// connection cannot be had, such as in HTTP/2, the server aborts the stream.
func (x *exchange) drop(text string, reset bool) error {
	if err := x.note(text, 0); err != nil {
		return err
	}
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if reset {
		abortive(conn)
	}
	_ = conn.Close()
	return nil
}

// abortive makes the close of a TCP connection send RST.
func abortive(conn net.Conn) {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}

// cut announces the whole body, sends n bytes of it, always fewer than all, and closes.
func (x *exchange) cut(a answer, n int) error {
	n = max(0, min(n, len(a.body)-1))
	if err := x.note(fmt.Sprintf("cut %d", n), a.status); err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	_ = h.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	head.Write(a.body[:n])
	_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = conn.Write(head.Bytes()) // the client may have gone
	return nil
}

// slow sends the body at rate bytes a second.
func (x *exchange) slow(a answer, rate int) error {
	if err := x.note(strconv.Itoa(a.status), a.status); err != nil {
		return err
	}
	rc := http.NewResponseController(x.w)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	x.writeDeadline()
	x.w.WriteHeader(a.status)
	_ = rc.Flush()
	every, step := time.Second/time.Duration(rate), 1
	if every < 10*time.Millisecond {
		every, step = 100*time.Millisecond, max(1, rate/10)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for body := a.body; len(body) > 0; {
		select {
		case <-tick.C:
		case <-x.r.Context().Done():
			return nil
		case <-x.stop:
			return errStopped
		case <-x.s.closed:
			return errStopped
		}
		n := min(step, len(body))
		x.writeDeadline()
		if _, err := x.w.Write(body[:n]); err != nil {
			return nil // the client has gone
		}
		_ = rc.Flush()
		body = body[n:]
	}
	return nil
}
