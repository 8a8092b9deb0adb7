package server

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"unicode"
)

// Lines takes what libraries write to a log of lines, such as net/http to the standard
// logger, into a structured one. They quote what peers have sent, which may be anybody's
// secret: of each text only the first line counts, up to its first quotation mark.
func Lines(log *slog.Logger) io.Writer { return &lines{log} }

type lines struct{ log *slog.Logger }

// maxLine caps the text of a line in characters.
const maxLine = 200

// Write takes one text. It never fails: there is nobody to tell.
func (l *lines) Write(p []byte) (int, error) {
	text := string(p)
	if end := strings.IndexAny(text, "\n\"`"); end >= 0 {
		text = text[:end]
	}
	n := 0
	text = strings.Map(func(r rune) rune {
		if n++; n > maxLine || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(text))
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "a library reports", slog.String("text", text))
	return len(p), nil
}
