package conformance

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// A server from npm, with an effect that can be counted where it is.
type server struct {
	// example is the folder of its contract file.
	example string
	program []string // in node_modules
	// prepare makes the place where the effects are, and says what follows the program.
	prepare func(t *testing.T, dir string) (args []string)
	tool    string
	// args ask for the effect, and reworded for the same one in other words.
	args, reworded func(dir string) map[string]any
	// count counts effects of the call in the files themselves.
	count func(t *testing.T, dir string) int
	// bare is what two identical calls without pawl come to.
	bare int
}

var servers = []server{
	{
		example: "git", program: []string{"@cyanheads", "git-mcp-server", "dist", "index.js"}, tool: "git_commit", bare: 2,
		prepare: func(t *testing.T, dir string) []string {
			git(t, dir, "init", "-q")
			git(t, dir, "config", "user.email", "ann@example.com")
			git(t, dir, "config", "user.name", "Ann")
			return nil
		},
		args: func(dir string) map[string]any {
			return map[string]any{"path": dir, "message": "Add the parser", "allowEmpty": true}
		},
		reworded: func(dir string) map[string]any {
			return map[string]any{"path": dir, "message": "Adds a parser", "allowEmpty": true}
		},
		count: func(t *testing.T, dir string) int {
			if _, err := os.Stat(filepath.Join(dir, ".git", "refs", "heads")); err != nil {
				t.Fatal(err)
			}
			return len(strings.Fields(git(t, dir, "rev-list", "--all")))
		},
	},
	{
		example: "filesystem", program: []string{"@modelcontextprotocol", "server-filesystem", "dist", "index.js"}, tool: "edit_file", bare: 2,
		prepare: func(t *testing.T, dir string) []string {
			write(t, dir, "a.txt", "a\n")
			return []string{dir}
		},
		args: func(dir string) map[string]any {
			return map[string]any{"path": filepath.Join(dir, "a.txt"), "edits": []any{map[string]any{"oldText": "a", "newText": "aa"}}}
		},
		reworded: func(dir string) map[string]any {
			return map[string]any{"path": " " + filepath.Join(dir, "a.txt"), "edits": []any{map[string]any{"newText": "aa", "oldText": "a"}}}
		},
		count: func(t *testing.T, dir string) int {
			return strings.Count(read(t, filepath.Join(dir, "a.txt")), "a") - 1
		},
	},
	{
		example: "memory", program: []string{"@modelcontextprotocol", "server-memory", "dist", "index.js"}, tool: "create_entities", bare: 1,
		prepare: func(*testing.T, string) []string { return nil },
		args:    func(string) map[string]any { return entity("likes tea") },
		reworded: func(string) map[string]any {
			return entity("tea is what she likes")
		},
		count: func(t *testing.T, dir string) int {
			return strings.Count(read(t, filepath.Join(dir, "memory.jsonl")), `"Ann"`)
		},
	},
	{
		example: "tasks", program: []string{"@kazuph", "mcp-taskmanager", "dist", "index.js"}, tool: "request_planning", bare: 2,
		prepare: func(*testing.T, string) []string { return nil },
		args:    func(string) map[string]any { return plan("Move house") },
		reworded: func(string) map[string]any {
			return plan("Move into the new house")
		},
		count: func(t *testing.T, dir string) int {
			return strings.Count(read(t, filepath.Join(dir, "tasks.json")), `"originalRequest"`)
		},
	},
}

func entity(observation string) map[string]any {
	return map[string]any{"entities": []any{map[string]any{"name": "Ann", "entityType": "person", "observations": []any{observation}}}}
}

func plan(request string) map[string]any {
	return map[string]any{"originalRequest": request, "tasks": []any{map[string]any{"title": "Pack", "description": "Pack the boxes"}}}
}

// TestServers: a call that is made twice, worded anew, or interrupted by the death of the
// server or of the gateway has one effect, counted in the files of servers that others made.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.example, func(t *testing.T) {
			t.Parallel()
			for name, play := range map[string]func(*trial){
				"alone":              (*trial).alone,
				"twice":              (*trial).twice,
				"reworded":           (*trial).reworded,
				"upstream_killed":    (*trial).upstreamKilled,
				"gateway_killed":     (*trial).gatewayKilled,
				"twice_over_http":    (*trial).twiceOverHTTP,
				"killed_over_http":   (*trial).gatewayKilledOverHTTP,
				"upstream_over_http": (*trial).upstreamKilledOverHTTP,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					play(newTrial(t, s))
				})
			}
		})
	}
}

