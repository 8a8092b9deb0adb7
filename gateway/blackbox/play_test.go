package blackbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// patience bounds every wait for something to become true.
const patience = 20 * time.Second

// terms are the contract of the upstream's tools. An order carries a marker of ours, by which
// find_orders tells whether it was placed; a note leaves no trace.
const terms = `version: 1
store: pawl.db
upstreams:
  orders:
%[1]s
tools:
  orders/echo: {upstream: orders, class: read}
  orders/find_orders: {upstream: orders, class: read}
  orders/place_order:
    upstream: orders
    effect: order {order_id}
    identity: [order_id]
    free: [note]
    marker: {carrier: argument, name: /marker}
    probe:
      call: {tool: find_orders, args: {order_id: args.order_id}}
      by: marker
      match: response.body.orders.filter(o, o.marker == key)
      lag: 0s
      negative_proof: after_quiescence
%[2]s  orders/send_note:
    upstream: orders
    effect: note to {to}
    identity: [to]
    free: [text]
%[2]s`

// quick are times that are over soon, so that the matrix need not wait for doubt; elsewhere
// the defaults hold, which a busy machine keeps to.
const quick = "    timeout: 1s\n    linger: 3s\n    flight: 4s\n    pause: 4s\n"

// A setting is a gateway, its upstream and a client, over one transport in one era.
type setting struct {
	t        testing.TB
	stdio    bool
	era      mcptest.Era
	config   string
	upstream *mcptest.Upstream
	url      string // empty on stdio
	times    string // of its contract
	client   *mcptest.Client
	kill     func() // ends the gateway as kill -9 does
}

func open(t testing.TB, stdio bool, era mcptest.Era, times string) *setting {
	t.Helper()
	s := &setting{t: t, stdio: stdio, era: era, times: times}
	if stdio {
		s.upstream = mcptest.NewStdio(t, era)
		s.config = contractFile(t, overStdio(s.upstream), times)
	} else {
		s.upstream = mcptest.NewHTTP(t, era)
		s.config = contractFile(t, overHTTP(s.upstream), times)
	}
	s.start()
	return s
}

func contractFile(t testing.TB, upstream, times string) string {
	t.Helper()
	return writeFile(t, fmt.Sprintf(terms, upstream, times))
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func overStdio(u *mcptest.Upstream) string {
	return fmt.Sprintf("    mcp: {command: [\"%s\"]}", strings.Join(u.Command(), `", "`))
}

func overHTTP(u *mcptest.Upstream) string {
	return fmt.Sprintf("    url: %s\n    mcp: {}", u.URL())
}

// start starts the gateway and connects a client.
func (s *setting) start() {
	s.t.Helper()
	var lease []string
	if s.times == quick { // one that was killed soon loses what it worked on
		lease = []string{"--lease", "4s"}
	}
	if s.stdio {
		wrap := mcptest.DialStdio(s.t, s.era, mcptest.Wrap(s.t, s.config, s.upstream.Command(), lease...)...)
		s.client, s.kill = wrap.Client, wrap.Kill
		return
	}
	gateway := mcptest.Serve(s.t, s.config, lease...)
	s.url, s.kill = gateway.URL+"/mcp", gateway.Kill
	s.client = mcptest.DialHTTP(s.t, s.era, s.url)
}

// A play is one row with one tool.
type play struct {
	*setting
	row    row
	tool   string
	args   map[string]any
	answer chan error
	hangUp context.CancelFunc
}

func (s *setting) play(r row, tool string, n int) *play {
	id := fmt.Sprintf("%s-%d", tool, n)
	args := map[string]any{"order_id": id, "sku": "tea"}
	if tool == blind {
		args = map[string]any{"to": id, "text": "hello"}
	}
	return &play{setting: s, row: r, tool: tool, args: args}
}

// The tools of the matrix.
const (
	probed = "place_order"
	blind  = "send_note"
)

// inRun names the run, so that a client of another gateway goes on with it.
var inRun = map[string]any{"dev.pawl/run": "matrix"}

// begin makes the call in the background.
func (p *play) begin() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	client, answer := p.client, make(chan error, 1)
	p.hangUp, p.answer = cancel, answer
	go func() {
		_, err := client.Call(ctx, mcptest.Asked{Tool: p.tool, Args: p.args, Meta: inRun})
		answer <- err
	}()
}

// end waits for the answer, which the gateway owes whatever its upstream does.
func (p *play) end() {
	p.t.Helper()
	if err := <-p.answer; err != nil {
		p.errorf("the call ended with %v, want an answer of the gateway", err)
	}
	p.hangUp()
}

// call asks and waits for the answer.
func (p *play) call() {
	p.t.Helper()
	p.begin()
	p.end()
}

// gone asks and goes away when the upstream has worked.
func (p *play) gone() {
	p.t.Helper()
	p.begin()
	p.until("the upstream has worked", func() bool { return len(p.effects()) > 0 })
}

func (p *play) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("%s: %s: %s", p.row.name, p.tool, fmt.Sprintf(format, args...))
}

// until waits for something that becomes true by itself.
func (p *play) until(what string, true func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.errorf("in vain waited until %s", what)
			return
		}
	}
}

// restarted starts an upstream over HTTP that ended by itself; one on stdio is the gateway's
// to start.
func (p *play) restarted() {
	p.begin()
	if !p.stdio {
		p.upstream.Exited()
		p.upstream.Start(p.t)
	}
	p.end()
}

// late lets the answer come when the call's time is over and the record says so.
func (p *play) late() {
	p.gone()
	p.until("the call's time is over", func() bool { return p.status() != "PENDING" })
	p.upstream.Release(p.t)
	p.end()
}

func (p *play) callerGone() {
	p.gone()
	p.hangUp()
	<-p.answer
	p.upstream.Release(p.t)
}

func (p *play) killed() {
	p.upstream.Kill(p.t)
	p.call()
	if !p.stdio {
		if n := len(p.calls()); n != 0 {
			p.errorf("got %d calls at an upstream that is down, want none", n)
		}
		p.upstream.Start(p.t)
		p.call()
	}
}

func (p *play) gatewayKilled() {
	p.gone()
	p.kill()
	p.hangUp()
	<-p.answer
	p.upstream.Release(p.t)
	p.start()
	p.call()
}

// effects and calls are what the upstream saw of this play.
func (p *play) effects() []mcptest.Effect {
	return slices.DeleteFunc(p.upstream.Effects(p.t), func(e mcptest.Effect) bool { return !p.mine(e.Tool, e.Args) })
}

func (p *play) calls() []mcptest.Call {
	return slices.DeleteFunc(p.upstream.Calls(p.t, ""), func(c mcptest.Call) bool { return !p.mine(c.Tool, c.Args) })
}

func (p *play) mine(tool string, args map[string]any) bool {
	return tool == p.tool && args["order_id"] == p.args["order_id"] && args["to"] == p.args["to"]
}

// status is what the record says of this play's operation.
func (p *play) status() string {
	p.t.Helper()
	var of []string
	for _, op := range mcptest.Operations(p.t, p.config) {
		if strings.HasSuffix(op.Effect, " "+p.id()) {
			of = append(of, op.Status)
		}
	}
	return strings.Join(of, " ")
}

func (p *play) id() string {
	if p.tool == blind {
		return p.args["to"].(string)
	}
	return p.args["order_id"].(string)
}
