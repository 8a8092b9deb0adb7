package drill

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sandbox/retail"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func corpus(t *testing.T) *retail.Data {
	t.Helper()
	dir := os.Getenv("PAWL_CORPORA")
	if dir == "" {
		t.Skip("PAWL_CORPORA is not set: it names the folder with tau-bench-v1/retail")
	}
	d, err := retail.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestScripts: a seed gives one script, every mode but the mix has the task's writes alone,
// and the mix has all that the tasks lack.
func TestScripts(t *testing.T) {
	t.Parallel()
	d := corpus(t)
	had := map[string]int{}
	for i := range d.Tasks {
		task := &d.Tasks[i]
		var writes []retail.Write
		for _, st := range newScript(d, task, FaultsLost, 1).steps {
			writes = append(writes, st.write)
		}
		if !reflect.DeepEqual(writes, task.Writes) {
			t.Fatalf("task %s: got %+v, want its own writes", task.Name, writes)
		}
		one, same, other := newScript(d, task, FaultsMix, 1), newScript(d, task, FaultsMix, 1), newScript(d, task, FaultsMix, 2)
		if !reflect.DeepEqual(said(one), said(same)) {
			t.Fatalf("task %s: one seed gives two scripts", task.Name)
		}
		if !reflect.DeepEqual(said(one), said(other)) {
			had["differs by seed"]++
		}
		for k, st := range one.steps {
			if st.refused {
				had["refused"]++
			}
			if st.idle {
				had["idle"]++
			}
			if st.together {
				had["together"]++
			}
			if retail.Converges(st.write.Tool) && slices.ContainsFunc(one.steps[:k], func(e *step) bool { return reflect.DeepEqual(e.write, st.write) }) {
				had["changed back"]++
			}
			for _, a := range st.asks {
				switch {
				case a.changed:
					had["changed"]++
				case a.of != st:
					had["earlier"]++
				case !reflect.DeepEqual(a.args, st.args):
					had["reworded"]++
				default:
					had["repeated"]++
				}
			}
		}
	}
	for _, what := range []string{"differs by seed", "refused", "idle", "together", "changed back", "changed", "earlier", "reworded", "repeated"} {
		if had[what] < 5 {
			t.Errorf("%s: got %d in 520 tasks, want more", what, had[what])
		}
	}
}

// said is a script as far as the daemon hears it.
func said(s *script) (out []any) {
	for _, st := range s.steps {
		out = append(out, st.args, st.write, st.turn, st.together)
		for _, a := range st.asks {
			out = append(out, a.args, a.changed)
		}
	}
	return out
}

// TestDice: the same request meets the same fault, and none of a kind is missing.
func TestDice(t *testing.T) {
	t.Parallel()
	one, same, none := dice(FaultsMix, 7), dice(FaultsMix, 7), dice(FaultsNone, 7)
	seen := map[retail.Answer]int{}
	lost, lands, delayed, twice, unharmed := 0, 0, 0, 0, 0
	for n := range 2000 {
		a := retail.Arrival{Tenant: "x-1", Kind: "PUT /users/a/address", N: n, Write: true, Converges: true}
		f := one(a)
		a.Tenant = "y-1" // another drill
		if again := same(a); again != f {
			t.Fatalf("request %d: got %s and %s", n, f, again)
		}
		if got := none(a); got != (retail.Fault{}) {
			t.Fatalf("without faults: got %s", got)
		}
		count := func(to *int, yes bool) {
			if yes {
				*to++
			}
		}
		seen[f.Answer]++
		count(&lost, f.Lost)
		count(&lands, f.Lands > 0)
		count(&delayed, f.Delay > 0)
		count(&twice, f.Twice)
		count(&unharmed, f == retail.Fault{})
		if f.Lost && (f.Answer == retail.AnswerWhole || f.Answer == retail.AnswerCut) || f.Answer == retail.AnswerBusy && !f.Lost {
			t.Fatalf("request %d: got %s, which cannot be", n, f)
		}
	}
	for _, answer := range append(slices.Clone(brokenAnswers), retail.AnswerBusy) {
		if seen[answer] == 0 {
			t.Errorf("answer %s: never", answer)
		}
	}
	for name, n := range map[string]int{"lost": lost, "lands": lands, "delayed": delayed, "twice": twice, "unharmed": unharmed} {
		if n < 50 {
			t.Errorf("%s: got %d of 2000", name, n)
		}
	}
	lostAnswer := dice(FaultsLost, 7)
	for n := range 100 {
		f := lostAnswer(retail.Arrival{Tenant: "x-1", N: n, Write: true})
		if f.Lost || f.Lands > 0 || !slices.Contains(lostAnswers, f.Answer) {
			t.Fatalf("lost answers: got %s, want the work done and no answer", f)
		}
		if f := lostAnswer(retail.Arrival{Tenant: "x-1", N: n}); f != (retail.Fault{}) {
			t.Fatalf("lost answers: got %s on a read, want nothing", f)
		}
	}
}

