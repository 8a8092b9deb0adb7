package evidence

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestConsume: a body is read while it arrives, its reader may leave early, and what the
// reader sees is kept.
func TestConsume(t *testing.T) {
	t.Parallel()
	more, goneCalls := make(chan bool), make(chan bool, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		select {
		case <-more:
			io.WriteString(w, "second\nthird\n")
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
		}
		if r.URL.Path == "/open" {
			<-r.Context().Done()
			goneCalls <- true
		}
	}))
	defer s.Close()
	tr := New(&Options{MaxResponse: 8})
	defer tr.Close()
	for _, path := range []string{"/ends", "/open"} {
		var lines []string
		o := tr.Attempt(t.Context(), &Request{Method: "POST", URL: s.URL + path, Body: []byte("x"), Consume: func(head *Response, body io.Reader) {
			r := bufio.NewScanner(body)
			for r.Scan() {
				if lines = append(lines, r.Text()); len(lines) == 1 {
					more <- true
				}
				if len(lines) == 3 {
					return
				}
			}
		}})
		if o.Err != nil || len(lines) != 3 || lines[2] != "third" {
			t.Fatalf("%s: got %q, %v, want three lines", path, lines, o.Err)
		}
		if res := o.Response; string(res.Body) != "first\nse" || !res.Cut || res.Size != 19 || res.BodyErr != nil {
			t.Errorf("%s: got %q of %d, cut %v, %v, want the first 8 of 19 bytes", path, res.Body, res.Size, res.Cut, res.BodyErr)
		}
	}
	<-goneCalls // an answer that does not end is dropped
}

// TestConsumeOfABrokenBody: the reader sees the error, and the answer says so.
func TestConsumeOfABrokenBody(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	tr := New(nil)
	defer tr.Close()
	var read error
	o := tr.Attempt(t.Context(), &Request{Method: "POST", URL: s.URL, Body: []byte("x"), Consume: func(_ *Response, body io.Reader) {
		_, read = io.ReadAll(body)
	}})
	if read == nil || o.Response == nil || o.Response.Intact() == nil || string(o.Response.Body) != "half" {
		t.Errorf("got %v, %+v, want a body that broke off", read, o.Response)
	}
}
