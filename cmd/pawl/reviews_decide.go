package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newReviewsDecide() *cobra.Command {
	var at place
	var d pawl.Decision
	var q pawl.Query
	var status, reason, result string
	var all, asJSON bool
	count := -1
	c := &cobra.Command{
		Use:   "decide ID CHOICE",
		Short: "Record what a person decided about an operation, or about many",
		Long: `Record what a person decided about an operation. CHOICE is one of

  approve          let what is PREPARED be sent
  reject           end it: a person said no
  withdraw         end it: it is not wanted any more
  happened         the effect exists, seen at the provider
  did-not-happen   it does not and cannot come any more; taken only when no request
                   can arrive, unless --waiver says how you know better
  resend           send the same bytes under the same key again
  fence            see to it at the provider that it never happens
  compensate       undo an effect that is confirmed
  note             add a remark

--version is the version that you looked at, as 'pawl reviews show' prints it: if the
operation has changed since, nothing is recorded.

With --all and without ID it is about everything that waits for a person and matches
the filters. It shows what would be decided; --count, the number that it showed, decides.`,
		Example: `  pawl reviews decide op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e approve --version 1 \
      --who ana --why "the customer is right"`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) == 1 || !all && len(args) == 2:
				return nil
			case all:
				return errors.New("want CHOICE alone with --all")
			case len(args) == 0:
				return errors.New("ID is missing")
			}
			return fmt.Errorf("want ID and CHOICE, got %d arguments", len(args))
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if d.Choice, err = parseChoice(args[len(args)-1]); err != nil {
				return err
			}
			var id pawl.ID
			if !all {
				if id, err = parseID(args[0]); err != nil {
					return err
				}
			}
			if q.Status, err = parseStatus(status); err != nil {
				return err
			}
			if q.ReviewReason, err = parseReason(reason); err != nil {
				return err
			}
			if err := checkDecision(c, &d, result, all); err != nil {
				return err
			}
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			out := terminal.New(c.OutOrStdout())
			if all {
				return decideMany(c, out, db, q, &d, count, asJSON)
			}
			env, err := deciding(db).Decide(c.Context(), q.Tenant, id, d)
			var refused *pawl.Refusal
			if errors.As(err, &refused) && refused.Why == pawl.RefusedVersion {
				if op, got := db.Get(c.Context(), q.Tenant, id); got == nil && d.Version > op.Version {
					return usage("decide %s: there is no version %d yet: it is at version %d", id, d.Version, op.Version)
				} else if got == nil {
					return fmt.Errorf("decide %s: it is at version %d, you looked at version %d: %w", id, op.Version, d.Version, err)
				}
			}
			if err != nil {
				return fmt.Errorf("decide %s: %w", id, err)
			}
			return writeEnvelope(out, &env, asJSON)
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&d.Who, "who", "", "who decides")
	f.StringVar(&d.Why, "why", "", "how you know, or why it is wanted")
	wholeFlag(c, &d.Version, "version", 0, 1, math.MaxInt64, "version of the operation that you looked at")
	f.StringVar(&d.ID, "id", "", "name of the decision: given again with the same content, it changes nothing")
	f.StringVar(&d.Ref, "ref", "", "the provider's id of an effect that happened")
	f.StringVar(&result, "result", "", "the provider's result of it: JSON")
	f.StringVar(&d.Waiver, "waiver", "", "why did-not-happen is true before its time")
	f.StringVar(&d.Reference, "reference", "", "your own name for the decision, such as a ticket")
	f.StringVar(&q.Tenant, "tenant", "", "tenant of the operation")
	f.BoolVar(&all, "all", false, "decide about everything that waits and matches")
	f.StringVar(&status, "status", "", "with --all: only this status")
	f.StringVar(&reason, "reason", "", "with --all: only for this reason")
	f.StringVar(&q.Tool, "tool", "", "with --all: only this tool")
	f.StringVar(&q.Run, "run", "", "with --all: only this run")
	wholeFlag(c, &count, "count", -1, 0, maxListed, "with --all: how many it is about, as it showed before")
	jsonFlag(c, &asJSON)
	return c
}