// TestCompare: an effect too many, one too few and another one are each seen.
func TestCompare(t *testing.T) {
	t.Parallel()
	data := &retail.Data{Users: map[string]*retail.User{"ana_1": {}, "ben_1": {}}}
	lives := func(user, city string) retail.Write {
		return retail.Write{Tool: retail.UserAddress, Args: retail.Args{UserID: user, Address: retail.Address{City: city}}}
	}
	for name, c := range map[string]struct {
		did  []retail.Write
		want string // of the first note; empty for none
	}{
		"as it has to be":  {[]retail.Write{lives("ana_1", "Waco")}, ""},
		"the same again":   {[]retail.Write{lives("ana_1", "Waco"), lives("ana_1", "Waco")}, ""},
		"nothing":          {nil, "user ana_1: got no change"},
		"something else":   {[]retail.Write{lives("ana_1", "Austin")}, "user ana_1: got "},
		"something beside": {[]retail.Write{lives("ana_1", "Waco"), lives("ben_1", "Waco")}, "user ben_1: got "},
	} {
		task := &retail.Task{Name: "t", UserID: "ana_1", Writes: []retail.Write{lives("ana_1", "Waco")}}
		h := &host{task: task, shop: data.Open(), script: newScript(data, task, FaultsNone, 0)}
		for _, w := range c.did {
			if _, err := h.shop.Do(w); err != nil {
				t.Fatal(err)
			}
		}
		h.compare()
		if c.want == "" && len(h.wrong) > 0 || c.want != "" && (len(h.wrong) == 0 || !strings.HasPrefix(h.wrong[0], c.want)) {
			t.Errorf("%s: got %q, want %q", name, h.wrong, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := newReport(&Options{Faults: FaultsMix, Seed: 3, Tasks: 1, Daemons: 1})
	data := &retail.Data{Users: map[string]*retail.User{"ana_1": {}}}
	h := &host{task: &retail.Task{Name: "dev/0"}, shop: data.Open(), calls: map[string]int{retail.Cancel: 3}, wrong: []string{"something"}}
	r.add(h, []record{
		{operation: operation{Tool: retail.Cancel, SettledBy: pawl.ByPerson}, doubted: true},
		{operation: operation{Tool: retail.Cancel, SettledBy: pawl.ByProbe}, doubted: true},
		{operation: operation{Tool: retail.Cancel, SettledBy: pawl.ByAnswer}},
		{operation: operation{Tool: retail.Return, SettledBy: pawl.ByProbe}, doubted: true},
	})
	r.finish(0, 0)
	if r.OK || len(r.Differ) != 1 || r.Differ[0].Task != "dev/0" {
		t.Errorf("got ok %v, %+v, want the task that differs", r.OK, r.Differ)
	}
	got := r.Tools[slices.IndexFunc(r.Tools, func(t Tool) bool { return t.Tool == retail.Cancel })]
	if got.Calls != 3 || got.Operations != 3 || got.Unknown != 2 || got.WithoutPerson != 0.5 || got.SettledBy[pawl.ByPerson] != 1 {
		t.Errorf("got %+v, want 2 of 3 operations doubted and half of those settled without a person", got)
	}
	if r.Total.Unknown != 3 || r.Total.Operations != 4 {
		t.Errorf("got %+v in all, want 3 of 4 operations doubted", r.Total)
	}
}
