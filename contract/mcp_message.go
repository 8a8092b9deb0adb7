package contract

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl"
)

// toolMessage is the call of a tool as it is stored. Its text is
//
//	tools/call git
//	Idempotency-Key: 8893dc6d05960a237c3dc2bfd80913b2
//
//	{"arguments":{"message":"…"},"name":"git_commit"}
//
// A line for the method and the server's name, one for each header in the order of the
// names, an empty line, and the params to the end. Each message has one text and each text
// one message.
type toolMessage struct {
	server string
	header []field
	params []byte
}

const toolMethod = "tools/call "

func (m *toolMessage) text() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(toolMethod + m.server + "\n")
	for _, f := range m.header {
		b.WriteString(f.name + ": " + f.value + "\n")
	}
	b.WriteByte('\n')
	b.Write(m.params)
	if b.Len() > maxMessage {
		return nil, fmt.Errorf("the call has %d bytes, more than %d", b.Len(), maxMessage)
	}
	_, err := parseToolMessage(b.Bytes())
	return b.Bytes(), err
}

// parseToolMessage reads what text made and refuses everything else.
func parseToolMessage(raw []byte) (*toolMessage, error) {
	if len(raw) > maxMessage {
		return nil, errMessage
	}
	m := &toolMessage{}
	head, params, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		return nil, errMessage
	}
	for i, line := range strings.Split(string(head), "\n") {
		if i == 0 {
			if m.server, ok = strings.CutPrefix(line, toolMethod); !ok || m.server == "" {
				return nil, fmt.Errorf("%w: method", errMessage)
			}
			continue
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok || !headerName(name) || name != http.CanonicalHeaderKey(name) || !headerValue(value) ||
			len(m.header) > 0 && name <= m.header[len(m.header)-1].name {
			return nil, fmt.Errorf("%w: header", errMessage)
		}
		m.header = append(m.header, field{name, value})
	}
	if _, err := object(params); err != nil || len(params) == 0 {
		return nil, fmt.Errorf("%w: params", errMessage)
	}
	m.params = bytes.Clone(params)
	return m, nil
}

// toolParams are the params of a call.
func toolParams(name string, arguments any, meta map[string]any) ([]byte, error) {
	params := map[string]any{"name": name, "arguments": arguments}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	return pawl.AppendJSON(nil, params)
}
