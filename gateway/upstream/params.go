package upstream

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// infoOf is who a server is told calls it.
func (u *Upstream) infoOf(c *Client) json.RawMessage {
	if c != nil && c.Info != nil {
		return c.Info
	}
	return wire.Object{{Name: "name", Value: wire.Quote(u.options.Name)}, {Name: "version", Value: wire.Quote(u.options.Version)}}.JSON()
}

// capabilitiesOf are what a client can be asked for, less tasks, which are not passed on.
func (u *Upstream) capabilitiesOf(c *Client) json.RawMessage {
	if c == nil {
		return json.RawMessage("{}")
	}
	o, err := wire.ParseObject(c.Capabilities)
	if err != nil {
		return json.RawMessage("{}")
	}
	o = o.Without(func(name string) bool { return name == "tasks" })
	if extensions, err := wire.ParseObject(o.Get("extensions")); err == nil {
		o = o.With("extensions", extensions.Without(func(name string) bool { return name == wire.ExtensionTasks }).JSON())
	}
	return o.JSON()
}

// asks reports whether a server may ask the client for something.
func (c *Client) asks() bool {
	if c == nil {
		return false
	}
	o, err := wire.ParseObject(c.Capabilities)
	if err != nil {
		return false
	}
	return o.Get("elicitation") != nil || o.Get("sampling") != nil || o.Get("roots") != nil
}

// modernMeta is a _meta with what every modern request says.
func (u *Upstream) modernMeta(meta wire.Object, c *Client, version string) wire.Object {
	return meta.With(wire.MetaVersion, wire.Quote(version)).
		With(wire.MetaClientInfo, u.infoOf(c)).
		With(wire.MetaCapabilities, u.capabilitiesOf(c))
}

// ofOneWay are the keys of _meta that say something about one way, from a client to the
// front or from here to a server, and not about the request.
func ofOneWay(name string) bool {
	switch name {
	case wire.MetaVersion, wire.MetaClientInfo, wire.MetaCapabilities, wire.MetaSubscription, wire.MetaProgressToken:
		return true
	}
	return false
}

// outgoing are a caller's params as they go to the server. Without a caller that could
// answer the server is told that nobody can be asked.
func (k *call) outgoing(params json.RawMessage) (json.RawMessage, error) {
	s, c := k.s, k.client
	modern := s.says.Era == wire.Modern
	return wire.EditMeta(params, func(meta wire.Object) wire.Object {
		meta = meta.Without(func(name string) bool { return ofOneWay(name) || !modern && name == wire.MetaLogLevel })
		if modern {
			meta = s.up.modernMeta(meta, c, s.says.Version)
			if k.caller == nil {
				meta = meta.With(wire.MetaCapabilities, json.RawMessage("{}"))
			}
		}
		if k.token != nil {
			meta = meta.With(wire.MetaProgressToken, json.RawMessage(wire.NumberID(k.id)))
		}
		return meta
	})
}

// modernHeader are the headers by which a modern request can be told without its body.
func modernHeader(method string, params json.RawMessage) http.Header {
	h := http.Header{wire.HeaderMethod: {method}}
	o, err := wire.ParseObject(params)
	if err != nil {
		return h
	}
	for _, name := range []string{"name", "uri", "taskId"} {
		if v, ok := o.Text(name); ok {
			h.Set(wire.HeaderName, wire.EncodeHeader(v))
			break
		}
	}
	return h
}

// paramHeaders adds the arguments that the tool's schema wants in headers too.
func paramHeaders(h http.Header, params json.RawMessage, bindings []binding) {
	o, err := wire.ParseObject(params)
	if err != nil {
		return
	}
	for _, b := range bindings {
		v := o.Get("arguments")
		for _, name := range b.path {
			inner, err := wire.ParseObject(v)
			if v = inner.Get(name); err != nil || v == nil {
				v = nil
				break
			}
		}
		if text, ok := headerValue(v); ok {
			h.Set(wire.HeaderParamPrefix+b.header, wire.EncodeHeader(text))
		}
	}
}

// headerValue is a text, a truth value or a whole number as a header has it.
func headerValue(v json.RawMessage) (string, bool) {
	if len(v) == 0 {
		return "", false
	}
	switch c := v[0]; {
	case c == '"':
		var s string
		err := json.Unmarshal(v, &s)
		return s, err == nil
	case c == 't', c == 'f':
		return string(v), true
	case c == '-' || '0' <= c && c <= '9':
		return string(v), !strings.ContainsAny(string(v), ".eE")
	}
	return "", false
}

// cut makes a server's word fit for a message.
func cut(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	n := most
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
