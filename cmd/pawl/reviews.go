package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newReviews() *cobra.Command {
	c := &cobra.Command{
		Use:     "reviews",
		Short:   "Look at what waits for a person, and decide",
		Example: "  pawl reviews list",
	}
	c.AddCommand(newReviewsList(), newReviewsShow(), newReviewsDecide())
	return c
}

// review is a REVIEW of the JSON shapes.
type review struct {
	Operation operation      `json:"operation"`
	LookFor   []pawl.LookFor `json:"look_for,omitempty"`
	SafeAt    time.Time      `json:"safe_at,omitzero"`
	KeyUntil  time.Time      `json:"key_until,omitzero"`
	Expires   time.Time      `json:"expires,omitzero"`
	Approval  *pawl.Approval `json:"approval,omitempty"`
	Order     pawl.Choice    `json:"order,omitempty"`
	Choices   []offer        `json:"choices"`
}

// offer is a choice and why it cannot be made now.
type offer struct {
	Choice pawl.Choice      `json:"choice"`
	Legal  bool             `json:"legal"`
	Code   pawl.RefusalCode `json:"code,omitempty"`
	Why    string           `json:"why,omitempty"`
	Waiver bool             `json:"waiver,omitempty"`
}

func reviewOf(r *pawl.Review) review {
	v := review{
		Operation: summary(r.Operation), LookFor: r.LookFor, SafeAt: r.SafeAt, KeyUntil: r.KeyUntil, Expires: r.Expires,
		Approval: r.Operation.Approval, Order: r.Operation.Order, Choices: []offer{},
	}
	for _, o := range r.Offers {
		v.Choices = append(v.Choices, offer{o.Choice, o.Legal, o.Code, o.Why, o.Waiver})
	}
	return v
}

// deciding is an executor that looks and decides, and sends nothing.
func deciding(store pawl.Store) *pawl.Executor {
	return pawl.New(store, &pawl.Options{Log: slog.New(slog.DiscardHandler)})
}

// reviewed is what `pawl reviews list --json` writes.
type reviewed struct {
	Reviews []review `json:"reviews"`
	// More: the list was cut at its limit.
	More bool `json:"more"`
}

func newReviewsList() *cobra.Command {
	var at place
	var q pawl.Query
	var status, reason string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List what waits for a person, newest first",
		Long: `List what waits for a person, newest first. PREPARED waits for a yes, UNKNOWN for
somebody who finds out at the provider.

Where the output is no terminal, each line has the tab-separated fields id, status,
tool, reason, since, time left, effect.`,
		Example: "  pawl reviews list\n  pawl reviews list --status PREPARED --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if q.Status, err = parseStatus(status); err != nil {
				return err
			}
			if q.ReviewReason, err = parseReason(reason); err != nil {
				return err
			}
			limit := q.Limit
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			q.Limit++ // one more tells whether there are more
			found, err := deciding(db).Reviews(c.Context(), q)
			if err != nil {
				return err
			}
			list := reviewed{Reviews: []review{}, More: len(found) > limit}
			for _, r := range found[:min(len(found), limit)] {
				list.Reviews = append(list.Reviews, reviewOf(r))
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, list)
			}
			writeReviews(out, list.Reviews, time.Now())
			switch {
			case len(found) == 0:
				fmt.Fprintln(c.ErrOrStderr(), "Nothing waits for a person.")
			case list.More:
				fmt.Fprintf(c.ErrOrStderr(), "There are more than %d: narrow the list, or raise --limit.\n", limit)
			}
			return nil
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&status, "status", "", "only this status, such as PREPARED")
	f.StringVar(&reason, "reason", "", "only for this reason, such as candidate")
	f.StringVar(&q.Tool, "tool", "", "only this tool")
	f.StringVar(&q.Run, "run", "", "only this run")
	f.StringVar(&q.Tenant, "tenant", "", "tenant to look at")
	f.BoolVar(&q.AllTenants, "all-tenants", false, "look at every tenant")
	wholeFlag(c, &q.Limit, "limit", 50, 1, maxListed, "most lines")
	jsonFlag(c, &asJSON)
	return c
}

