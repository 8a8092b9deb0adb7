package contract

import (
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

var _ pawl.Delegate = (*tool)(nil)

// Header is what the request of a permit must carry beside what is stored: not-after and
// deadline, where the contract has them.
func (t *tool) Header(s *pawl.Sending) map[string]string {
	own, err := t.asPinned(s.Operation)
	if err != nil {
		return nil
	}
	late := http.Header{}
	own.lateHeadersTo(late, s)
	header := make(map[string]string, len(late))
	for name := range late {
		header[name] = late.Get(name)
	}
	return header
}

// Classify says what an answer proves that a caller received: what the contract says of its
// status and body. What the provider echoes of the caller's credentials is not known here.
func (t *tool) Classify(s *pawl.Sending, a *pawl.Answer) pawl.Evidence {
	unread := pawl.Evidence{Class: pawl.ClassAmbiguous, Proof: "contract"}
	own, err := t.asPinned(s.Operation)
	if err != nil {
		unread.Error = err.Error()
		return unread
	}
	subject, err := own.ofOperation(s.Operation)
	if err != nil {
		unread.Error = err.Error()
		return unread
	}
	o := &evidence.Observation{
		HadConnection: true, BytesBegun: 1, // it was sent: there is an answer
		Response: &evidence.Response{Status: a.Status, Header: http.Header{}, Body: a.Body, Size: int64(len(a.Body))},
	}
	for name, values := range a.Header {
		o.Response.Header[http.CanonicalHeaderKey(name)] = values
	}
	ev := evidence.Classify(o, own.evidenceRules(subject), s.Attempt)
	ev.BytesBegun = 0 // nobody counted them
	return ev
}
