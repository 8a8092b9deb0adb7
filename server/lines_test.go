package server

import (
	"encoding/json"
	"log"
	"log/slog"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := log.New(Lines(slog.New(slog.NewJSONHandler(&out, nil))), "", 0)
	for _, c := range []struct{ said, want string }{
		{"http: TLS handshake error from 127.0.0.1:5: EOF", "http: TLS handshake error from 127.0.0.1:5: EOF"},
		{"Unsolicited response received on idle HTTP channel starting with \"SECRET\"; err=<nil>", "Unsolicited response received on idle HTTP channel starting with"},
		{"http: panic serving 127.0.0.1:5: oops\ngoroutine 1 SECRET", "http: panic serving 127.0.0.1:5: oops"},
		{"\x1b[31mred\x00" + strings.Repeat("x", 1000), "[31mred" + strings.Repeat("x", 198-len("[31mred"))},
		{"", ""},
	} {
		out.Reset()
		l.Print(c.said)
		var line struct{ Level, Msg, Text string }
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
			t.Fatal(err)
		}
		if line.Text != c.want || line.Level != "WARN" || strings.Contains(out.String(), "SECRET") {
			t.Errorf("%q: got %q, want %q", c.said, line.Text, c.want)
		}
	}
}
