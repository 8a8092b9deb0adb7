package sandbox_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/sandbox"
)

// BenchmarkCharge measures one durable effect over a kept connection.
func BenchmarkCharge(b *testing.B) {
	s, err := sandbox.Open(nil)
	if err != nil {
		b.Fatal(err)
	}
	url := listen(b, s)
	client := &http.Client{Timeout: 10 * time.Second}
	for i := 0; b.Loop(); i++ {
		r, err := http.NewRequest("POST", url+"/v1/charges", strings.NewReader(`{"order_id":"B-1","amount":"5","currency":"EUR"}`))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != 201 {
			b.Fatalf("got %v, %v; want 201", resp, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
	client.CloseIdleConnections()
}
