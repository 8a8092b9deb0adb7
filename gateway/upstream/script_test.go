package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/gateway/wire"
)

const scriptWord = "mcp-script"

// script is the command of a legacy server that misbehaves in a way that mcptest has none
// for. Its second word is the way.
func script(way string) []string {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		panic(err)
	}
	return []string{self, scriptWord, way}
}

// player is a server that a script plays.
type player struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (p *player) write(m *wire.Message) { p.line(string(m.Append(nil))) }

func (p *player) line(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.WriteString(s + "\n")
	p.out.Flush()
}

func (p *player) text(id wire.ID, text string) {
	p.write(wire.Result(id, json.RawMessage(`{"content":[{"type":"text","text":`+string(wire.Quote(text))+`}]}`)))
}

func playScript(way string) {
	if way == "sdk" {
		if err := sdkServer(new(atomic.Int64)).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	p := &player{out: bufio.NewWriter(os.Stdout)}
	if way == "env" {
		fmt.Fprintln(os.Stderr, "secret is", os.Getenv("TOKEN"))
	}
	lines := wire.NewLineReader(os.Stdin, 0)
	asked := map[wire.ID]wire.ID{} // our request's id: the call it is for
	for {
		line, err := lines.Next()
		if err != nil {
			if way == "stays" {
				select {}
			}
			return
		}
		m, err := wire.Parse(line)
		if err != nil {
			panic(err)
		}
		switch {
		case m.Method == wire.MethodInitialize && way == "mute":
		case m.Method == wire.MethodInitialize:
			p.write(wire.Result(m.ID, json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"script","version":"1"},"instructions":"be good"}`)))
		case m.Method == wire.NotifyInitialized && way == "deaf":
			os.Stdin.Close() // it goes on to run, and hears nothing
			select {}
		case m.Method == wire.NotifyInitialized && way == "busy":
			time.Sleep(time.Hour)
		case m.Method == wire.NotifyInitialized && way == "roots":
			p.write(wire.Request(`"roots"`, wire.MethodListRoots, nil))
		case m.IsResponse() && m.ID == `"roots"`:
			p.write(wire.Notification(wire.NotifyMessage, json.RawMessage(`{"data":`+string(m.Append(nil))+`}`)))
		case m.IsNotification():
			p.line(string(wire.Notification(wire.NotifyMessage, json.RawMessage(`{"level":"info","data":`+string(wire.Quote(m.Method))+`}`)).Append(nil)))
		case m.IsResponse():
			p.text(asked[m.ID], "answered: "+string(m.Append(nil)))
		case m.Method == wire.MethodListTools:
			p.write(wire.Result(m.ID, json.RawMessage(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)))
		case m.Method == wire.MethodCallTool:
			p.call(way, m, asked)
		case m.Method == "test/raw":
			p.write(wire.Result(m.ID, m.Params))
		default:
			p.write(wire.Failure(m.ID, &wire.Error{Code: wire.CodeMethodNotFound, Message: "no " + m.Method}))
		}
	}
}

func (p *player) call(way string, m *wire.Message, asked map[wire.ID]wire.ID) {
	params, _ := wire.ParseObject(m.Params)
	args, _ := wire.ParseObject(params.Get("arguments"))
	text, _ := args.Text("text")
	name, _ := params.Text("name")
	switch name {
	case "env":
		p.text(m.ID, strings.Join(os.Environ(), "\n"))
	case "family": // starts a process that would outlive it
		cmd := exec.Command("sleep", "3600")
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		p.text(m.ID, strconv.Itoa(cmd.Process.Pid))
	case "ask":
		id := wire.ID(`"q-` + text + `"`)
		asked[id] = m.ID
		p.write(wire.Request(id, wire.MethodElicit, json.RawMessage(`{"message":`+string(wire.Quote(text))+`}`)))
	case "progress":
		token := wire.Meta(m.Params).Get(wire.MetaProgressToken)
		for i := range 3 {
			p.write(wire.Notification(wire.NotifyProgress, json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":%d,"extra":true}`, orNull(token), i+1))))
		}
		p.text(m.ID, "done")
	case "flood": // more than anybody reads
		token := wire.Meta(m.Params).Get(wire.MetaProgressToken)
		for i := range 10 * maxTold {
			p.write(wire.Notification(wire.NotifyProgress, json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, orNull(token), i))))
		}
		p.text(m.ID, "done")
	case "long":
		io.WriteString(os.Stdout, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":"`+strings.Repeat("x", wire.MaxMessage)+`"}`+"\n")
	case "changed":
		p.write(wire.Notification(wire.NotifyToolsChanged, nil))
		p.text(m.ID, "done")
	case "ping":
		asked[`"ping"`] = m.ID
		p.write(wire.Request(`"ping"`, wire.MethodPing, nil))
	case "meta":
		p.text(m.ID, string(wire.Meta(m.Params).JSON()))
	case "wait":
		d, _ := time.ParseDuration(text)
		time.AfterFunc(d, func() { p.text(m.ID, string(m.ID)+" "+text) })
	default:
		p.text(m.ID, text)
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