// parseReason reads a reason; empty is none.
func parseReason(s string) (pawl.Reason, error) {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "", usage("--reason: want small letters and _, as the list shows reasons")
	}
	return pawl.Reason(s), nil
}

func writeReviews(out *terminal.Screen, list []review, now time.Time) {
	var rows [][]terminal.Cell
	for i := range list {
		r := &list[i]
		since := r.Operation.Review.Format(time.RFC3339)
		if out.People() {
			since = r.Operation.Review.Local().Format("Jan 02 15:04:05")
		}
		rows = append(rows, []terminal.Cell{
			{Text: r.Operation.ID}, {Text: string(r.Operation.Status), Style: styleOf(r.Operation.Status)}, {Text: r.Operation.Tool},
			{Text: string(r.Operation.ReviewReason)}, {Text: since}, {Text: orDash(out, r.left(now))}, {Text: r.Operation.Effect},
		})
	}
	if len(rows) > 0 {
		out.Table([]string{"ID", "STATUS", "TOOL", "REASON", "SINCE", "LEFT", "EFFECT"}, rows)
	}
}

// left says how much time is left: for a yes, or until the key may be forgotten.
func (r *review) left(now time.Time) string {
	end := r.Expires
	if end.IsZero() {
		end = r.KeyUntil
	}
	switch left := end.Sub(now); {
	case end.IsZero():
		return ""
	case left <= 0:
		return "over"
	default:
		return left.Truncate(time.Second).String()
	}
}

// shownReview is what `pawl reviews show --json` writes.
type shownReview struct {
	Review review `json:"review"`
	Detail *shown `json:"detail"`
}

func newReviewsShow() *cobra.Command {
	var at place
	var tenant string
	var asJSON bool
	c := &cobra.Command{
		Use:     "show ID",
		Short:   "Show an operation with what to look for and what can be decided",
		Example: "  pawl reviews show op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e",
		Args:    oneArg("ID"),
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
			now, err := db.Now(c.Context())
			if err != nil {
				return err
			}
			r := pawl.NewReview(op, now)
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, shownReview{reviewOf(r), detail(op, entries)})
			}
			writeOperation(out, op, entries, false)
			writeReview(out, r, placeOf(c), now)
			return nil
		},
	}
	at.flags(c)
	c.Flags().StringVar(&tenant, "tenant", "", "tenant of the operation")
	jsonFlag(c, &asJSON)
	return c
}

// writeReview says what to look for, and what a person can do.
func writeReview(out *terminal.Screen, r *pawl.Review, where string, now time.Time) {
	op := r.Operation
	if len(r.LookFor) > 0 {
		heading(out, "What to look for at the provider")
		var facts [][2]string
		for _, l := range r.LookFor {
			facts = append(facts, [2]string{l.What, l.Value})
		}
		writeFacts(out, facts)
	}
	heading(out, "What you can do")
	writeFacts(out, [][2]string{{"waits since", when(r.Since)}, {"a yes until", when(r.Expires)}, {"key until", when(r.KeyUntil)}})
	if op.Tenant != "" {
		where += " --tenant " + quote(op.Tenant)
	}
	for _, o := range r.Offers {
		if !o.Legal && !o.Waiver {
			continue
		}
		also := ""
		switch {
		case o.Waiver:
			also = " --waiver REASON"
		case o.Choice == pawl.ChoiceHappened:
			also = " --ref REF"
		}
		out.Line(terminal.Escape(fmt.Sprintf("  pawl reviews decide %s %s%s --version %d", op.ID, dashed(o.Choice), where, op.Version)), also, " --who YOU --why REASON")
	}
	for _, o := range r.Offers {
		if !o.Legal && o.Code != pawl.RefusedStatus {
			out.Line(out.Paint(terminal.Dim, terminal.Escape(fmt.Sprintf("  not %s: %s", dashed(o.Choice), o.Why))))
		}
	}
}

// dashed is a choice as it is typed.
func dashed(c pawl.Choice) string { return strings.ReplaceAll(string(c), "_", "-") }
