package draft_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/contract/draft"
)

var update = flag.Bool("update", false, "rewrite the expected files and the measured part of docs/init.md")

func shop(t *testing.T) []draft.Tool {
	t.Helper()
	src, err := os.ReadFile("testdata/shop.tools.json")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := draft.ReadTools("shop.tools.json", src)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// drafted drafts tools of a server with the name shop.
func drafted(t *testing.T, tools []draft.Tool, o *draft.Options) *draft.Draft {
	t.Helper()
	if o == nil {
		o = &draft.Options{Server: draft.Server{Name: "shop"}}
	}
	d, err := draft.New(tools, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDraftOfAShop(t *testing.T) {
	t.Parallel()
	d := drafted(t, shop(t), &draft.Options{Server: draft.Server{Name: "shop", Command: []string{"npx", "-y", "@example/shop-mcp"}}, From: "shop.tools.json"})
	got := d.YAML()
	if *update {
		if err := os.WriteFile("testdata/shop.yaml", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("testdata/shop.yaml (-want +got); -update rewrites it:\n%s", diff)
	}
}

func TestTheOrderOfTheListDoesNotMatter(t *testing.T) {
	t.Parallel()
	tools := shop(t)
	forwards := drafted(t, tools, nil).YAML()
	slices.Reverse(tools)
	if backwards := drafted(t, tools, nil).YAML(); !bytes.Equal(forwards, backwards) {
		t.Errorf("got another file for the reversed list:\n%s", cmp.Diff(string(forwards), string(backwards)))
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	type tool = draft.Tool
	argument := func(p draft.Parameter) []draft.Parameter { return []draft.Parameter{p} }
	for _, c := range []struct {
		tool  tool
		trust bool
		want  pawl.Class
	}{
		{tool{Name: "get_order", Description: "Get an order."}, false, pawl.Read},
		{tool{Name: "getOrder"}, false, pawl.Read},
		{tool{Name: "list-orders"}, false, pawl.Read},
		{tool{Name: "order_read", Description: "Read an order."}, false, pawl.Read},
		{tool{Name: "orders.search", Description: "Tools for searching orders."}, false, pawl.Read},
		{tool{Name: "order_read", Description: "Set whether an order counts as read."}, false, pawl.Unsafe},
		{tool{Name: "message_read"}, false, pawl.Unsafe},
		{tool{Name: "status", Description: "Show what is going on."}, false, pawl.Read},
		{tool{Name: "log", Description: "A line for the log."}, false, pawl.Unsafe},
		{tool{Name: "orders"}, false, pawl.Unsafe},
		{tool{Name: "get_or_create_user"}, false, pawl.Unsafe},
		{tool{Name: "fetch_and_ack"}, false, pawl.Unsafe},
		{tool{Name: "find_replace"}, false, pawl.Unsafe},
		{tool{Name: "get_last_update"}, false, pawl.Read},
		{tool{Name: "get_and_update"}, false, pawl.Unsafe},
		{tool{Name: "get_next_job"}, false, pawl.Unsafe},
		{tool{Name: "get_next_page"}, false, pawl.Read},
		{tool{Name: "check_out"}, false, pawl.Unsafe},
		{tool{Name: "check_stock"}, false, pawl.Read},
		{tool{Name: "get_upload_url"}, false, pawl.Unsafe},
		{tool{Name: "getOTP"}, false, pawl.Unsafe},
		{tool{Name: "get_referral_link", Description: "Get the link of a customer."}, false, pawl.Unsafe},
		{tool{Name: "list_links"}, false, pawl.Read},
		{tool{Name: "search_flight", Parameters: argument(draft.Parameter{Name: "destination", Type: "string"})}, false, pawl.Read},
		{tool{Name: "get_mail", Description: "Get a mail and mark it as seen."}, false, pawl.Unsafe},
		{tool{Name: "get_mail", Description: "Gets a mail. Marks it as seen."}, false, pawl.Unsafe},
		{tool{Name: "get_mail", Description: "Gets a mail, which will then delete the copy on the server."}, false, pawl.Unsafe},
		{tool{Name: "get_mail", Description: "Gets a mail. This tool deletes the copy on the server."}, false, pawl.Unsafe},
		{tool{Name: "get_mail", Description: "Use this tool to send a mail."}, false, pawl.Unsafe},
		{tool{Name: "get_mail", Description: "Gets a mail. It does not mark it as seen or delete it."}, false, pawl.Read},
		{tool{Name: "get_mail", Description: "Gets mails, drafts and updates of mails."}, false, pawl.Read},
		{tool{Name: "get_mail", Parameters: argument(draft.Parameter{Name: "mark_seen", Type: "boolean"})}, false, pawl.Unsafe},
		{tool{Name: "get_mail", Parameters: argument(draft.Parameter{Name: "save_to", Type: "string"})}, false, pawl.Unsafe},
		{tool{Name: "get_rows", Parameters: argument(draft.Parameter{Name: "sql", Type: "string"})}, false, pawl.Unsafe},
		{tool{Name: "get_thing", Parameters: argument(draft.Parameter{Name: "method", Type: "string"})}, false, pawl.Unsafe},
		{tool{Name: "get_thing", Parameters: argument(draft.Parameter{Name: "method", Type: "string", Enum: []string{"get_one", "get_all"}})}, false, pawl.Read},
		{tool{Name: "get_thing", Parameters: argument(draft.Parameter{Name: "method", Type: "string", Enum: []string{"get_one", "delete_all"}})}, false, pawl.Unsafe},
		{tool{Name: "orders", Hints: draft.Hints{ReadOnly: yes}}, false, pawl.Unsafe},
		{tool{Name: "orders", Hints: draft.Hints{ReadOnly: yes}}, true, pawl.Read},
		{tool{Name: "delete_orders", Hints: draft.Hints{ReadOnly: yes}}, true, pawl.Unsafe},
		{tool{Name: "get_orders", Hints: draft.Hints{ReadOnly: no}}, false, pawl.Unsafe},
		{tool{Name: "get_orders", Hints: draft.Hints{Destructive: yes}}, true, pawl.Unsafe},
		{tool{Name: "get_orders", Hints: draft.Hints{ReadOnly: yes, Destructive: yes}}, false, pawl.Read},
		{tool{Name: "get_orders", Operation: &draft.Operation{Method: "POST", Path: "/orders"}}, false, pawl.Unsafe},
		{tool{Name: "___"}, false, pawl.Unsafe},
	} {
		d := drafted(t, []draft.Tool{c.tool}, &draft.Options{TrustHints: c.trust})
		e := d.Tools[0]
		if e.Class != c.want {
			t.Errorf("%s (%q, %v): got %s, want %s: %v", c.tool.Name, c.tool.Description, c.tool.Parameters, e.Class, c.want, e.Reasons)
		}
		if len(e.Reasons) == 0 {
			t.Errorf("%s: got no reason", c.tool.Name)
		}
	}
}

func TestAServersOwnPrefixIsNoWordOfTheName(t *testing.T) {
	t.Parallel()
	tools := []draft.Tool{{Name: "notes_list"}, {Name: "notes_get_one"}, {Name: "notes_delete"}}
	want := map[string]pawl.Class{"server/notes_list": pawl.Read, "server/notes_get_one": pawl.Read, "server/notes_delete": pawl.Unsafe}
	for _, e := range drafted(t, tools, &draft.Options{}).Tools {
		if e.Class != want[e.Tool] {
			t.Errorf("%s: got %s, want %s: %v", e.Tool, e.Class, want[e.Tool], e.Reasons)
		}
	}
}

func TestNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{"a/b", "a b", "ä", "a.b", string(make([]byte, 65))} {
		if _, err := draft.New(nil, &draft.Options{Server: draft.Server{Name: upstream}}); err == nil {
			t.Errorf("upstream %q: got no error", upstream)
		}
	}
	long := draft.Tool{Name: "get_" + string(bytes.Repeat([]byte("x"), 120))}
	if _, err := draft.New([]draft.Tool{long}, &draft.Options{Server: draft.Server{Name: "server-name"}}); err == nil {
		t.Error("a name of more than 128 characters: got no error")
	}
}

// TestSuggestedCasesAreContracts: with the comment marks taken off, the cases that a draft
// suggests load.
func TestSuggestedCasesAreContracts(t *testing.T) {
	t.Parallel()
	var lines []string
	for line := range strings.Lines(string(drafted(t, shop(t), nil).YAML())) {
		if bare := strings.Replace(line, "# ", "", 1); strings.HasPrefix(bare, "    when:") || strings.Contains(bare, "{if: ") {
			line = bare
		}
		lines = append(lines, line)
	}
	text := strings.Join(lines, "")
	f, err := contract.Parse("pawl.yaml", []byte(text), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	defer f.Close()
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tools, func(tool pawl.Tool) bool { return tool.Contract.Tool == "shop/order_label_write.remove" }) {
		t.Errorf("got no case of order_label_write:\n%s", text)
	}
}
