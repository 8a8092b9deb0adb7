package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A rule says which packages of ours the packages of one folder may import. It holds for
// the folder and everything below it; the longest folder that fits decides. A package may
// always import what is in its own folder.
type rule struct {
	folder string
	may    []string // folders; what is below them may be imported too
	why    string
}

// rules is the layout. A folder without a rule is refused, so that a new package says
// here what it may know; planned marks those that are not there yet.
var rules = []rule{
	{".", nil, "the root is what people import and knows no technology"},
	{"evidence", []string{"."}, "a transport reports what it saw and knows neither contracts nor stores"},
	{"contract", []string{".", "evidence"}, "a contract file compiles to tools; it knows no store and no door"},
	{"sqlite", []string{"."}, "a store gives atomicity and decides nothing"},
	{"postgres", []string{"."}, "a store gives atomicity and decides nothing"},
	{"storetest", []string{"."}, "the suite knows the Store interface alone, so that it treats every store alike"},
	{"gateway", []string{".", "contract", "evidence"}, "a door is thin: it leads to the executor and knows no store"},
	{"gateway/upstream", []string{".", "contract", "evidence", "gateway/wire"}, "the way to the servers knows nothing of the door before it"},
	{"gateway/wire", nil, "messages as they are on the wire, for both sides"},
	{"api", []string{".", "contract"}, "HTTP doors never import each other or a store"},
	{"passthrough", []string{".", "contract"}, "HTTP doors never import each other or a store"},
	{"console", []string{".", "contract"}, "HTTP doors never import each other or a store"},
	{"telemetry", []string{"."}, "an observer is told what happens and knows nothing else"},
	{"notify", []string{"."}, "an observer is told what happens and knows nothing else"},
	{"receiver", nil, "providers import the receiver alone and must not download the rest"},
	{"sandbox", []string{".", "contract", "receiver"}, "the pretend provider counts effects independently of our stores and transports"},
	{"server", []string{
		".", "evidence", "contract", "sqlite", "postgres", "gateway", "api", "passthrough", "console",
		"telemetry", "notify", "receiver", "sandbox", "internal",
	}, "the one place that wires everything, except what is for tests"},
	{"cmd/pawl", []string{".", "server", "contract", "gateway", "sandbox", "sqlite", "postgres", "receiver", "internal"}, "subcommands hold no logic: they call what is below"},
	{"examples", []string{
		".", "evidence", "contract", "sqlite", "postgres", "gateway", "receiver", "sandbox", "telemetry", "notify",
	}, "an example imports what a user would"},
	{"model", nil, "the model stands beside the code and is run by tools of its own"},
	{"internal", []string{"."}, "shared code knows none of those who share it"},
}

// planned are the folders of the table that are not there yet.
var planned = []string{"passthrough", "console"}

func TestTheTableSaysWhatIsThere(t *testing.T) {
	t.Parallel()
	named := make(map[string]bool)
	for _, r := range rules {
		named[r.folder] = true
		for _, folder := range r.may {
			named[folder] = true
		}
	}
	for folder := range named {
		_, err := os.Stat(filepath.Join(moduleRoot(t), filepath.FromSlash(folder)))
		if there := err == nil; there == slices.Contains(planned, folder) {
			t.Errorf("%s: is there: %v; planned lists the folders of the table that are not", folder, there)
		}
	}
}

// sharesInternal names the folders that may use internal/: all but those that are
// promised to stand alone.
func sharesInternal(folder string) bool { return folder != "." && folder != "receiver" }

func ruleFor(folder string) *rule {
	var best *rule
	for i := range rules {
		r := &rules[i]
		if below(folder, r.folder) && (best == nil || len(r.folder) > len(best.folder)) {
			best = r
		}
	}
	return best
}

// below reports whether a folder is the other one or inside it. Nothing is inside the root.
func below(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

func (r *rule) allows(folder string) bool {
	if below(folder, r.folder) || below(folder, "internal") && sharesInternal(r.folder) {
		return true
	}
	return slices.ContainsFunc(r.may, func(parent string) bool { return below(folder, parent) })
}

func TestImportsFollowTheLayout(t *testing.T) {
	t.Parallel()
	for _, platform := range platforms {
		for _, p := range packages(t, platform) {
			if !p.ours() {
				continue
			}
			r := ruleFor(p.folder())
			if r == nil {
				t.Errorf("%s has no rule: add its folder, what it may import and why to the table in internal/house", p.folder())
				continue
			}
			for _, imported := range p.Imports {
				if isOurs(imported) && !r.allows(folderOf(imported)) {
					t.Errorf("%s imports %s on %s: %s", p.folder(), folderOf(imported), platform, r.why)
				}
			}
		}
	}
}

func TestRootKnowsNoTechnology(t *testing.T) {
	t.Parallel()
	for _, platform := range platforms {
		all := packages(t, platform)
		for _, name := range all[module].Deps {
			p := all[name]
			switch {
			case p.Standard && !below(name, "database/sql") && !below(name, "net/http"):
			case p.Module != nil && p.Module.Path == "golang.org/x/text":
			default:
				t.Errorf("the root depends on %s on %s: it may use the standard library without SQL and HTTP, and golang.org/x/text", name, platform)
			}
		}
	}
}

// testOnly are packages that must not be linked into what people run.
var testOnly = map[string]string{
	"testing":                  "it registers flags and marks code that was written for tests",
	module + "/storetest":      "it is the suite for stores",
	module + "/internal/house": "it is tests alone",
}

func TestBinariesLinkNoTestCode(t *testing.T) {
	t.Parallel()
	for _, platform := range platforms {
		for _, p := range packages(t, platform) {
			if !p.ours() || !(below(p.folder(), "cmd") || below(p.folder(), "server")) {
				continue
			}
			for _, name := range p.Deps {
				if why, no := testOnly[name]; no {
					t.Errorf("%s links %s on %s: %s", p.folder(), name, platform, why)
				}
			}
		}
	}
}

// The rules are data; this holds them to the layout they stand for.
func TestRulesSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{".", "evidence", false},
		{"evidence", ".", true},
		{"evidence/grpcx", "evidence", true},
		{"evidence", "contract", false},
		{"contract", "evidence/smtpx", true},
		{"sqlite", "postgres", false},
		{"sqlite", "storetest", false},
		{"api", "console", false},
		{"receiver", ".", false},
		{"receiver", "internal/clock", false},
		{"server", "storetest", false},
		{"server", "gateway", true},
		{"cmd/pawl", "evidence", false},
		{"sandbox", "sqlite", false},
		{"internal/clock", "sqlite", false},
	} {
		if got := ruleFor(c.from).allows(c.to); got != c.want {
			t.Errorf("%s may import %s: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
	if r := ruleFor("sqlitex"); r != nil {
		t.Errorf("the rule of sqlitex: got that of %s, want none", r.folder)
	}
}
