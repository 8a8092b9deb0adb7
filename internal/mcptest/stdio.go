package mcptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
)

// maxLine is the longest line that is read.
const maxLine = 4 << 20

// serveStdio answers what comes on in until it ends. Requests are worked on side by side,
// and those that are still worked on when in ends are left.
func (s *speaker) serveStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	write := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // a reader that is gone wants no answer
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return errors.Join(errors.New("a line is not JSON"), err)
		}
		if m.ID == nil || m.Method == "" {
			continue // a notification, or an answer that nobody asked for
		}
		go func() {
			for _, line := range s.stdioAnswer(m) {
				write(line)
			}
		}()
	}
	return lines.Err()
}

func (s *speaker) stdioAnswer(m message) [][]byte {
	to, fault := s.answer(m)
	line := encode(to)
	switch fault {
	case DieBefore, Die, Reset, Status400, Status404, Status500, Status503, StreamEnds:
		os.Exit(1)
	case CutJSON:
		return [][]byte{line[:len(line)/2]}
	case Page:
		return [][]byte{[]byte("<html><body>Bad gateway</body></html>")}
	case StrayLine:
		return [][]byte{[]byte("2026-12-01 INFO order placed"), line}
	case Doubled:
		return [][]byte{line, line}
	case IDAsString, OtherID:
		return [][]byte{encode(otherID(to, fault))}
	}
	return [][]byte{line}
}

// otherID spoils the id of an answer.
func otherID(to message, fault Fault) message {
	if fault == OtherID {
		to.ID = json.RawMessage("999999")
	} else if to.ID[0] != '"' {
		to.ID = json.RawMessage(`"` + string(to.ID) + `"`)
	}
	return to
}

func encode(m message) []byte {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // all parts are made of what encoding/json knows
	}
	return line
}
