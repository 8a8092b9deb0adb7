package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// addMetrics serves what the process counts, in the format of Prometheus. It tells of every
// tenant, so only the operator's own tenant may read it.
func (d *door) addMetrics() {
	d.gate.handle("GET /metrics", route{who: forRead}, func(w http.ResponseWriter, r *http.Request) {
		if sessionOf(r.Context()).Tenant != "" {
			write(w, problem(http.StatusForbidden, CodeScopeMissing, "metrics tell of every tenant: they are for a token without one"))
			return
		}
		d.opts.Metrics.ServeHTTP(w, r)
	})
	d.huma.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Summary: "What the process counts, for Prometheus",
		Security:    []map[string][]string{{"token": {}}, {}},
		Description: "Needs " + need(forRead) + " and no tenant.",
		Responses: map[string]*huma.Response{
			"200":     {Description: "Metrics in the text format of Prometheus", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
			"default": d.problems(),
		},
	})
}
