package draft_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/contract/draft"
)

// corpus reads a list of the corpora, one file or a folder of files. The test is skipped
// where there are no corpora.
func corpus(t *testing.T, pattern string) []draft.Tool {
	t.Helper()
	dir := os.Getenv("PAWL_CORPORA")
	if dir == "" {
		t.Skip("PAWL_CORPORA is not set: there are no tool lists to draft from")
	}
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	var lists [][]draft.Tool
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := draft.ReadTools(filepath.Base(f), src)
		if err != nil {
			t.Fatal(err)
		}
		lists = append(lists, tools)
	}
	tools, err := draft.Join(lists...)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// bare takes the annotations off.
func bare(tools []draft.Tool) []draft.Tool {
	tools = slices.Clone(tools)
	for i := range tools {
		tools[i].Hints = draft.Hints{}
	}
	return tools
}

// measured compares the classes of a draft with what the server says itself.
type measured struct {
	name                          string
	tools, reads, writes, unknown int
	// wrong are tools that the server calls writing and the draft read, missed those that
	// it calls reading and the draft does not.
	wrong, missed []string
}

func measure(t *testing.T, name string, tools []draft.Tool, o *draft.Options) measured {
	t.Helper()
	m := measured{name: name, tools: len(tools)}
	truth := map[string]*bool{}
	for _, tool := range tools {
		truth["server/"+tool.Name] = tool.Hints.ReadOnly
	}
	if o == nil || !o.TrustHints {
		tools = bare(tools)
	}
	for _, e := range drafted(t, tools, cmpOr(o, &draft.Options{})).Tools {
		readOnly, short := truth[e.Tool], strings.TrimPrefix(e.Tool, "server/")
		switch {
		case readOnly == nil:
			m.unknown++
		case *readOnly:
			if m.reads++; e.Class != pawl.Read {
				m.missed = append(m.missed, short)
			}
		default:
			if m.writes++; e.Class == pawl.Read {
				m.wrong = append(m.wrong, short)
			}
		}
	}
	return m
}

func cmpOr(o, def *draft.Options) *draft.Options {
	if o == nil {
		return def
	}
	return o
}

// servers are the lists whose tools say themselves whether they only read.
var servers = []struct{ name, pattern string }{
	{"github-mcp-server", "github-mcp-server/*.json"},
	{"@modelcontextprotocol/server-filesystem", "mcp-reference-servers/filesystem.tools.json"},
	{"@modelcontextprotocol/server-memory", "mcp-reference-servers/memory.tools.json"},
	{"@modelcontextprotocol/server-everything", "mcp-reference-servers/everything.tools.json"},
}

func TestNoWritingToolIsDraftedAsRead(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		tools := corpus(t, s.pattern)
		m := measure(t, s.name, tools, nil)
		if len(m.wrong) > 0 {
			t.Errorf("%s: drafted as read although the server says that they write: %v", s.name, m.wrong)
		}
		if s.name == "github-mcp-server" && (m.tools != 117 || m.writes != 59) {
			t.Errorf("%s: got %d tools of which %d write, want 117 and 59", s.name, m.tools, m.writes)
		}
		if trusting := measure(t, s.name, tools, &draft.Options{TrustHints: true}); len(trusting.wrong) > 0 {
			t.Errorf("%s with trusted hints: drafted as read although the server says that they write: %v", s.name, trusting.wrong)
		}
	}
}

// TestDraftsLoad: a draft is a file that can be used as it is, and lint warns of each tool.
func TestDraftsLoad(t *testing.T) {
	t.Parallel()
	lists := append(slices.Clone(servers), struct{ name, pattern string }{"retail", "tau-bench-v1/retail/tools.json"})
	for _, s := range lists {
		d := drafted(t, corpus(t, s.pattern), nil)
		f, err := contract.Parse("pawl.yaml", d.YAML(), nil)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		defer f.Close()
		flagged := 0
		for _, finding := range contract.Lint(f) {
			if finding.Code == "draft" {
				flagged++
			}
		}
		if flagged != len(d.Tools) {
			t.Errorf("%s: lint flags %d of %d drafts", s.name, flagged, len(d.Tools))
		}
	}
}

// worked is what people decided about the retail tools of tau-bench: the identity, where
// there is one, in the draft's own form.
var worked = []struct {
	tool     string
	class    pawl.Class
	identity string
}{
	{"calculate", pawl.Read, ""},
	{"cancel_pending_order", pawl.Unsafe, "order_id"},
	{"exchange_delivered_order_items", pawl.Unsafe, "order_id, multiset(zip(item_ids, new_item_ids))"},
	{"find_user_id_by_email", pawl.Read, ""},
	{"find_user_id_by_name_zip", pawl.Read, ""},
	{"get_order_details", pawl.Read, ""},
	{"get_product_details", pawl.Read, ""},
	{"get_user_details", pawl.Read, ""},
	{"list_all_product_types", pawl.Read, ""},
	{"modify_pending_order_address", pawl.Convergent, "order_id, address1, city, state, country, zip, address2?"},
	{"modify_pending_order_items", pawl.Unsafe, "order_id, multiset(zip(item_ids, new_item_ids))"},
	{"modify_pending_order_payment", pawl.Unsafe, "order_id, payment_method_id"},
	{"modify_user_address", pawl.Convergent, "user_id, address1, city, state, country, zip, address2?"},
	{"return_delivered_order_items", pawl.Unsafe, "order_id, multiset(item_ids)"},
	{"think", pawl.Read, ""},
	{"transfer_to_human_agents", pawl.Unsafe, "none"},
}

