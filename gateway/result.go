package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// result is what a client gets for an envelope: the upstream's own result where there is
// one, else the envelope as text that the model reads. The envelope is in the result's
// _meta either way, without the result. It is structured content only where the tool
// promises none of its own, because clients hold that to the tool's schema.
//
// A result is an error unless the effect is there or on its way; one without the structured
// content that the tool's schema promises always is, because clients refuse it otherwise.
func (x *exchange) result(t *tool, env *pawl.Envelope) reply {
	full := marshal(env)
	short := *env
	short.Result = nil
	meta := wire.Object{{Name: MetaOperation, Value: marshal(&short)}}
	if o, content, ok := toolResult(env.Result); ok && env.Status != pawl.Unknown {
		if env.ActionTaken == pawl.Replayed || env.Status != pawl.Succeeded {
			o = o.With("content", array(append(content, text(string(marshal(&short))))))
		}
		own, _ := wire.ParseObject(o.Get("_meta")) // one that cannot be read is replaced
		for _, m := range meta {
			own = own.With(m.Name, m.Value)
		}
		r := o.With("_meta", own.JSON()).JSON()
		if x.era == wire.Legacy {
			r = legacy(r)
		}
		return reply{result: r}
	}
	o := wire.Object{
		{Name: "content", Value: array([]json.RawMessage{text(string(full))})},
		{Name: "_meta", Value: meta.JSON()},
	}
	if !t.HasOutputSchema && x.version >= wire.Version20250618 {
		o = o.With("structuredContent", full)
	}
	fine := env.Status == pawl.Succeeded || env.Status == pawl.Pending || env.Status == pawl.Prepared
	if !fine || t.HasOutputSchema {
		o = o.With("isError", json.RawMessage("true"))
	}
	return reply{result: o.JSON()}
}

// toolResult reads a result of an upstream's tools/call. Other results, such as what a probe
// has found, are none.
func toolResult(raw json.RawMessage) (o wire.Object, content []json.RawMessage, ok bool) {
	o, err := wire.ParseObject(raw)
	if err != nil || o.Get("content") == nil || json.Unmarshal(o.Get("content"), &content) != nil {
		return nil, nil, false
	}
	return o, content, true
}

// text is an item of content.
func text(s string) json.RawMessage {
	return wire.Object{{Name: "type", Value: wire.Quote("text")}, {Name: "text", Value: wire.Quote(s)}}.JSON()
}

// array is a JSON array of the items.
func array(items []json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// marshal writes an envelope as the API does.
func marshal(env *pawl.Envelope) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(env); err != nil {
		panic("gateway: an envelope does not marshal: " + err.Error()) // it is plain data, and its result was read as JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
