package upstream

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// A peer carries the messages of one session: to a child over its pipes, or over HTTP.
type peer interface {
	// exchange puts one request on the wire, once, and waits for its response. It returns
	// when there is one, when none can come any more, or when ctx ends.
	exchange(ctx context.Context, x *exchange) *outcome
	// post puts a notification or a response on the wire.
	post(ctx context.Context, m *wire.Message) error
	// agreed says which revision the handshake came to.
	agreed(era wire.Era, version string)
	// ended is closed when the peer takes no more requests.
	ended() <-chan struct{}
	// close ends it and waits until nothing of it runs.
	close()
}

// exchange is one request, and what belongs to it on its way.
type exchange struct {
	id     int64
	method string
	params json.RawMessage
	// header are HTTP headers of this request.
	header http.Header
	// effect: the request may have one, so that it is never cancelled.
	effect bool
	// told gets the notifications and requests that come for this exchange. It does not
	// block. Nil takes none.
	told func(m *wire.Message)
}

func (x *exchange) tell(m *wire.Message) {
	if x.told != nil {
		x.told(m)
	}
}

// outcome is how an exchange ended.
type outcome struct {
	// response is nil where none came that could be read.
	response *wire.Message
	// facts are what was observed. They have a class where the way itself proves that the
	// request had no effect: NOT_SENT, or REJECTED by the protocol below.
	facts  pawl.Evidence
	header http.Header
	// err says for people why there is no response.
	err error
}

// unsent reports whether it is proved that no byte of the request left.
func (o *outcome) unsent() bool { return o.facts.Class == pawl.ClassNotSent }

// notSent is the outcome of an exchange that ended before a byte left.
func notSent(proof string, err error) *outcome {
	o := &outcome{err: err, facts: pawl.Evidence{Class: pawl.ClassNotSent, Strength: pawl.P1, Proof: proof}}
	if err != nil {
		o.facts.Error = err.Error()
	}
	return o
}