// identityText writes the identity of a draft as the table of worked does.
func identityText(g draft.IdentityGuess) string {
	if g.Whole != "" {
		return g.Whole
	}
	var all []string
	for _, f := range g.Fields {
		name := f.Name
		if with, zipped := strings.CutPrefix(f.Rule, "multiset(zip("); zipped {
			name = "multiset(zip(" + f.Name + ", " + strings.TrimSuffix(with, "))") + "))"
		} else if f.Rule == "multiset" {
			name = "multiset(" + f.Name + ")"
		}
		if f.Optional {
			name += "?"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// retailRow is one tool of the shop: what people decided and what was drafted.
type retailRow struct {
	tool                   string
	want, got              pawl.Class
	wantIdentity, identity string
	suggested, probe       string
}

func retail(t *testing.T) []retailRow {
	t.Helper()
	d := drafted(t, corpus(t, "tau-bench-v1/retail/tools.json"), &draft.Options{})
	var rows []retailRow
	for i, w := range worked {
		if i >= len(d.Tools) || d.Tools[i].Tool != "server/"+w.tool {
			t.Fatalf("tool %d of the list is not %s", i, w.tool)
		}
		e := d.Tools[i]
		r := retailRow{tool: w.tool, want: w.class, got: e.Class, wantIdentity: w.identity, identity: identityText(e.Identity)}
		if e.Suggested != nil {
			r.suggested = string(e.Suggested.Class)
		}
		if len(e.Probes) > 0 {
			r.probe = strings.TrimPrefix(e.Probes[0], "server/")
		}
		rows = append(rows, r)
	}
	if len(d.Tools) != len(worked) {
		t.Fatalf("got %d tools, want %d", len(d.Tools), len(worked))
	}
	return rows
}

func TestRetailBesideTheWorkedTable(t *testing.T) {
	t.Parallel()
	for _, r := range retail(t) {
		if r.tool == "think" {
			continue // its description says that it appends to a log
		}
		if (r.got == pawl.Read) != (r.want == pawl.Read) {
			t.Errorf("%s: got %s, want %s", r.tool, r.got, r.want)
		}
		if r.identity != r.wantIdentity {
			t.Errorf("%s: got the identity %q, want %q", r.tool, r.identity, r.wantIdentity)
		}
		if r.want == pawl.Convergent && r.suggested != "convergent" {
			t.Errorf("%s: convergent is not suggested", r.tool)
		}
	}
}

const (
	page  = "../../docs/init.md"
	begin = "<!-- measured by contract/draft: begin -->\n"
	end   = "<!-- measured by contract/draft: end -->\n"
)

// TestThePageShowsWhatIsMeasured keeps the tables of docs/init.md current.
func TestThePageShowsWhatIsMeasured(t *testing.T) {
	t.Parallel()
	got := tables(t)
	src, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(src, []byte(begin))
	old, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		t.Fatalf("%s lacks its marks", page)
	}
	if *update {
		if err := os.WriteFile(page, slices.Concat(before, []byte(begin), got, []byte(end), after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(old), string(got)); diff != "" {
		t.Errorf("%s (-page +measured); -update rewrites it:\n%s", page, diff)
	}
}

func tables(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("| server | tools | write | drafted as read though it writes | read | not drafted as read though it reads |\n|---|---|---|---|---|---|\n")
	for _, s := range servers {
		m := measure(t, s.name, corpus(t, s.pattern), nil)
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %d | %s |\n", m.name, m.tools, m.writes, listing(m.wrong), m.reads, listing(m.missed))
	}
	p := payPal(t)
	fmt.Fprintf(&b, "\nPayPal's OpenAPI documents, %d operations: of %d writes %d are drafted as read, and keyed is suggested for %d, which are those that take PayPal-Request-Id; of %d GETs %d are drafted as read and the others left out.\n",
		p.writes+p.gets, p.writes, p.wrong, p.keyed, p.gets, p.reads)
	b.WriteString("\nThe tools of tau-bench's shop beside what people decided about them:\n\n")
	b.WriteString("| tool | decided | drafted | suggested | identity decided | identity drafted | first probe suggested |\n|---|---|---|---|---|---|---|\n")
	same := 0
	rows := retail(t)
	for _, r := range rows {
		identity := "the same"
		if r.identity != r.wantIdentity {
			identity = r.identity
		} else {
			same++
		}
		if r.wantIdentity == "" && identity == "the same" {
			identity = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", r.tool, r.want, r.got, r.suggested, r.wantIdentity, identity, r.probe)
	}
	fmt.Fprintf(&b, "\nIdentity as decided: %d of %d.\n", same, len(rows))
	return b.Bytes()
}

// listing counts names and names them.
func listing(names []string) string {
	if len(names) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: `%s`", len(names), strings.Join(names, "`, `"))
}
