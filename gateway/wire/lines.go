package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxMessage is the default limit on one message in bytes.
const MaxMessage = 8 << 20

// ErrTooLong: a message is longer than the reader's limit; it was skipped, and the next
// one can be read.
var ErrTooLong = errors.New("message is too long")

// LineReader reads messages of one line each, as stdio carries them.
type LineReader struct {
	r     *bufio.Reader
	limit int
}

// NewLineReader reads lines of at most limit bytes; 0 means MaxMessage.
func NewLineReader(r io.Reader, limit int) *LineReader {
	if limit == 0 {
		limit = MaxMessage
	}
	return &LineReader{bufio.NewReaderSize(r, 64<<10), limit}
}

// Next is the next line that is not empty, without its end, in memory of its own. A last
// line that has no end is none: its writer may have died in the middle of it.
func (l *LineReader) Next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *LineReader) line() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if !tooLong && len(line)+len(part) > l.limit+1 {
			line, tooLong = nil, true
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case tooLong:
			return nil, ErrTooLong
		default:
			return line, nil
		}
	}
}
