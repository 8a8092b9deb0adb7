package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of what is read.
const (
	// MaxInput is the size in bytes of the largest input.
	MaxInput = 16 << 20
	// MaxTools is the greatest number of tools.
	MaxTools = 2000
)

// InputError is an input that no tools can be read from.
type InputError struct {
	File         string
	Line, Column int
	What         string
}

// Error gives file, line, column and reason on one line.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

// listed is one tool in one of the forms that lists have: that of MCP, with the schema under
// inputSchema, or that of chat APIs, with the schema under parameters, by itself or inside
// function.
type listed struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Parameters  json.RawMessage `json:"parameters"`
	Annotations *Hints          `json:"annotations"`
	Function    *listed         `json:"function"`
}

// ReadTools reads a saved tool list: the result of tools/list, the whole response, a list of
// tools, or one tool; as MCP or as chat APIs write them. Name is what errors call it.
func ReadTools(name string, src []byte) ([]Tool, error) {
	fail := func(offset int64, format string, args ...any) error {
		line, column := placeOf(src, int(offset))
		return &InputError{name, line, column, fmt.Sprintf(format, args...)}
	}
	if len(src) > MaxInput {
		return nil, fail(0, "the file is larger than %d bytes", MaxInput)
	}
	if !utf8.Valid(src) {
		return nil, fail(0, "the file is not UTF-8")
	}
	raw := bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	lost := int64(len(src) - len(raw))
	entries, err := entriesOf(raw)
	if err == nil && len(entries) == 0 {
		return nil, fail(0, "no tool is listed")
	}
	var tools []Tool
	for _, e := range entries {
		var t *Tool
		if t, err = toolOf(e); err != nil {
			break
		}
		tools = append(tools, *t)
	}
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return nil, fail(lost+syntax.Offset-1, "no JSON: %s", strings.TrimPrefix(syntax.Error(), "json: "))
	case errors.As(err, &shape):
		return nil, fail(0, "the member %q has another form than a tool list gives it", shape.Field)
	case err != nil:
		return nil, fail(0, "%v", err)
	}
	return checked(name, tools)
}

// checked puts tools in the order of their names and refuses what cannot be a list.
func checked(name string, tools []Tool) ([]Tool, error) {
	slices.SortStableFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	if len(tools) > MaxTools {
		return nil, &InputError{name, 1, 1, fmt.Sprintf("%d tools, at most %d are drafted", len(tools), MaxTools)}
	}
	for i := range tools {
		if i > 0 && tools[i].Name == tools[i-1].Name {
			return nil, &InputError{name, 1, 1, fmt.Sprintf("tool %q is listed twice", shorten(tools[i].Name))}
		}
	}
	return tools, nil
}

// Join puts lists together. A tool of the same name in two of them is an error.
func Join(lists ...[]Tool) ([]Tool, error) {
	return checked("tool lists", slices.Concat(lists...))
}

// entriesOf finds the tools in whatever surrounds them.
func entriesOf(raw []byte) ([]json.RawMessage, error) {
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		var list []json.RawMessage
		return list, json.Unmarshal(raw, &list)
	}
	var around struct {
		Tools  *[]json.RawMessage `json:"tools"`
		Result *struct {
			Tools *[]json.RawMessage `json:"tools"`
		} `json:"result"`
		Name     *string         `json:"name"`
		Function json.RawMessage `json:"function"`
		OpenAPI  *string         `json:"openapi"`
	}
	if err := json.Unmarshal(raw, &around); err != nil {
		return nil, err
	}
	switch {
	case around.Result != nil && around.Result.Tools != nil:
		return *around.Result.Tools, nil
	case around.Tools != nil:
		return *around.Tools, nil
	case around.Name != nil || around.Function != nil:
		return []json.RawMessage{raw}, nil
	case around.OpenAPI != nil:
		return nil, errors.New("this is an OpenAPI document, not a tool list")
	}
	return nil, errors.New("want a tool list: an object with tools, a list of tools, or one tool")
}

func toolOf(raw json.RawMessage) (*Tool, error) {
	var l listed
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	if l.Function != nil {
		l = *l.Function
	}
	if l.Name == "" {
		return nil, errors.New("a tool has no name")
	}
	if len(l.Name) > 128 || strings.ContainsFunc(l.Name, func(r rune) bool { return !plain(r) }) {
		return nil, fmt.Errorf("the tool name %q is none that pawl can use: letters, digits, '_', '-', '.' and '/', at most 128", shorten(l.Name))
	}
	t := &Tool{Name: l.Name, Description: l.Description}
	if l.Annotations != nil {
		t.Hints = *l.Annotations
	}
	if t.Parameters = parameters(l.InputSchema); len(l.InputSchema) == 0 {
		t.Parameters = parameters(l.Parameters)
	}
	return t, nil
}

// plain reports whether a name of a tool may have a letter or sign.
func plain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./", r)
}

// placeOf is the line and column of an offset, counted from 1.
func placeOf(src []byte, offset int) (line, column int) {
	before := src[:min(max(offset, 0), len(src))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// shorten cuts a text from outside for a message.
func shorten(s string) string {
	if utf8.RuneCountInString(s) > 60 {
		return string([]rune(s)[:60]) + "..."
	}
	return s
}
