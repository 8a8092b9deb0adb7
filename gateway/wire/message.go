package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ID is the id of a request as it came: a JSON string or number. It is empty where a
// message has none.
type ID string

// NumberID is the id n.
func NumberID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }

// Message is a JSON-RPC request, notification or response.
type Message struct {
	// ID is empty for a notification, and for the response to a request that could not be read.
	ID ID
	// Method is empty for a response.
	Method string
	// Params are those of a request or notification; nil where there are none.
	Params json.RawMessage
	// Result or Error is what a response has; exactly one of them.
	Result json.RawMessage
	Error  *Error
	// Raw is the text that came; nil for a message made here.
	Raw []byte
}

// Error is the error of a response.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error gives code and message on one line.
func (e *Error) Error() string { return fmt.Sprintf("error %d: %s", e.Code, shorten(e.Message)) }

// ErrMessage: a text is no JSON-RPC message.
var ErrMessage = errors.New("not a JSON-RPC message")

// Request makes a request.
func Request(id ID, method string, params json.RawMessage) *Message {
	return &Message{ID: id, Method: method, Params: params}
}

// Notification makes a notification.
func Notification(method string, params json.RawMessage) *Message {
	return &Message{Method: method, Params: params}
}

// Result makes a response with a result.
func Result(id ID, result json.RawMessage) *Message { return &Message{ID: id, Result: result} }

// Failure makes a response with an error.
func Failure(id ID, err *Error) *Message { return &Message{ID: id, Error: err} }

// IsRequest reports whether the message wants a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != "" }

// IsNotification reports whether the message wants none.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == "" }

// IsResponse reports whether the message is one.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Parse reads one message; batches are none. The raw text is kept, not copied.
func Parse(raw []byte) (*Message, error) {
	o, err := ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	m := &Message{Raw: raw}
	if v, ok := o.Text("jsonrpc"); !ok || v != "2.0" {
		return nil, fmt.Errorf(`%w: jsonrpc is not "2.0"`, ErrMessage)
	}
	if id := o.Get("id"); id != nil {
		if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
			return nil, fmt.Errorf("%w: id is neither a string nor a number", ErrMessage)
		}
		m.ID = ID(id)
	}
	if raw := o.Get("method"); raw != nil {
		var ok bool
		if m.Method, ok = o.Text("method"); !ok || m.Method == "" {
			return nil, fmt.Errorf("%w: method is no text", ErrMessage)
		}
		if o.Get("result") != nil || o.Get("error") != nil {
			return nil, fmt.Errorf("%w: it is both a request and a response", ErrMessage)
		}
		if m.Params = o.Get("params"); m.Params != nil && m.Params[0] != '{' {
			return nil, fmt.Errorf("%w: params is no object", ErrMessage)
		}
		return m, nil
	}
	failure := o.Get("error")
	m.Result = o.Get("result")
	switch {
	case (m.Result == nil) == (failure == nil):
		return nil, fmt.Errorf("%w: want a method, or exactly one of result and error", ErrMessage)
	case m.Result != nil && m.ID == "":
		return nil, fmt.Errorf("%w: a result without an id", ErrMessage)
	case m.Result != nil:
		return m, nil
	}
	if m.Error, err = parseError(failure); err != nil {
		return nil, err
	}
	return m, nil
}

func parseError(raw json.RawMessage) (*Error, error) {
	o, err := ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: error: %w", ErrMessage, err)
	}
	e := &Error{Data: o.Get("data")}
	if json.Unmarshal(o.Get("code"), &e.Code) != nil {
		return nil, fmt.Errorf("%w: error: code is no integer", ErrMessage)
	}
	e.Message, _ = o.Text("message")
	return e, nil
}

// Append adds the message as text on one line, without the line's end.
func (m *Message) Append(b []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0"`...)
	if m.ID != "" {
		b = append(append(b, `,"id":`...), m.ID...)
	} else if m.IsResponse() {
		b = append(b, `,"id":null`...)
	}
	switch {
	case m.Method != "":
		b = append(append(b, `,"method":`...), quote(m.Method)...)
		if m.Params != nil {
			b = append(append(b, `,"params":`...), oneLine(m.Params)...)
		}
	case m.Error != nil:
		b = fmt.Appendf(b, `,"error":{"code":%d,"message":%s`, m.Error.Code, quote(m.Error.Message))
		if m.Error.Data != nil {
			b = append(append(b, `,"data":`...), oneLine(m.Error.Data)...)
		}
		b = append(b, '}')
	default:
		b = append(append(b, `,"result":`...), oneLine(m.Result)...)
	}
	return append(b, '}')
}

// oneLine replaces the line breaks between tokens by spaces; JSON strings have none.
func oneLine(raw json.RawMessage) []byte {
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			b := append([]byte(nil), raw...)
			for j := i; j < len(b); j++ {
				if b[j] == '\n' || b[j] == '\r' {
					b[j] = ' '
				}
			}
			return b
		}
	}
	return raw
}
