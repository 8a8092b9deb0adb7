package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/server"
)

func newCall() *cobra.Command {
	var at place
	var what intention
	var again, asJSON bool
	var deadline, lease time.Duration
	c := &cobra.Command{
		Use:   "call TOOL",
		Short: "Have the effect of one call happen once",
		Long: `Have the effect of one call happen once, and answer with the envelope that a
model would read. The same call again replays the answer and sends nothing.

An answer that is late is waited for until the turn's deadline. What is open then
is settled by 'pawl sweep' or by the next call that asks.`,
		Example: `  pawl call issue_refund -c pawl.yaml --run run-7 --step 3 \
      --args '{"order_id":"A-1182","amount":49.90,"currency":"EUR"}'`,
		Args: oneArg("TOOL"),
		RunE: func(c *cobra.Command, args []string) error {
			call, err := what.call(c, args[0])
			if err != nil {
				return err
			}
			call.Again = again
			ctx, cancel := context.WithTimeout(c.Context(), deadline)
			defer cancel()
			o := at.options()
			o.Executor = pawl.Options{Lease: lease, Log: slog.New(slog.DiscardHandler)}
			env, err := once(ctx, o, call)
			if env != nil {
				if err := writeEnvelope(terminal.New(c.OutOrStdout()), env, asJSON); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
			if next := nextFor(env, c); next != "" {
				fmt.Fprintln(c.ErrOrStderr(), next)
			}
			return ended(env.Status)
		},
	}
	at.flags(c)
	what.flags(c)
	c.Flags().BoolVar(&again, "again", false, "an effect that the run already had is wanted once more, at this new step")
	timeFlag(c, &deadline, "deadline", 45*time.Second, "length of the turn; 2s of it are kept to report in")
	timeFlag(c, &lease, "lease", 30*time.Second, "how long a worker that died keeps its lease")
	jsonFlag(c, &asJSON)
	return c
}

// nextFor says what whoever typed the call can do about its end, or nothing.
func nextFor(env *pawl.Envelope, c *cobra.Command) string {
	if env.ActionTaken == pawl.Refused {
		return hintForReason(env.Reason)
	}
	if env.NextAction != pawl.AskUser || env.OperationID == "" {
		return ""
	}
	tenant := ""
	if v := c.Flags().Lookup("tenant").Value.String(); v != "" {
		tenant = " --tenant " + quote(v)
	}
	return "What was sent and seen, and what you can do: pawl ops show " + env.OperationID + placeOf(c) + terminal.Escape(tenant)
}

// reportTime is what is left of a turn when listening for late answers ends.
const reportTime = time.Second

// once makes one call in an executor that lives as long as the call. It uses what is left
// of the turn to hear a late answer. The envelope is nil where there was no call.
func once(ctx context.Context, o *server.Options, call pawl.Call) (_ *pawl.Envelope, err error) {
	s, err := server.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	end, _ := ctx.Deadline()
	listen, cancel := context.WithDeadline(ctx, end.Add(-reportTime))
	defer cancel()
	defer func() {
		if closed := s.Close(listen); err == nil {
			err = closed
		}
	}()
	env, err := s.Executor().Do(ctx, call)
	if env.Reason == pawl.ReasonUnknownTool {
		var known []string
		for _, k := range s.Executor().Contracts() {
			known = append(known, k.Tool)
		}
		return &env, &exit{exitNoEffect, noTool(call.Tool, known)}
	}
	if err != nil || !env.Status.Open() || env.OperationID == "" {
		return &env, err
	}
	s.Executor().Stop(listen)
	id, err := pawl.ParseID(env.OperationID)
	if err != nil {
		return &env, err
	}
	last, err := s.Executor().Status(context.WithoutCancel(ctx), call.Tenant, call.Actor, id)
	if err != nil {
		return &env, err
	}
	last.ActionTaken, last.Differs = env.ActionTaken, env.Differs
	return &last, nil
}

// styleOf is how a status is set off.
func styleOf(s pawl.Status) terminal.Style {
	switch {
	case s == pawl.Succeeded:
		return terminal.Green
	case s.Open():
		return terminal.Yellow
	default:
		return terminal.Red
	}
}

func writeEnvelope(out *terminal.Screen, env *pawl.Envelope, asJSON bool) error {
	if asJSON {
		return writeJSON(out, env)
	}
	out.Line(out.Paint(styleOf(env.Status), string(env.Status)), "  ", terminal.Escape(env.Effect))
	rows := [][2]string{
		{"operation", env.OperationID}, {"reason", string(env.Reason)}, {"action", string(env.ActionTaken)},
		{"next", string(env.NextAction)}, {"retry safe", yesNo(env.RetrySafe)}, {"ref", env.ResultRef},
		{"differs", strings.Join(env.Differs, ", ")}, {"result", string(env.Result)},
	}
	writeFacts(out, rows)
	for i, line := range terminal.Wrap(terminal.Escape(env.Message), out.Width()-14) {
		label := ""
		if i == 0 {
			label = "message"
		}
		out.Printf("  %s%s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-12s", label)), line)
	}
	return nil
}

// writeFacts writes the facts that are known, one a line.
func writeFacts(out *terminal.Screen, rows [][2]string) {
	for _, r := range rows {
		if r[1] != "" {
			out.Printf("  %s%s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-12s", r[0])), terminal.Escape(r[1]))
		}
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