// A trial is one server behind a gateway.
type trial struct {
	server
	t      *testing.T
	dir    string
	cut    *mcptest.Cut
	config string
}

var (
	commandLine = regexp.MustCompile(`command: \[.*\]`)
	pathOfFile  = strings.NewReplacer("${env:MEMORY_FILE_PATH}", "DIR/memory.jsonl", "${env:TASK_MANAGER_FILE_PATH}", "DIR/tasks.json")
)

func newTrial(t *testing.T, s server) *trial {
	t.Helper()
	tr := &trial{server: s, t: t, dir: t.TempDir()}
	args := s.prepare(t, tr.dir)
	tr.cut = mcptest.NewCut(t, append([]string{node(t), module(t, s.program...)}, args...)...)
	text := read(t, filepath.Join("..", "..", "examples", "mcp", s.example, "pawl.yaml"))
	text = strings.ReplaceAll(pathOfFile.Replace(text), "DIR", tr.dir)
	command := strings.TrimSuffix(strings.TrimPrefix(overStdio(tr.cut.Command()...), "    mcp: {"), "}\n")
	text = commandLine.ReplaceAllLiteralString(text, command)
	tr.config = write(t, t.TempDir(), "pawl.yaml", text)
	return tr
}

// sdk makes calls at once with a client of the TypeScript SDK and returns their results.
func (tr *trial) sdk(to map[string]any, args ...map[string]any) []mcp.CallToolResult {
	tr.t.Helper()
	var calls []any
	for _, a := range args {
		calls = append(calls, map[string]any{"name": tr.tool, "arguments": a, "_meta": meta()})
	}
	to["calls"] = calls
	text, err := json.Marshal(to)
	if err != nil {
		tr.t.Fatal(err)
	}
	out, code := run(tr.t, "client.mjs", string(text))
	if code != 0 {
		tr.t.Fatalf("the client ended with code %d", code)
	}
	var results []mcp.CallToolResult
	for line := range strings.Lines(out) {
		var r mcp.CallToolResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			tr.t.Fatal(err)
		}
		if r.IsError {
			tr.t.Errorf("%s: got %s", tr.tool, line)
		}
		results = append(results, r)
	}
	return results
}

// meta names the run, so that a client that starts anew goes on with it. SDKs write into it.
func meta() map[string]any { return map[string]any{"dev.pawl/run": "trial"} }

func (tr *trial) want(effects int) {
	tr.t.Helper()
	if n := tr.count(tr.t, tr.dir); n != effects {
		tr.t.Errorf("%s: got %d effects, want %d", tr.tool, n, effects)
	}
}

// same wants results that are all the first one's, not what the server says to a second call;
// those that are replayed say so behind it.
func (tr *trial) same(results []mcp.CallToolResult) {
	tr.t.Helper()
	first, err := json.Marshal(results[0].Content[0])
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, r := range results[1:] {
		if text, err := json.Marshal(r.Content[0]); err != nil || string(text) != string(first) {
			tr.t.Errorf("got %s, %v after %s", text, err, first)
		}
	}
}

func (tr *trial) wrapped() map[string]any {
	return map[string]any{"command": mcptest.Wrap(tr.t, tr.config, tr.cut.Command(), "--lease", "4s")}
}

// alone shows what pawl is there for: two identical calls without it.
func (tr *trial) alone() {
	session := connect(tr.t, mcptest.Legacy, child(withEnv(tr)...))
	for range 2 {
		if _, err := session.CallTool(tr.t.Context(), &mcp.CallToolParams{Name: tr.tool, Arguments: tr.args(tr.dir)}); err != nil {
			tr.t.Fatal(err)
		}
	}
	tr.want(tr.bare)
}

