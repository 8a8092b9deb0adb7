package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pawl-dev/pawl/sandbox"
)

// A refund is carried out and its answer is lost: the client sees a broken connection,
// the ledger shows one effect.
func Example() {
	s, err := sandbox.Open(nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	server := httptest.NewServer(s.Handler())
	defer server.Close()

	body := `{"order_id": "A-1182", "amount": "49.90", "currency": "EUR"}`
	r, err := http.NewRequest("POST", server.URL+"/v1/refunds", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Pawl-Sandbox-Fault", "reset after")
	_, err = http.DefaultTransport.RoundTrip(r)
	fmt.Println("answered:", err == nil)

	effects, err := s.Effects(sandbox.Filter{Kind: "refund.create"})
	if err != nil {
		panic(err)
	}
	for _, e := range effects {
		fmt.Println(e.Kind, e.Subject, e.Amount, e.Currency)
	}
	// Output:
	// answered: false
	// refund.create A-1182 4990 EUR
}
