package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// Event is one server-sent event.
type Event struct {
	// Type is empty for the default, "message".
	Type string
	// ID is the id of the last event that had one, this one included.
	ID   string
	Data []byte
	// Retry is the pause before a new connection that the server asks for; 0 where it asks
	// for none.
	Retry time.Duration
}

// EventReader reads server-sent events.
type EventReader struct {
	r     *bufio.Reader
	limit int
	id    string
	retry time.Duration
	begun bool
	// afterCR: the line before ended in a CR, so that an LF now belongs to that end.
	afterCR bool
}

// NewEventReader reads events of at most limit bytes of data; 0 means MaxMessage.
func NewEventReader(r io.Reader, limit int) *EventReader {
	if limit == 0 {
		limit = MaxMessage
	}
	return &EventReader{r: bufio.NewReaderSize(r, 32<<10), limit: limit}
}

// LastID is the id of the last event that had one.
func (e *EventReader) LastID() string { return e.id }

// Retry is the pause that the server last asked for.
func (e *EventReader) Retry() time.Duration { return e.retry }

// Next is the next event that has data. An event that the end of the stream cuts off is
// none. After ErrTooLong the next event can be read.
func (e *EventReader) Next() (*Event, error) {
	ev := &Event{}
	tooLong, data := false, false
	for {
		line, err := e.line()
		if errors.Is(err, ErrTooLong) {
			tooLong = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			switch {
			case tooLong:
				return nil, ErrTooLong
			case data:
				ev.ID, ev.Retry = e.id, e.retry
				return ev, nil
			}
			ev = &Event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			ev.Type = string(value)
		case "data":
			if data {
				ev.Data = append(ev.Data, '\n')
			}
			data = true
			if tooLong = tooLong || len(ev.Data)+len(value) > e.limit; !tooLong {
				ev.Data = append(ev.Data, value...)
			}
		case "id":
			if !bytes.ContainsRune(value, 0) && len(value) <= maxEventID {
				e.id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// maxEventID caps an id, which is sent back in a header.
const maxEventID = 1 << 10

// line reads to the next LF, CR or CRLF, which it takes off. The slice is good until the
// next call.
func (e *EventReader) line() ([]byte, error) {
	if !e.begun {
		e.begun = true
		if mark, err := e.r.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			e.r.Discard(3) // cannot fail: the bytes are there
		}
	}
	var line []byte
	tooLong := false
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if after := e.afterCR; c == '\n' && after && len(line) == 0 && !tooLong {
			e.afterCR = false
			continue // the second half of a CRLF
		}
		e.afterCR = c == '\r'
		if c == '\r' || c == '\n' {
			if tooLong {
				return nil, ErrTooLong
			}
			return line, nil
		}
		if tooLong = tooLong || len(line) >= e.limit+64; !tooLong {
			line = append(line, c)
		}
	}
}

// EventWriter writes server-sent events.
type EventWriter struct{ w io.Writer }

// NewEventWriter writes to w, one Write an event.
func NewEventWriter(w io.Writer) *EventWriter { return &EventWriter{w} }

// Write writes an event whose data is one line, such as a message. An empty id is left out.
func (e *EventWriter) Write(id string, data []byte) error {
	var b bytes.Buffer
	b.WriteString("event: message\n")
	if id != "" {
		b.WriteString("id: " + strings.Map(visible, id) + "\n")
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	_, err := e.w.Write(b.Bytes())
	return err
}

// Comment writes a line that readers skip, which keeps a connection from looking dead.
func (e *EventWriter) Comment() error {
	_, err := io.WriteString(e.w, ":\n\n")
	return err
}

func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}
