package evidence

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkAttempt compares a warm HTTP/1.1 exchange with the standard client's.
func BenchmarkAttempt(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":1}`)
	}))
	defer server.Close()
	b.Run("pawl", func(b *testing.B) {
		tr := New(nil)
		defer tr.Close()
		r := post(server.URL)
		b.ReportAllocs()
		for b.Loop() {
			if o := tr.Attempt(b.Context(), r); Classify(o, nil, 1).Class != success {
				b.Fatal(o.Err)
			}
		}
	})
	b.Run("http.Client", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			res, err := client.Post(server.URL+"/pay", "application/json", bytes.NewReader([]byte(payment)))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != nil {
				b.Fatal(err)
			}
			res.Body.Close()
		}
	})
}
