package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// Tool is what a tool's contract declares. Times are milliseconds; 0 means that nothing is
// declared.
type Tool struct {
	Tool   string     `json:"tool"`
	Class  pawl.Class `json:"class" enum:"read,keyed,convergent,unsafe"`
	Effect string     `json:"effect,omitempty" doc:"The effect in words, with {field} for arguments."`
	// Identity lists the fields that make two calls the same intention.
	Identity []string    `json:"identity" nullable:"false" doc:"The fields that make two calls the same intention."`
	Rule     string      `json:"identity_rule" enum:"fields,scope,arguments" doc:"Whether the fields, the scope alone or all arguments are the identity."`
	Free     []string    `json:"free" nullable:"false" doc:"Arguments that may differ between repeats; any other one may not."`
	Scope    pawl.Scope  `json:"scope" enum:"step,run,parent_run,business"`
	Repeat   pawl.Repeat `json:"repeat" enum:"step,explicit"`
	Shared   bool        `json:"shared" doc:"Every actor of the tenant sees the result."`

	Serialize    []string `json:"serialize" nullable:"false" doc:"The fields whose subject has one open operation at a time."`
	Irreversible bool     `json:"irreversible"`
	Probe        bool     `json:"probe" doc:"The provider can be asked."`
	Negative     bool     `json:"negative_proof" doc:"Its no, asked late enough, settles."`
	Fence        bool     `json:"fence" doc:"A late arrival can be called off."`

	Timeout    int64 `json:"timeout_ms" doc:"The longest wait for the answer."`
	MinTime    int64 `json:"min_time_ms" doc:"The least time left of a turn for a start."`
	Retention  int64 `json:"retention_ms" doc:"How long the provider keeps a key."`
	Quiescence int64 `json:"quiescence_ms" doc:"How long after the last permit an absence proves nothing."`

	ContractHash string `json:"contract_hash"`
}

type toolsOutput struct {
	Body struct {
		Tools []Tool `json:"tools" nullable:"false"`
	}
}

func (d *door) addTools() {
	register(d, route{who: anyToken}, huma.Operation{
		OperationID: "tools", Method: http.MethodGet, Path: "/v1/tools", Summary: "List the tools and what their contracts declare",
	}, func(context.Context, *TenantQuery) (*toolsOutput, error) {
		var out toolsOutput
		out.Body.Tools = []Tool{}
		for _, c := range d.ex.Contracts() {
			out.Body.Tools = append(out.Body.Tools, toolOf(&c))
		}
		return &out, nil
	})
}

func toolOf(c *pawl.Contract) Tool {
	t := Tool{
		Tool: c.Tool, Class: c.Class, Effect: c.Effect, Identity: []string{}, Rule: "fields", Free: list(c.Free), Scope: c.Scope,
		Repeat: c.Repeat, Shared: c.Shared, Serialize: list(c.Serialize), Irreversible: c.Irreversible,
		Probe: c.Probe != nil, Negative: c.Probe != nil && c.Probe.NegativeProof, Fence: c.Fence != nil,
		Timeout: ms(c.Timeout), MinTime: ms(c.MinTime), Retention: ms(c.Retention), Quiescence: ms(c.Quiescence()), ContractHash: c.Hash(),
	}
	for _, f := range c.Identity {
		t.Identity = append(t.Identity, f.Name)
	}
	switch {
	case c.IdentityAll:
		t.Rule = "arguments"
	case c.IdentityNone:
		t.Rule = "scope"
	}
	return t
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// list is never null in JSON.
func list(s []string) []string { return append([]string{}, s...) }
