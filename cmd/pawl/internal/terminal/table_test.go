package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestColumnsFold(t *testing.T) {
	t.Parallel()
	header := []string{"ID", "STATUS", "TOOL", "EFFECT"}
	rows := [][]Cell{
		{{Text: "op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e"}, {Text: "UNKNOWN (review)"}, {Text: "issue_refund"}, {Text: "refund of 49.90 EUR on the order A-1182 of ana@example.com"}},
		{{Text: "op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0f"}, {Text: "SUCCEEDED"}, {Text: "send_email"}, {Text: "mail"}},
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{120, `ID                                   STATUS            TOOL          EFFECT
op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e  UNKNOWN (review)  issue_refund  refund of 49.90 EUR on the order A-1182 of
                                                                     ana@example.com
op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0f  SUCCEEDED         send_email    mail
`},
		{60, `ID                                   STATUS
    TOOL          EFFECT
op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e  UNKNOWN (review)
    issue_refund  refund of 49.90 EUR on the order A-1182 of
                  ana@example.com
op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0f  SUCCEEDED
    send_email    mail
`},
	} {
		var b bytes.Buffer
		s := &Screen{w: &b, people: true, width: c.width}
		s.Columns(header, rows)
		if got := b.String(); got != c.want {
			t.Errorf("width %d: got\n%swant\n%s", c.width, got, c.want)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > c.width {
				t.Errorf("width %d: got a line of %d columns: %q", c.width, n, line)
			}
		}
	}
	var b bytes.Buffer
	(&Screen{w: &b, width: 60}).Columns(header, rows)
	if got := strings.Count(b.String(), "\n"); got != 3 {
		t.Errorf("to a pipe: got %d lines, want one for each row", got)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestFirstWriteErrorIsKept(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	s := New(broken{full})
	if New(s) != s {
		t.Error("a Screen of a Screen is another one")
	}
	s.Line("lost")
	s.w = &bytes.Buffer{}
	s.Printf("not lost")
	if s.Err() != full {
		t.Errorf("got %v, want the first error", s.Err())
	}
}
