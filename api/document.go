package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// config is how huma is used: to make schemas from our types, to decode what matches them,
// and to publish them. It serves nothing by itself and knows JSON alone.
func config() huma.Config {
	format := huma.Format{Marshal: marshal, Unmarshal: unmarshal}
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "pawl", Version: "1",
				Description: "Tool calls with side effects that happen once. Every business outcome of a call is 200 with an envelope; everything else is a problem with a code.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "A token of this server. A server on loopback may have none."},
				},
			},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{ours},
	}
	c.RejectUnknownQueryParameters = true
	c.Components.Schemas.Map()["Envelope"] = publishedEnvelope()
	return c
}

// unmarshal decodes a body that the gate has let through. Its errors repeat nothing.
func unmarshal(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: want a value for %s, written as such", name(wrong.Field), wrong.Type)
	case err != nil:
		return errors.New("the members do not have the form that they should")
	}
	return nil
}

// marshal is writeJSON for huma, to which a client that has gone is no error.
func marshal(w io.Writer, v any) error {
	return writeJSON(&deaf{w}, v)
}

// deaf writes to a client that may have gone.
type deaf struct{ w io.Writer }

func (d *deaf) Write(p []byte) (int, error) {
	_, _ = d.w.Write(p) // whoever has gone misses an answer that the record still has
	return len(p), nil
}

// publishedEnvelope is the envelope's own schema as a part of the document.
func publishedEnvelope() *huma.Schema {
	var schema map[string]any
	if err := json.Unmarshal(pawl.EnvelopeSchema, &schema); err != nil {
		panic("api: the envelope's schema is no JSON: " + err.Error())
	}
	delete(schema, "$schema")
	delete(schema, "$id")
	return &huma.Schema{Extensions: schema}
}

// envelope is pawl's, with its published schema.
type envelope struct{ *pawl.Envelope }

// Schema refers to the published schema.
func (envelope) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Ref: "#/components/schemas/Envelope"}
}

// object is a JSON object that is passed on as it was written.
type object struct{ json.RawMessage }

// Schema says what it is.
func (object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// register adds an operation for those who may use it.
func register[I, O any](d *door, rt route, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	op.Metadata = map[string]any{routeKey: rt}
	// The gate has read and checked the body; a time set for it now would end the answer.
	op.MaxBodyBytes, op.BodyReadTimeout, op.SkipValidateBody = MaxBody+1, -1, true
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = d.problems()
	if rt.who != anyone {
		op.Security = []map[string][]string{{"token": {}}, {}}
		op.Description = sentence(op.Description) + "Needs " + need(rt.who) + "."
	}
	huma.Register(d.huma, op, handler)
}

// problems is what every route may answer.
func (d *door) problems() *huma.Response {
	return &huma.Response{
		Description: "A problem",
		Content:     map[string]*huma.MediaType{problemType: {Schema: d.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")}},
	}
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return s + " "
}

func need(who access) string {
	if who == anyToken {
		return "a token"
	}
	return "a token with the scope " + string(who)
}

// addDocument serves the OpenAPI document.
func (d *door) addDocument() {
	schemas := d.huma.OpenAPI().Components.Schemas.Map()
	for _, own := range []string{"ErrorModel", "ErrorDetail"} { // the framework's, which nobody gets to see
		delete(schemas, own)
	}
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(d.huma.OpenAPI()) })
	d.gate.handle("GET /openapi.json", route{who: anyone}, func(w http.ResponseWriter, r *http.Request) {
		raw, err := document()
		if err != nil {
			panic(err) // it is made of our own types
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(raw) // whoever has gone asks again
	})
}
