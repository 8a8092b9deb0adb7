package mcptest

import (
	"crypto/rand"
	"encoding/json"
	"strings"
)

// Era is a generation of the protocol.
type Era string

const (
	// Legacy is spoken after an initialize handshake: revision 2025-11-25 and older.
	Legacy Era = "legacy"
	// Modern carries all with each request: revision 2026-07-28.
	Modern Era = "modern"
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
)

// Version is the newest revision of an era.
func (e Era) Version() string {
	if e == Modern {
		return modernVersion
	}
	return legacyVersion
}

type object = map[string]any

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

const (
	invalidParams  = -32602
	methodNotFound = -32601
	internalError  = -32603
)

// A speaker answers requests, whatever carries them.
type speaker struct {
	era    Era
	folder folder
}

// answer does what a request asks for. The fault is what is to become of the answer.
func (s *speaker) answer(m message) (message, Fault) {
	to := message{JSONRPC: "2.0", ID: m.ID}
	var fault Fault
	switch m.Method {
	case "initialize":
		if s.era == Modern {
			to.Error = &failure{methodNotFound, "initialize is of older revisions"}
			break
		}
		to.Result = object{"protocolVersion": legacyVersion, "capabilities": object{"tools": object{}}, "serverInfo": serverInfo}
	case "server/discover":
		if s.era == Legacy {
			to.Error = &failure{methodNotFound, "there is no method server/discover"}
			break
		}
		to.Result = object{
			"supportedVersions": []string{modernVersion}, "capabilities": object{"tools": object{}},
			"serverInfo": serverInfo, "ttlMs": 0, "cacheScope": "private",
		}
	case "ping":
		to.Result = object{}
	case "tools/list":
		to.Result = object{"tools": tools, "ttlMs": 0, "cacheScope": "private"}
	case "tools/call":
		to.Result, to.Error, fault = s.call(m.Params)
	default:
		to.Error = &failure{methodNotFound, "there is no method " + m.Method}
	}
	if result, ok := to.Result.(object); ok && s.era == Modern && result["resultType"] == nil {
		result["resultType"] = "complete"
		result["_meta"] = object{"io.modelcontextprotocol/serverInfo": serverInfo}
	}
	return to, fault
}

var serverInfo = object{"name": "orders", "version": "1.0.0"}

// tools are what an upstream offers: two effects, one of which can be asked for, and reads.
// Its hints are worth nothing: an effect is said to be repeatable.
var tools = []object{
	tool("place_order", "Places an order.", "order_id", "sku", "note?", "marker?"),
	tool("send_note", "Sends a note to a customer.", "to", "text"),
	tool("find_orders", "Lists the orders with an id.", "order_id"),
	tool("echo", "Gives a text back.", "text"),
}

func tool(name, description string, fields ...string) object {
	properties, required := object{}, []string{}
	for _, field := range fields {
		field, optional := strings.CutSuffix(field, "?")
		properties[field] = object{"type": "string"}
		if !optional {
			required = append(required, field)
		}
	}
	read := name == "echo" || name == "find_orders"
	return object{
		"name": name, "description": description,
		"annotations": object{"readOnlyHint": read, "idempotentHint": true, "destructiveHint": false},
		"inputSchema": object{"type": "object", "properties": properties, "required": required},
	}
}

func (s *speaker) call(params json.RawMessage) (any, *failure, Fault) {
	var p struct {
		Name      string
		Arguments map[string]any
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &failure{invalidParams, "bad params"}, ""
	}
	if err := s.folder.add(callsFile, Call{p.Name, p.Arguments}); err != nil {
		return nil, &failure{internalError, err.Error()}, ""
	}
	switch p.Name {
	case "echo":
		text, _ := p.Arguments["text"].(string)
		return content(text), nil, ""
	case "find_orders":
		return s.find(p.Arguments)
	case "place_order", "send_note":
		return s.effect(p.Name, p.Arguments)
	}
	return nil, &failure{invalidParams, "there is no tool " + p.Name}, ""
}

func content(text string) object {
	return object{"content": []object{{"type": "text", "text": text}}}
}

func (s *speaker) find(args map[string]any) (any, *failure, Fault) {
	effects, err := lines[Effect](s.folder, effectsFile)
	if err != nil {
		return nil, &failure{internalError, err.Error()}, ""
	}
	orders := []object{}
	for _, e := range effects {
		if e.Tool == "place_order" && e.Args["order_id"] == args["order_id"] {
			orders = append(orders, object{"id": e.ID, "order_id": e.Args["order_id"], "sku": e.Args["sku"], "marker": e.Args["marker"]})
		}
	}
	text, err := json.Marshal(object{"orders": orders})
	if err != nil {
		return nil, &failure{internalError, err.Error()}, ""
	}
	result := content(string(text))
	result["structuredContent"] = object{"orders": orders}
	return result, nil, ""
}

// effect does the work, durably, and says how its answer is to go wrong.
func (s *speaker) effect(tool string, args map[string]any) (any, *failure, Fault) {
	fault := s.folder.takeFault()
	if !fault.works() {
		return object{"content": []object{}}, nil, fault
	}
	e := Effect{ID: rand.Text()[:10], Tool: tool, Args: args}
	if err := s.folder.add(effectsFile, e); err != nil {
		return nil, &failure{internalError, err.Error()}, ""
	}
	result := content(e.ID)
	result["structuredContent"] = object{"id": e.ID}
	switch fault {
	case Internal:
		return nil, &failure{internalError, "something broke"}, ""
	case IsError:
		result = content("something broke")
		result["isError"] = true
	case UnknownContent:
		result["content"] = []object{{"type": "hologram", "data": e.ID}}
	case TaskResult:
		result = object{"resultType": "task", "taskId": e.ID, "status": "working", "ttlMs": 60000}
	case UnknownResult:
		result["resultType"] = "postponed"
	case Late:
		s.folder.awaitRelease()
	}
	return result, nil, fault
}
