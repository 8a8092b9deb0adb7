package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/receiver/receivertest"
)

// tried is what `pawl drill receiver --json` writes.
type tried struct {
	URL string `json:"url"`
	// OK: no vector failed. Vectors that were not tried do not count.
	OK       bool                   `json:"ok"`
	Passed   int                    `json:"passed"`
	Failed   int                    `json:"failed"`
	NotTried int                    `json:"not_tried"`
	Findings []receivertest.Finding `json:"findings"`
}

func newDrillReceiver() *cobra.Command {
	var t receivertest.Target
	var restart, down, up string
	var asJSON bool
	c := &cobra.Command{
		Use:   "receiver URL",
		Short: "Try whether a service carries each request with a key out once",
		Long: `Try whether a service carries each request with an Idempotency-Key out once. The
service is a route with an effect that takes POST with a JSON body; several dozen
effects are made, so point it at a test system. Some vectors need more than the URL:
a count of effects, a second caller, a restart. What is missing is said, and is no
failure; a service that obeys the header Receiver-Drill in its test build can be
tried on all of them. The exit code is 1 if a vector failed. docs/receiver.md lists them.`,
		Example: `  pawl drill receiver http://127.0.0.1:8080/moves --body '{"sku":"A","n":1}' --effects http://127.0.0.1:8080/effects`,
		Args:    oneArg("URL"),
		RunE: func(c *cobra.Command, args []string) error {
			t.URL = args[0]
			for name, text := range map[string]string{"URL": t.URL, "--other": t.Other, "--node": t.Node, "--effects": t.Effects, "--record": t.Record, "--undo": t.Undo} {
				u, err := url.Parse(strings.ReplaceAll(text, "{key}", "key"))
				if (text != "" || name == "URL") && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
					return usage("%s: want an absolute URL such as http://127.0.0.1:8080/moves", name)
				}
			}
			for name, text := range map[string]string{"--record": t.Record, "--undo": t.Undo} {
				if text != "" && !strings.Contains(text, "{key}") {
					return usage("%s: say where the key is, such as http://127.0.0.1:8080/moves/{key}", name)
				}
			}
			if (down == "") != (up == "") {
				return usage("--store-down and --store-up belong together")
			}
			if restart != "" {
				t.Restart = func(ctx context.Context) error { return shell(ctx, "--restart", restart) }
			}
			if down != "" {
				t.Store = func(ctx context.Context, back bool) error {
					if back {
						return shell(ctx, "--store-up", up)
					}
					return shell(ctx, "--store-down", down)
				}
			}
			out := terminal.New(c.OutOrStdout())
			findings, err := receivertest.Check(c.Context(), &t)
			if err != nil {
				return err
			}
			r := tried{URL: t.URL, Findings: findings}
			for _, f := range findings {
				switch f.Verdict {
				case receivertest.Passed:
					r.Passed++
				case receivertest.Failed:
					r.Failed++
				default:
					r.NotTried++
				}
			}
			r.OK = r.Failed == 0
			if asJSON {
				if err := writeJSON(out, r); err != nil {
					return err
				}
			} else {
				writeTried(out, &r)
			}
			switch {
			case r.OK:
				return nil
			case asJSON:
				return &exit{code: exitError}
			}
			return fmt.Errorf("%s failed", count(r.Failed, "vector"))
		},
	}
	f := c.Flags()
	f.StringVar(&t.Other, "other", "", "another route with an effect, for the scope of keys")
	f.StringVar(&t.Node, "node", "", "the route at another process of the service")
	f.StringVar(&t.Record, "record", "", "URL that tells what is known of a key, and fences it with ?fence=1: it has {key}")
	f.StringVar(&t.Undo, "undo", "", "URL that undoes what a key did, by POST: it has {key}")
	f.StringVar(&t.NotAfter, "not-after", "", "header of a not-after, such as Pawl-Not-After, if it is enforced")
	f.StringVar(&t.Body, "body", "", `request: JSON (default {"amount": 1})`)
	f.StringVar(&t.OtherBody, "other-body", "", `request for something else: JSON (default {"amount": 2})`)
	f.StringVar(&t.Authorization, "authorization", "", "header of the caller (default Bearer alice)")
	f.StringVar(&t.OtherAuthorization, "other-authorization", "", "header of another caller")
	f.StringVar(&t.Effects, "effects", "", `URL that tells how many effects there are: {"count": 3}`)
	f.BoolVar(&t.Drills, "drills", false, "the service obeys the header Receiver-Drill")
	f.DurationVar(&t.Retention, "retention", 0, "how long the service keeps answers, if that can be waited for")
	f.DurationVar(&t.Lease, "lease", 0, "how long the service works on a request at most, if that can be waited for")
	f.StringVar(&restart, "restart", "", "shell command that kills the service and starts it again")
	f.StringVar(&down, "store-down", "", "shell command that takes the service's database away")
	f.StringVar(&up, "store-up", "", "shell command that gives it back")
	jsonFlag(c, &asJSON)
	return c
}

// shell lets a person's own command restart their service.
func shell(ctx context.Context, flag, command string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

func writeTried(out *terminal.Screen, r *tried) {
	for _, f := range r.Findings {
		style := map[receivertest.Verdict]terminal.Style{receivertest.Passed: terminal.Green, receivertest.Failed: terminal.Red}[f.Verdict]
		if style == "" {
			style = terminal.Cyan
		}
		out.Line(fmt.Sprintf("%-5s ", f.Vector), out.Paint(style, fmt.Sprintf("%-9s", f.Verdict)), "  ", f.Asks)
		if f.Says == "" {
			continue
		}
		for _, line := range terminal.Wrap(terminal.Escape(f.Says), out.Width()-17) {
			out.Line("                 ", line)
		}
	}
	out.Line(fmt.Sprintf("%d passed, %d failed, %d not tried", r.Passed, r.Failed, r.NotTried))
}