// parseChoice reads a choice as it is typed.
func parseChoice(s string) (pawl.Choice, error) {
	choice := pawl.Choice(strings.ReplaceAll(s, "-", "_"))
	if !slices.Contains(pawl.Choices, choice) {
		var known []string
		for _, k := range pawl.Choices {
			known = append(known, dashed(k))
		}
		return "", usage("%q is no choice: want one of %s", s, strings.Join(known, ", "))
	}
	return choice, nil
}

// checkDecision refuses a decision that leaves something open, and reads its result.
func checkDecision(c *cobra.Command, d *pawl.Decision, result string, all bool) error {
	switch {
	case strings.TrimSpace(d.Who) == "" || strings.TrimSpace(d.Why) == "":
		return usage("a decision names --who decides and --why")
	case !all && !c.Flags().Changed("version"):
		return usage("--version is missing: look at the operation with 'pawl reviews show ID', which prints it")
	}
	if result != "" {
		if _, err := pawl.ParseJSON([]byte(result)); err != nil {
			return usage("--result: %w", err)
		}
		d.Result = json.RawMessage(result)
	}
	if field, what := d.Fault(); field != "" {
		return usage("--%s %s", field, what)
	}
	return nil
}

// decidedMany is what `pawl reviews decide --all --json` writes.
type decidedMany struct {
	Count int `json:"count"`
	// Decided is false for a preview.
	Decided bool          `json:"decided"`
	Items   []decidedItem `json:"items"`
}

type decidedItem struct {
	ID      string           `json:"id"`
	Version int64            `json:"version"`
	OK      bool             `json:"ok"`
	Status  pawl.Status      `json:"status"`
	Code    pawl.RefusalCode `json:"code,omitempty"`
	Effect  string           `json:"effect"`
}

// decideMany shows what a decision about a set would do, or makes it where the set is as
// large as the person says.
func decideMany(c *cobra.Command, out *terminal.Screen, db pawl.Store, q pawl.Query, d *pawl.Decision, count int, asJSON bool) error {
	ex := deciding(db)
	q.Limit = maxListed
	set, err := ex.Reviews(c.Context(), q)
	if err != nil {
		return err
	}
	if count >= 0 && count != len(set) {
		return fmt.Errorf("%d operations match, and --count says %d: look at them again without --count", len(set), count)
	}
	now, err := db.Now(c.Context())
	if err != nil {
		return err
	}
	list := decidedMany{Count: len(set), Decided: count >= 0, Items: []decidedItem{}}
	failed := 0
	for _, r := range set {
		one := *d
		one.Version = r.Operation.Version
		item := decidedItem{ID: r.Operation.ID.String(), Version: one.Version, OK: true, Status: r.Operation.Status, Effect: r.Operation.Effect}
		refused := pawl.Try(r.Operation, &one, now)
		if list.Decided {
			refused = nil
			env, err := ex.Decide(c.Context(), r.Operation.Tenant, r.Operation.ID, one)
			if err != nil && !errors.As(err, &refused) {
				return fmt.Errorf("decide %s: %w", item.ID, err)
			}
			if err == nil {
				item.Status = env.Status
			}
		}
		if refused != nil {
			item.OK, item.Code = false, refused.Why
			failed++
		}
		list.Items = append(list.Items, item)
	}
	if asJSON {
		return writeJSON(out, list)
	}
	var rows [][]terminal.Cell
	for _, i := range list.Items {
		what := dashed(d.Choice)
		if !i.OK {
			what = "refused: " + string(i.Code)
		}
		rows = append(rows, []terminal.Cell{{Text: i.ID}, {Text: string(i.Status), Style: styleOf(i.Status)}, {Text: what}, {Text: i.Effect}})
	}
	if len(rows) > 0 {
		out.Table([]string{"ID", "STATUS", "DECISION", "EFFECT"}, rows)
	}
	if !list.Decided {
		fmt.Fprintf(c.ErrOrStderr(), "Nothing is decided yet. To decide about these %d, give the command again with --count %d.\n", len(set), len(set))
	} else if failed > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%d of %d were refused.\n", failed, len(set))
	}
	return nil
}
