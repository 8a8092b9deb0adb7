package retail

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
)

// corpus is the published domain, where the environment has it.
func corpus(t *testing.T) *Data {
	t.Helper()
	dir := os.Getenv("PAWL_CORPORA")
	if dir == "" {
		t.Skip("PAWL_CORPORA is not set: it names the folder with tau-bench-v1/retail")
	}
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTasksAtTheShop carries out every true action. The shop refuses 20 of the 793, all of
// them because a gift card has too little left: so does the original.
func TestTasksAtTheShop(t *testing.T) {
	t.Parallel()
	d := corpus(t)
	writes, refused := 0, map[string]int{}
	for _, task := range d.Tasks {
		s := d.Open()
		for _, w := range task.Writes {
			writes++
			if code := do(t, s, w); code != "" {
				refused[code]++
			}
		}
	}
	if len(d.Tasks) != 520 || writes != 793 || len(refused) != 1 || refused["insufficient_balance"] != 20 {
		t.Errorf("got %d tasks with %d writes, refused %v, want 520 with 793, 20 of them refused for insufficient_balance", len(d.Tasks), writes, refused)
	}
}

// TestIdentitiesKeepTheTasksWritesApart: under the contract's identities no two writes of a
// task are the same intention, even if the host sends no step. By the order alone, many
// would be.
func TestIdentitiesKeepTheTasksWritesApart(t *testing.T) {
	t.Parallel()
	d := corpus(t)
	contracts := contractOf(t)
	merged, byOrder := 0, 0
	for _, task := range d.Tasks {
		seen, orders := map[string]bool{}, map[string]bool{}
		for _, w := range task.Writes {
			c := contracts[w.Tool]
			args, err := pawl.AppendJSON(nil, argsOf(w))
			if err != nil {
				t.Fatal(err)
			}
			id, err := pawl.Identify(&c, &pawl.Call{Tool: w.Tool, Args: args, Run: task.Name})
			if err != nil {
				t.Fatalf("%s: %s: %v", task.Name, w.Tool, err)
			}
			blob, err := id.Blob(0)
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(blob)] {
				merged++
			}
			if orders[w.Args.OrderID] {
				byOrder++
			}
			seen[string(blob)], orders[w.Args.OrderID] = true, true
		}
	}
	if merged != 0 || byOrder == 0 {
		t.Errorf("got %d writes merged, %d by the order alone, want none and some", merged, byOrder)
	}
}

// argsOf are a call's arguments as JSON has them.
func argsOf(w Write) map[string]any {
	list := func(ids []string) (out []any) {
		for _, id := range ids {
			out = append(out, id)
		}
		return out
	}
	a := &w.Args
	out := map[string]any{
		"order_id": a.OrderID, "payment_method_id": a.PaymentMethodID, "reason": a.Reason,
		"address1": a.Address1, "address2": a.Address2, "city": a.City, "state": a.State, "country": a.Country, "zip": a.Zip,
	}
	if len(a.ItemIDs) > 0 {
		out["item_ids"] = list(a.ItemIDs)
	}
	if len(a.NewItemIDs) > 0 {
		out["new_item_ids"] = list(a.NewItemIDs)
	}
	return out
}

// contractOf reads Contract.
func contractOf(t *testing.T) map[string]pawl.Contract {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(Contract), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := contract.Load(path, &contract.Options{Getenv: func(string) (string, bool) { return "a secret of the test, long enough", true }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if weak := contract.Lint(f); len(weak) > 0 {
		t.Errorf("lint: got %v, want nothing", weak)
	}
	list, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]pawl.Contract{}
	for _, tool := range list {
		out[tool.Contract.Tool] = tool.Contract
	}
	return out
}

// TestContract: it speaks of every tool that writes, of the provider's address and of the
// flight that the provider enforces.
func TestContract(t *testing.T) {
	t.Parallel()
	if !strings.Contains(Contract, "url: "+URL+"\n") {
		t.Errorf("the contract file does not have %s", URL)
	}
	contracts := contractOf(t)
	if len(contracts) != len(Tools) {
		t.Errorf("got %d tools, want %d", len(contracts), len(Tools))
	}
	for _, name := range Tools {
		c := contracts[name]
		if c.Flight != 2*time.Second || c.Probe == nil || !c.Probe.NegativeProof || !c.Probe.SoleWriter || !c.Snapshot {
			t.Errorf("%s: got %+v, want the declared flight, and a probe that proves", name, c)
		}
		if converges := c.Class == pawl.Convergent; converges != Converges(name) {
			t.Errorf("%s: got class %s, converges: %v", name, c.Class, Converges(name))
		}
	}
}

func TestLoadSaysWhatItLookedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Load(dir)
	var none *NoDataError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), filepath.Join(dir, "data", "orders.json")) {
		t.Errorf("an empty folder: got %v, want what was looked for", err)
	}
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("data/orders.json", `{}`)
	write("data/users.json", `{"ana_1":{}}`)
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "products.json") {
		t.Errorf("without products: got %v, want the file named", err)
	}
	write("data/products.json", `{}`)
	if _, err := Load(dir); !errors.As(err, &none) || !strings.Contains(err.Error(), "tasks_*.json") {
		t.Errorf("without tasks: got %v, want what was looked for", err)
	}
	write("tasks_dev.json", `[{"user_id":"ana_1","actions":[{"name":"think","kwargs":{"thought":"?"}},{"name":"modify_user_address","kwargs":{"user_id":"ana_1"}}]}]`)
	d, err := Load(dir)
	if err != nil || len(d.Tasks) != 1 || d.Tasks[0].Name != "dev/0" || !slices.EqualFunc(d.Tasks[0].Writes, []string{UserAddress}, func(w Write, tool string) bool { return w.Tool == tool }) {
		t.Errorf("got %+v, %v, want one task with one write", d, err)
	}
	write("data/orders.json", `{"#W1":{"order_id":"#W1","user_id":"ben_1"}}`)
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "ben_1") {
		t.Errorf("an order of nobody: got %v, want the user named", err)
	}
}
