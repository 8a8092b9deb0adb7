package drill

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sandbox/retail"
)

// Report is what a drill has shown.
type Report struct {
	Domain  string `json:"domain"`
	Faults  Faults `json:"faults"`
	Seed    uint64 `json:"seed"`
	Tasks   int    `json:"tasks"`
	Daemons int    `json:"daemons"`
	// Kills is how often a daemon was killed.
	Kills int `json:"kills"`
	// Tools are the writing tools, each with its figures, and Total all of them.
	Tools []Tool `json:"tools"`
	Total Tool   `json:"total"`
	// Differ are the tasks in which something is not as it has to be.
	Differ []Difference `json:"differ"`
	TookMS int64        `json:"took_ms"`
	// OK: no task differs.
	OK bool `json:"ok"`

	done int
}

// Tool is what happened to the calls of one tool.
type Tool struct {
	Tool string `json:"tool,omitempty"`
	// Calls were made by the host, Operations came of them, and Effects are the lines of the
	// shops' ledgers.
	Calls      int `json:"calls"`
	Operations int `json:"operations"`
	Effects    int `json:"effects"`
	// Unknown are the operations that were UNKNOWN at some time, and SettledBy what settled
	// those.
	Unknown   int                    `json:"unknown"`
	SettledBy map[pawl.SettledBy]int `json:"settled_by"`
	// WithoutPerson is the share of Unknown that no person settled, from 0 to 1; 1 where
	// nothing was UNKNOWN.
	WithoutPerson float64 `json:"without_person"`
}

// Difference is a task that is not as it has to be.
type Difference struct {
	Task string   `json:"task"`
	What []string `json:"what"`
}

func newReport(o *Options) *Report {
	r := &Report{Domain: "retail", Faults: o.Faults, Seed: o.Seed, Tasks: o.Tasks, Daemons: o.Daemons, Differ: []Difference{}}
	for _, name := range retail.Tools {
		r.Tools = append(r.Tools, Tool{Tool: name, SettledBy: map[pawl.SettledBy]int{}})
	}
	r.Total.SettledBy = map[pawl.SettledBy]int{}
	return r
}

// add counts a task that is over.
func (r *Report) add(h *host, ops []record) {
	r.done++
	effects := h.shop.Effects()
	for i := range r.Tools {
		t := &r.Tools[i]
		t.Calls += h.calls[t.Tool]
		t.Effects += effects[t.Tool]
		for _, op := range ops {
			if op.Tool != t.Tool {
				continue
			}
			t.Operations++
			if op.doubted {
				t.Unknown++
				t.SettledBy[op.SettledBy]++
			}
		}
	}
	if len(h.wrong) > 0 {
		r.Differ = append(r.Differ, Difference{h.task.Name, h.wrong})
	}
}

func (r *Report) finish(kills int, took time.Duration) {
	for i := range r.Tools {
		t := &r.Tools[i]
		t.share()
		r.Total.Calls += t.Calls
		r.Total.Operations += t.Operations
		r.Total.Effects += t.Effects
		r.Total.Unknown += t.Unknown
		for by, n := range t.SettledBy {
			r.Total.SettledBy[by] += n
		}
	}
	r.Total.share()
	r.Kills, r.TookMS, r.OK = kills, took.Milliseconds(), len(r.Differ) == 0
}

func (t *Tool) share() {
	t.WithoutPerson = 1
	if t.Unknown > 0 {
		t.WithoutPerson = 1 - float64(t.SettledBy[pawl.ByPerson])/float64(t.Unknown)
	}
}
