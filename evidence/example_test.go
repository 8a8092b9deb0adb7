package evidence_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/pawl-dev/pawl/evidence"
)

func Example() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":"slow down"}`)
	}))
	defer provider.Close()

	t := evidence.New(nil)
	defer t.Close()
	o := t.Attempt(context.Background(), &evidence.Request{Method: "POST", URL: provider.URL + "/refunds", Body: []byte(`{"amount":"49.90"}`)})

	// By convention a 429 means that nothing was done. That is weaker than a contract that says so.
	e := evidence.Classify(o, nil, 1)
	fmt.Println(e.Class, e.Strength)

	e = evidence.Classify(o, &evidence.Rules{
		NoEffect: func(r *evidence.Response) (match, transient bool) {
			return r.Status == http.StatusTooManyRequests, true
		},
	}, 1)
	fmt.Println(e.Class, e.Strength, e.Transient)
	// Output:
	// REJECTED P4
	// REJECTED P3 true
}
