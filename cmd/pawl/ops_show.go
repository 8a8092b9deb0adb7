package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newOpsShow() *cobra.Command {
	var at place
	var tenant string
	var history, asJSON bool
	c := &cobra.Command{
		Use:   "show ID|KEY|REF",
		Short: "Show one operation: what was asked, sent, seen and decided",
		Long: `Show one operation: what was asked, what was sent, what was seen and what was
decided. --history adds the evidence of every change. Name the operation by its id,
by the first 32 hex digits of its key, or by the provider's id of the effect.`,
		Example: "  pawl ops show op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e --history\n  pawl ops show re_1017",
		Args:    oneArg("ID, KEY or REF"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			op, err := named(c.Context(), db, tenant, args[0])
			if err != nil {
				return err
			}
			entries, err := db.History(c.Context(), op.Tenant, op.ID)
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, detail(op, entries))
			}
			writeOperation(out, op, entries, history)
			if op.Status.Open() || !op.Review.IsZero() {
				now, err := db.Now(c.Context())
				if err != nil {
					return err
				}
				writeReview(out, pawl.NewReview(op, now), placeOf(c), now)
			}
			return nil
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&tenant, "tenant", "", "tenant of the operation")
	f.BoolVar(&history, "history", false, "show the evidence of every change")
	jsonFlag(c, &asJSON)
	return c
}

// named finds the operation that a person names by its id, its key or the provider's id.
func named(ctx context.Context, store pawl.Store, tenant, name string) (*pawl.Operation, error) {
	id, noID := pawl.ParseID(name)
	if noID == nil {
		return store.Get(ctx, tenant, id)
	}
	if isKey(name) {
		op, err := findOne(ctx, store, pawl.Query{Tenant: tenant, Key: strings.ToLower(name), Limit: 10})
		if !errors.Is(err, pawl.ErrNotFound) {
			return op, err
		}
	}
	op, err := findOne(ctx, store, pawl.Query{Tenant: tenant, Ref: name, Limit: 10})
	if errors.Is(err, pawl.ErrNotFound) && strings.HasPrefix(name, "op_") {
		return nil, usage("%w", noID)
	}
	return op, err
}

// isKey reports whether a name has the form of a key.
func isKey(name string) bool {
	raw, err := hex.DecodeString(name)
	return err == nil && len(raw) == 16
}

// findOne returns the one operation that a query selects.
func findOne(ctx context.Context, store pawl.Store, q pawl.Query) (*pawl.Operation, error) {
	ops, err := store.Find(ctx, q)
	if err != nil {
		return nil, err
	}
	switch len(ops) {
	case 0:
		return nil, pawl.ErrNotFound
	case 1:
		return ops[0], nil
	}
	ids := make([]string, len(ops))
	for i, op := range ops {
		ids[i] = op.ID.String()
	}
	return nil, fmt.Errorf("%d operations match; show one of them by its id: %s", len(ops), strings.Join(ids, ", "))
}

const instant = "2006-01-02 15:04:05.000 MST"

// when shows a point in time, or nothing.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(instant)
}

func writeOperation(out *terminal.Screen, op *pawl.Operation, entries []pawl.Entry, evidence bool) {
	env := pawl.Report(op, time.Now())
	out.Line(out.Paint(styleOf(op.Status), string(op.Status)), "  ", terminal.Escape(env.Effect))
	place := op.Run
	if op.Step != "" {
		place += ", step " + op.Step
	}
	writeFacts(out, [][2]string{
		{"operation", op.ID.String()}, {"version", itoa(op.Version)}, {"tool", op.Tool}, {"run", place}, {"parent run", op.ParentRun},
		{"scope", string(op.Scope)}, {"tenant", op.Tenant}, {"actor", op.Actor}, {"identity", string(op.Identity)},
		{"arguments", string(op.Args)}, {"key", op.Key.String()}, {"reason", reasonOf(op, env)}, {"settled by", string(op.SettledBy)},
		{"ref", op.Ref}, {"result", string(op.Result)}, {"begun", when(op.Created)}, {"changed", when(op.Updated)},
		{"next move", when(op.Due)},
	})
	heading(out, "Attempts")
	var rows [][]terminal.Cell
	for _, a := range op.Attempts {
		class := string(a.Class)
		switch {
		case a.Lost:
			class = "lost with its worker"
		case a.Out():
			class = "out"
		}
		code := ""
		if a.Code != 0 {
			code = itoa(a.Code)
		}
		rows = append(rows, []terminal.Cell{
			{Text: itoa(a.N)}, {Text: string(a.Kind)}, {Text: when(a.Permit)}, {Text: class}, {Text: a.Proof}, {Text: code}, {Text: a.Worker},
		})
	}
	out.Columns([]string{"N", "KIND", "PERMIT", "CLASS", "PROOF", "CODE", "WORKER"}, rows)
	writeLast(out, op, entries)
	heading(out, "History")
	writeHistory(out, entries, evidence)
	if evidence {
		heading(out, "Request")
		for line := range strings.SplitSeq(strings.TrimRight(string(op.Request), "\n"), "\n") {
			out.Line("  ", terminal.Escape(line))
		}
	}
}

// reasonOf is the reason that the envelope gives, and the record's own where it tells more.
func reasonOf(op *pawl.Operation, env *pawl.Envelope) string {
	if env.Reason == op.Reason || op.Reason == pawl.ReasonNone {
		return string(env.Reason)
	}
	return fmt.Sprintf("%s (%s)", env.Reason, op.Reason)
}

// writeLast says of the last attempt what the table does not: why a refusal settles
// nothing, and what went wrong.
func writeLast(out *terminal.Screen, op *pawl.Operation, entries []pawl.Entry) {
	if len(op.Attempts) == 0 {
		return
	}
	last := &op.Attempts[len(op.Attempts)-1]
	var lines [][2]string
	if last.Strength == pawl.P4 && !last.NoEffect {
		lines = append(lines, [2]string{"answer", fmt.Sprintf("answered %d, which the contract does not call a proof of no effect", last.Code)})
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if e := &entries[i]; e.Evidence != nil && e.Attempt == last.N {
			lines = append(lines, [2]string{"error", e.Evidence.Error})
			break
		}
	}
	writeFacts(out, lines)
}

func heading(out *terminal.Screen, text string) { out.Printf("\n%s\n", out.Paint(terminal.Bold, text)) }
