// Package demo plays a support desk against a sandbox: answers are lost, a worker is
// killed, a model rewords what it wants, and each effect still happens once. Effects are
// counted in the sandbox's own ledger, never in pawl's record.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/sandbox"
)

// Contract is the contract file of the desk.
//
//go:embed pawl.yaml
var Contract string

// Options of Run. Nil and zero fields mean the defaults.
type Options struct {
	// Show is where the scenes are shown as they end; nil shows nothing.
	Show *terminal.Screen
	// Keep leaves the desk's files behind and says where they are.
	Keep bool
}

// Report is the outcome of all scenes.
type Report struct {
	Scenes []*Scene `json:"scenes"`
	// OK: every scene went as expected, and the ledger holds no effect beside theirs.
	OK bool `json:"ok"`

	ledger []sandbox.Effect
	dir    string
	took   time.Duration
}

// Scene is one thing that goes wrong, and what came of it.
type Scene struct {
	Name string `json:"name"`
	// Effects is the number of effects in the sandbox's ledger, Expected what it has to be.
	Effects  int `json:"effects"`
	Expected int `json:"expected_effects"`
	// Status and SettledBy are the record's; without a record, Status is the envelope's.
	Status    pawl.Status    `json:"status"`
	SettledBy pawl.SettledBy `json:"settled_by"`
	// Envelope is what the model reads last.
	Envelope *pawl.Envelope `json:"envelope"`

	title, story string
	play         func(context.Context, *desk, *Scene) error
	run          string // the id of the scene's run
	order        string // the order it is about
	email        string // of the order's customer
	lines        []line
	wrong        []string
}

// OK reports whether the scene went as expected.
func (s *Scene) OK() bool { return len(s.wrong) == 0 && s.Effects == s.Expected }

// check notes what is not as it has to be.
func (s *Scene) check(ok bool, format string, args ...any) {
	if !ok {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

// limit bounds the whole demo.
const limit = 2 * time.Minute

// Run plays every scene. An error means that the demo could not be played; a scene that
// went otherwise than expected is in the report.
func Run(ctx context.Context, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	return run(ctx, o, scenes())
}

func run(ctx context.Context, o *Options, list []*Scene) (_ *Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	d, err := open(ctx, o.Keep)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	r := &Report{OK: true, Scenes: list}
	if o.Keep {
		r.dir = d.dir
	}
	if o.Show != nil {
		showOpening(o.Show)
	}
	expected := 0
	for i, s := range r.Scenes {
		if o.Show != nil {
			showTitle(o.Show, i+1, s)
		}
		if err := d.play(ctx, i, s); err != nil {
			return nil, fmt.Errorf("scene %s: %w", s.Name, err)
		}
		expected += s.Expected
		r.OK = r.OK && s.OK()
		if o.Show != nil {
			showScene(o.Show, s)
		}
	}
	if r.ledger, err = d.box.Effects(sandbox.Filter{Pending: true}); err != nil {
		return nil, err
	}
	r.OK = r.OK && len(r.ledger) == expected
	r.took = time.Since(began)
	if o.Show != nil {
		showEnd(o.Show, r, expected)
	}
	return r, nil
}
