package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
)

// Client is a client of one era that says what a test wants it to: it is no SDK, so that it
// can use an id twice and hang up at any time. Calls may be made at once.
type Client struct {
	era  Era
	last atomic.Int64
	line line
}

// A line carries requests and brings their answers.
type line interface {
	// ask sends a request and returns its answer. A notification, which has no id, has none.
	ask(ctx context.Context, m message) (*response, error)
	close()
}

type response struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  *failure
}

// Result is what a tool answered.
type Result struct {
	Content []struct {
		Type, Text string
	}
	StructuredContent json.RawMessage
	IsError           bool
	ResultType        string
	Meta              map[string]json.RawMessage `json:"_meta"`
}

// Text is the text of all content.
func (r *Result) Text() string {
	var text string
	for _, c := range r.Content {
		text += c.Text
	}
	return text
}

func (r *Result) String() string {
	if r == nil {
		return "no result"
	}
	return fmt.Sprintf("%q (isError %v)", r.Text(), r.IsError)
}

// ErrRefused is an answer that is a JSON-RPC error.
var ErrRefused = errors.New("refused")

// Asked is one tools/call of a client. Zero fields mean nothing special.
type Asked struct {
	Tool string
	Args map[string]any
	Meta map[string]any
	// ID is the raw id of the request; by default one that was not used before.
	ID string
}

// Call calls a tool.
func (c *Client) Call(ctx context.Context, a Asked) (*Result, error) {
	params := object{"name": a.Tool, "arguments": a.Args}
	if a.Args == nil {
		params["arguments"] = object{}
	}
	meta := object{}
	for name, value := range a.Meta {
		meta[name] = value
	}
	result := new(Result)
	return result, c.ask(ctx, "tools/call", a.ID, params, meta, result)
}

// Tools lists the names of the tools.
func (c *Client) Tools(ctx context.Context) ([]string, error) {
	var list struct{ Tools []struct{ Name string } }
	err := c.ask(ctx, "tools/list", "", object{}, object{}, &list)
	names := make([]string, len(list.Tools))
	for i, tool := range list.Tools {
		names[i] = tool.Name
	}
	return names, err
}

// Close hangs up. A server on stdio has ended when it returns.
func (c *Client) Close() { c.line.close() }

func (c *Client) ask(ctx context.Context, method, id string, params, meta object, result any) error {
	if id == "" {
		id = strconv.FormatInt(c.last.Add(1), 10)
	}
	if c.era == Modern {
		meta["io.modelcontextprotocol/protocolVersion"] = modernVersion
		meta["io.modelcontextprotocol/clientCapabilities"] = object{}
		meta["io.modelcontextprotocol/clientInfo"] = clientInfo
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer, err := c.line.ask(ctx, message{JSONRPC: "2.0", ID: json.RawMessage(id), Method: method, Params: text})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", method, err)
	case string(answer.ID) != id:
		return fmt.Errorf("%s: asked under the id %s and answered under %s", method, id, answer.ID)
	case answer.Error != nil:
		return fmt.Errorf("%s: %w with %d: %s", method, ErrRefused, answer.Error.Code, answer.Error.Message)
	}
	return json.Unmarshal(answer.Result, result)
}

var clientInfo = object{"name": "pawl-test", "version": "1"}

// dial opens a client that hangs up when the test ends.
func dial(t testing.TB, era Era, l line) *Client {
	t.Helper()
	c := &Client{era: era, line: l}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.greet(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Client) greet(ctx context.Context) error {
	if c.era == Modern {
		var found struct{ SupportedVersions []string }
		return c.ask(ctx, "server/discover", "", object{}, object{}, &found)
	}
	var met struct{ ProtocolVersion string }
	hello := object{"protocolVersion": legacyVersion, "capabilities": object{}, "clientInfo": clientInfo}
	if err := c.ask(ctx, "initialize", "", hello, object{}, &met); err != nil {
		return err
	}
	if met.ProtocolVersion != legacyVersion {
		return fmt.Errorf("got revision %s, want %s", met.ProtocolVersion, legacyVersion)
	}
	_, err := c.line.ask(ctx, message{JSONRPC: "2.0", Method: "notifications/initialized"})
	return err
}
