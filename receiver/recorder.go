package receiver

import (
	"bytes"
	"net/http"
)

// recorder holds a handler's answer back until it is recorded.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
	max    int
	over   bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.over = r.over || r.body.Len()+len(b) > r.max; r.over {
		return 0, errAnswerTooLarge
	}
	return r.body.Write(b)
}

func (r *recorder) response() *Response {
	r.WriteHeader(http.StatusOK)
	if r.sent.Get("Content-Type") == "" && r.body.Len() > 0 {
		r.sent.Set("Content-Type", http.DetectContentType(r.body.Bytes()))
	}
	return &Response{Status: r.status, Header: r.sent, Body: r.body.Bytes()}
}
