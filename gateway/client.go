package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// client is who sent a request and how it speaks: what its handshake said, or the request
// itself. It is not changed once it is made.
type client struct {
	who     Principal
	version string
	era     wire.Era
	// info and caps are its own words.
	info, caps json.RawMessage
	// name is the one in info.
	name string
	// session names what it keeps at the upstreams; empty where it keeps nothing.
	session string
}

func newClient(who Principal, version string, info, caps json.RawMessage) *client {
	c := &client{who: who, version: version, era: wire.EraOf(version), info: info, caps: caps}
	if o, err := wire.ParseObject(info); err == nil {
		c.name, _ = o.Text("name")
	}
	if o, err := wire.ParseObject(caps); err == nil {
		c.caps = withoutTasks(o).JSON()
	}
	return c
}

func (c *client) upstream() *upstream.Client {
	return &upstream.Client{Session: c.session, Era: c.era, Info: c.info, Capabilities: c.caps}
}

// canElicit reports whether the client asks its user questions in a form.
func (c *client) canElicit() bool {
	caps, err := wire.ParseObject(c.caps)
	if err != nil {
		return false
	}
	how, err := wire.ParseObject(caps.Get("elicitation"))
	return err == nil && (len(how) == 0 || how.Get("form") != nil)
}

// defaultRun is the run of a client that names none. A session is no run: it ends when a
// connection breaks, and the same call comes again in the next one. So a client is its own
// run as long as it has its name and its principal.
func (c *client) defaultRun() string {
	run := "mcp:" + c.who.Actor + ":" + c.name
	if len(run) <= maxRun {
		return run
	}
	sum := sha256.Sum256([]byte(run))
	return "mcp:" + hex.EncodeToString(sum[:16])
}

// maxRun is how long a run may be that is made here.
const maxRun = 200