// withEnv starts the server with the files of the trial.
func withEnv(tr *trial) []string {
	return append([]string{"env", "MEMORY_FILE_PATH=" + filepath.Join(tr.dir, "memory.jsonl"), "TASK_MANAGER_FILE_PATH=" + filepath.Join(tr.dir, "tasks.json")}, tr.cut.Command()...)
}

func (tr *trial) twice() {
	args := tr.args(tr.dir)
	results := tr.sdk(tr.wrapped(), args, args)
	results = append(results, tr.sdk(tr.wrapped(), args)...)
	tr.same(results)
	tr.want(1)
}

func (tr *trial) twiceOverHTTP() {
	args := tr.args(tr.dir)
	url := mcptest.Serve(tr.t, tr.config, "--lease", "4s").URL + "/mcp"
	results := tr.sdk(map[string]any{"url": url}, args, args)
	results = append(results, tr.sdk(map[string]any{"url": url}, args)...)
	tr.same(results)
	tr.want(1)
}

func (tr *trial) reworded() {
	tr.sdk(tr.wrapped(), tr.args(tr.dir))
	tr.sdk(tr.wrapped(), tr.server.reworded(tr.dir))
	tr.want(1)
}

// A door is a gateway that can be killed, and a client of it.
type door struct {
	session *mcp.ClientSession
	kill    func()
}

func (tr *trial) stdio() door {
	to := child(mcptest.Wrap(tr.t, tr.config, tr.cut.Command(), "--lease", "4s")...)
	session := connect(tr.t, mcptest.Legacy, to)
	return door{session, func() {
		_ = to.Command.Process.Kill() // it may have ended by itself
		_ = session.Close()           // nobody is there
	}}
}

func (tr *trial) http() door {
	g := mcptest.Serve(tr.t, tr.config, "--lease", "4s")
	return door{connect(tr.t, mcptest.Modern, &mcp.StreamableClientTransport{Endpoint: g.URL + "/mcp", MaxRetries: -1}), g.Kill}
}

func (tr *trial) call(ctx context.Context, d door) error {
	_, err := d.session.CallTool(ctx, &mcp.CallToolParams{Meta: meta(), Name: tr.tool, Arguments: tr.args(tr.dir)})
	return err
}

// succeeded waits until the record says so of the one operation.
func (tr *trial) succeeded() {
	tr.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ops := mcptest.Operations(tr.t, tr.config)
		if len(ops) == 1 && ops[0].Status == "SUCCEEDED" {
			return
		}
		if time.Now().After(end) {
			tr.t.Fatalf("got %+v, want one operation that succeeded", ops)
		}
	}
}

func (tr *trial) upstreamKilled()         { tr.killUpstream(tr.stdio()) }
func (tr *trial) upstreamKilledOverHTTP() { tr.killUpstream(tr.http()) }

// killUpstream: the server dies when it has done the work, and its answer is lost.
func (tr *trial) killUpstream(d door) {
	tr.cut.Fail(tr.t, mcptest.Die, tr.tool)
	for range 2 {
		if err := tr.call(tr.t.Context(), d); err != nil {
			tr.t.Error(err)
		}
		tr.cut.Answered(tr.t)
	}
	tr.succeeded()
	tr.want(1)
	if n := len(tr.cut.Calls(tr.t, tr.tool)); n != 1 {
		tr.t.Errorf("got %d calls on the wire, want 1", n)
	}
}

func (tr *trial) gatewayKilled()         { tr.killGateway(tr.stdio) }
func (tr *trial) gatewayKilledOverHTTP() { tr.killGateway(tr.http) }

// killGateway: the gateway dies when the server has done the work; a new one takes over.
func (tr *trial) killGateway(open func() door) {
	d := open()
	tr.cut.Fail(tr.t, mcptest.Late, tr.tool)
	answered := make(chan error, 1)
	go func() { answered <- tr.call(tr.t.Context(), d) }()
	tr.cut.Answered(tr.t)
	d.kill()
	<-answered
	tr.cut.Release(tr.t)
	if err := tr.call(tr.t.Context(), open()); err != nil {
		tr.t.Error(err)
	}
	tr.succeeded()
	tr.want(1)
	if n := len(tr.cut.Calls(tr.t, tr.tool)); n != 1 {
		tr.t.Errorf("got %d calls on the wire, want 1", n)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
