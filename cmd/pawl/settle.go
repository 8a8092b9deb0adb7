package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newSettle() *cobra.Command {
	var at place
	var d pawl.Decision
	var tenant, result string
	var happened, didNot, asJSON bool
	c := &cobra.Command{
		Use:   "settle ID",
		Short: "Record what a person found out about an open operation",
		Long: `Record what a person found out at the provider about an operation that is UNKNOWN.

--version is the version that you looked at, as 'pawl ops show' prints it: if the
operation has changed since, nothing is recorded. --did-not-happen is taken only when
no request can arrive any more, unless --waiver says how you know better.`,
		Example: `  pawl settle op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e --version 4 --happened --ref re_1017 \
      --who ana --why "seen in the provider's dashboard"`,
		Args: oneArg("ID"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			d.Happened = happened
			if d.Result, err = checkDecision(c, &d, happened, didNot, result); err != nil {
				return err
			}
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			ex := pawl.New(db, &pawl.Options{Log: slog.New(slog.DiscardHandler)})
			env, err := ex.Settle(c.Context(), tenant, id, d)
			var refused *pawl.Refusal
			if errors.As(err, &refused) && refused.Why == pawl.RefusedVersion {
				if op, got := db.Get(c.Context(), tenant, id); got == nil && d.Version > op.Version {
					return usage("settle %s: there is no version %d yet: it is at version %d", id, d.Version, op.Version)
				} else if got == nil {
					return fmt.Errorf("settle %s: it is at version %d, you looked at version %d: %w", id, op.Version, d.Version, err)
				}
			}
			if err != nil {
				return fmt.Errorf("settle %s: %w", id, err)
			}
			return writeEnvelope(terminal.New(c.OutOrStdout()), &env, asJSON)
		},
	}
	at.flags(c)
	f := c.Flags()
	f.BoolVar(&happened, "happened", false, "the effect exists")
	f.BoolVar(&didNot, "did-not-happen", false, "the effect does not exist and cannot come any more")
	f.StringVar(&d.Who, "who", "", "who decides")
	f.StringVar(&d.Why, "why", "", "how you know")
	wholeFlag(c, &d.Version, "version", 0, 1, math.MaxInt64, "version of the operation that you looked at")
	f.StringVar(&d.Ref, "ref", "", "the provider's id of the effect")
	f.StringVar(&result, "result", "", "the provider's result: JSON")
	f.StringVar(&d.Waiver, "waiver", "", "why --did-not-happen is true before its time")
	f.StringVar(&tenant, "tenant", "", "tenant of the operation")
	jsonFlag(c, &asJSON)
	return c
}

// checkDecision refuses a decision that leaves something open, and returns its result.
func checkDecision(c *cobra.Command, d *pawl.Decision, happened, didNot bool, result string) (json.RawMessage, error) {
	switch {
	case happened == didNot:
		return nil, usage("say one of --happened and --did-not-happen")
	case strings.TrimSpace(d.Who) == "" || strings.TrimSpace(d.Why) == "":
		return nil, usage("a decision names --who decides and --why")
	case !c.Flags().Changed("version"):
		return nil, usage("--version is missing: look at the operation with 'pawl ops show ID', which prints it")
	case didNot && (d.Ref != "" || result != ""):
		return nil, usage("--ref and --result belong to an effect that happened")
	case happened && d.Waiver != "":
		return nil, usage("--waiver belongs to --did-not-happen")
	case result == "":
		return nil, nil
	}
	if _, err := pawl.ParseJSON([]byte(result)); err != nil {
		return nil, usage("--result: %w", err)
	}
	return json.RawMessage(result), nil
}
