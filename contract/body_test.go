package contract

import (
	"bufio"
	"net"
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A provider may act on path and headers alone, so a body that was not sent proves that
// nothing happened only where the contract says so.
func TestNeedsBodyIsDeclared(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]struct {
		class pawl.AttemptClass
		proof string
	}{
		"":                  {pawl.ClassAmbiguous, "no_answer"},
		"needs_body: false": {pawl.ClassAmbiguous, "no_answer"},
		"needs_body: true":  {pawl.ClassNotSent, "no_body"},
	} {
		tool := setup(t, readsHeads(t), `
identity: [id]
request: {method: POST, path: "/orders/{args.id}/cancel", body: args}
expect_continue: true
`+declared, nil)
		ev := send(t, tool, begin(t, tool, `{"id":"A"}`))
		if ev.Class != want.class || ev.Proof != want.proof || ev.BodyPulled != 0 {
			t.Errorf("%q: got %s %s with %d bytes of the body, want %s %s and none", declared, ev.Class, ev.Proof, ev.BodyPulled, want.class, want.proof)
		}
	}
}

// readsHeads is a server that closes each connection when it has read the head of a request.
func readsHeads(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			http.ReadRequest(bufio.NewReader(c))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-over })
	return "http://" + l.Addr().String()
}
