package upstream

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"time"
)

const (
	// maxLogLine caps a line of a child's standard error in the log, in bytes.
	maxLogLine = 2 << 10
	// maxLogLines caps the lines of one logPeriod.
	maxLogLines = 200
	logPeriod   = 10 * time.Second
)

// logErrors writes a child's standard error to the log until it ends. What is too much is
// read all the same, so that the child never waits for it, and counted.
func logErrors(log *slog.Logger, errs io.Reader, hide *strings.Replacer) {
	r := bufio.NewReaderSize(errs, maxLogLine)
	began, lines, dropped := time.Now(), 0, 0
	report := func() {
		if dropped > 0 {
			log.Warn("lines of the server's errors were not logged", "count", dropped)
		}
	}
	defer report()
	for inside := false; ; {
		part, prefix, err := r.ReadLine()
		if err != nil {
			return
		}
		rest := inside
		inside = prefix
		text := strings.TrimSpace(strings.ToValidUTF8(string(part), "?"))
		if rest || text == "" {
			continue
		}
		if now := time.Now(); now.Sub(began) > logPeriod {
			report()
			began, lines, dropped = now, 0, 0
		}
		if lines++; lines > maxLogLines {
			dropped++
			continue
		}
		log.Info("server says", "text", hide.Replace(text))
	}
}
