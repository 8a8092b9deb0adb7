package mcptest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

const sessionHeader = "Mcp-Session-Id"

// A web carries a speaker over streamable HTTP. A legacy one keeps sessions, in memory, so
// that one that starts anew knows none.
type web struct {
	*speaker

	mu       sync.Mutex
	sessions map[string]bool
}

func (s *speaker) handler() http.Handler {
	return &web{speaker: s, sessions: map[string]bool{}}
}

func (w *web) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodDelete && w.era == Legacy:
		w.mu.Lock()
		delete(w.sessions, r.Header.Get(sessionHeader))
		w.mu.Unlock()
		return
	case r.Method != http.MethodPost:
		http.Error(to, "POST alone", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(to, r.Body, maxLine))
	if err != nil {
		return
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(to, "not JSON", http.StatusBadRequest)
		return
	}
	if !w.admit(to, r, m) {
		return
	}
	if m.ID == nil || m.Method == "" {
		to.WriteHeader(http.StatusAccepted)
		return
	}
	w.reply(to, m)
}

// admit checks the session, and opens one for initialize.
func (w *web) admit(to http.ResponseWriter, r *http.Request, m message) bool {
	if w.era == Modern {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Method == "initialize" {
		id := rand.Text()
		w.sessions[id] = true
		to.Header().Set(sessionHeader, id)
		return true
	}
	switch id := r.Header.Get(sessionHeader); {
	case id == "":
		http.Error(to, "no session", http.StatusBadRequest)
	case !w.sessions[id]:
		http.Error(to, "session not found", http.StatusNotFound)
	default:
		return true
	}
	return false
}

func (w *web) reply(to http.ResponseWriter, m message) {
	answer, fault := w.answer(m)
	text, kind, status := encode(answer), "application/json", http.StatusOK
	switch fault {
	case DieBefore, Die:
		os.Exit(1)
	case Reset:
		reset(to)
		return
	case Status400, Status404, Status500, Status503:
		status = map[Fault]int{Status400: 400, Status404: 404, Status500: 500, Status503: 503}[fault]
		text, kind = []byte(http.StatusText(status)), "text/plain"
	case StreamEnds:
		text, kind = []byte(": on it\n\n"), "text/event-stream"
	case StrayLine:
		text, kind = fmt.Appendf(nil, ": order placed\n\nevent: log\ndata: order placed\n\nevent: message\ndata: %s\n\n", text), "text/event-stream"
	case Doubled:
		text, kind = fmt.Appendf(nil, "event: message\ndata: %s\n\nevent: message\ndata: %s\n\n", text, text), "text/event-stream"
	case CutJSON:
		to.Header().Set("Content-Length", fmt.Sprint(len(text)))
		text = text[:len(text)/2]
	case Page:
		text, kind = []byte("<html><body>Welcome</body></html>"), "text/html"
	case IDAsString, OtherID:
		text = encode(otherID(answer, fault))
	}
	to.Header().Set("Content-Type", kind)
	to.WriteHeader(status)
	_, _ = to.Write(text) // a client that hung up wants no answer
}

// reset ends the connection with RST instead of FIN.
func reset(to http.ResponseWriter) {
	conn, _, err := http.NewResponseController(to).Hijack()
	if err != nil {
		panic(err) // the server is ours and speaks HTTP/1
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the end is a FIN, which the client counts as a lost answer too
	}
	_ = conn.Close()
}

// serveHTTP answers on an address until the process ends.
func (s *speaker) serveHTTP(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("up") // the test waits for it
	web := &http.Server{Handler: s.handler()}
	if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
