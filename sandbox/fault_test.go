package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/sandbox"
)

func TestParseFault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ line, want string }{
		{"refuse", "refuse"},
		{"reset before", "reset before"},
		{"reset after", "reset after"},
		{"fin before", "fin before"},
		{"fin after", "fin after"},
		{"delay 3s after", "delay 3s after"},
		{"delay 3000ms before", "delay 3s before"},
		{"status 503 before", "status 503 before"},
		{"status 503 after", "status 503 after"},
		{"accept 202 lands 10s", "accept 202 lands 10s"},
		{"accept 202 fails 1h0m0s", "accept 202 fails 1h"},
		{"cut 12 after", "cut 12 after"},
		{"empty 201 after", "empty 201 after"},
		{"html 200 after", "html 200 after"},
		{"html 502 before", "html 502 before"},
		{"edge 503 work 2s", "edge 503 work 2s"},
		{"edge 503 work 30s; delay 25s after", "delay 25s after; edge 503 work 30s"},
		{"lie 3 absent", "lie 3 absent"},
		{"lie 90s absent", "lie 1m30s absent"},
		{"duplicate", "duplicate"},
		{"garbage after", "garbage after"},
		{"hold after", "hold after"},
		{"hold before", "hold before"},
		{"slow body 1B/s", "slow body 1B/s"},
		{"work 2s", "work 2s"},
		{"  reset   after ;lie 2 absent;  delay 1s before ", "lie 2 absent; delay 1s before; reset after"},
		{"duplicate; hold after; reset after", "duplicate; hold after; reset after"},
	} {
		f, err := sandbox.ParseFault(tc.line)
		if err != nil {
			t.Errorf("%q: got %v, want nil", tc.line, err)
			continue
		}
		if got := f.String(); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.line, got, tc.want)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", ";", "reset after;", "reset", "reset later", "reset after now", "explode", "delay after", "delay 3 after", "delay -3s after",
		"delay 2h after", "delay 1ns before", "status 200 after", "status 600 after", "status x after", "accept 201 lands 10s",
		"cut -1 after", "cut 12 before", "empty 304 after", "html 204 after", "edge 503", "edge 503 work 9h", "lie absent",
		"lie 0 absent", "lie 3 present", "slow body 0B/s", "slow body 5", "slow down 5B/s", "hold", "duplicate 2",
		"reset after; fin after", "delay 1s after; delay 2s after", "reset before; delay 1s after", "reset before; duplicate",
		"status 503 before; hold after", "work 1s; accept 202 lands 2s", "edge 503 work 1s; work 2s", "work 1s; edge 503 work 1s",
		"refuse; delay 1s before", "refuse; hold before", "lie 2 absent; refuse", "lie 2 absent; lie 3s absent", "reset\tafter", "reset after\n", "räset after",
		strings.Repeat("duplicate ", 40),
	} {
		f, err := sandbox.ParseFault(line)
		var wrong *sandbox.FaultError
		if !errors.As(err, &wrong) {
			t.Errorf("%q: got %v, %v; want a FaultError", line, f, err)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	for _, line := range []string{
		"delay 3s after; reset after", "lie 3 absent", "edge 503 work 2s", "slow body 1B/s", "accept 202 lands 10s; hold after", "cut 12 after", "work 1h",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := sandbox.ParseFault(line)
		if err != nil {
			var wrong *sandbox.FaultError
			if !errors.As(err, &wrong) {
				t.Fatalf("%q: got %T, want a FaultError", line, err)
			}
			return
		}
		again, err := sandbox.ParseFault(got.String())
		if err != nil || again != got {
			t.Fatalf("%q: got %+v from %q, %v; want %+v", line, again, got.String(), err, got)
		}
	})
}
