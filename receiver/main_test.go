package receiver_test

import (
	"log/slog"
	"os"
	"testing"
)

// Tests let databases fail, which receivers log by default.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
