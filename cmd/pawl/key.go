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
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/internal/spelling"
)

// derived is what `pawl key --json` writes.
type derived struct {
	Tool     string                      `json:"tool"`
	Scope    pawl.Scope                  `json:"scope"`
	Identity map[string]any              `json:"identity"`
	Blob     string                      `json:"blob"`
	SecretID string                      `json:"secret_id"`
	Root     pawl.Key                    `json:"root"`
	Key      string                      `json:"key"`
	Forms    map[pawl.KeyEncoding]string `json:"encodings"`
}

var keyForms = []pawl.KeyEncoding{
	pawl.KeyHex, pawl.KeyHex64, pawl.KeyUUID, pawl.KeyBase62, pawl.KeyBase32Hex, pawl.KeyBase32Hex26,
}

func newKey() *cobra.Command {
	var config string
	var what intention
	var gen int
	var asJSON bool
	c := &cobra.Command{
		Use:   "key TOOL",
		Short: "Show the identity of a call and the key it gets",
		Long: `Show the canonical identity of a call, the bytes that are hashed, and the
idempotency key in every form. Nothing is recorded and nothing is sent.`,
		Example: `  pawl key issue_refund --run run-7 --step 3 --args '{"order_id":"A-1182","amount":49.9}'`,
		Args:    oneArg("TOOL"),
		RunE: func(c *cobra.Command, args []string) error {
			call, err := what.call(c, args[0])
			if err != nil {
				return err
			}
			k, err := derive(config, &call, gen)
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, k)
			}
			return writeKey(out, k)
		},
	}
	c.Flags().StringVarP(&config, "config", "c", "pawl.yaml", "contract file")
	what.flags(c)
	wholeFlag(c, &gen, "gen", 0, 0, math.MaxInt32, "generation: how often the identity began anew")
	jsonFlag(c, &asJSON)
	return c
}

var errNoKey = errors.New("a read has no effect, so it has no key")

// derive computes the key of a call under the contract file.
func derive(config string, call *pawl.Call, gen int) (*derived, error) {
	file, err := contract.Load(config, nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	tools, err := file.Tools()
	if err != nil {
		return nil, err
	}
	chooseIn(tools, call)
	k, err := contractOf(tools, call.Tool)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config, err)
	}
	if k.Class == pawl.Read {
		return nil, fmt.Errorf("%s: %w", call.Tool, errNoKey)
	}
	secrets, err := file.KeySecrets()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config, err)
	}
	id, err := pawl.Identify(k, call)
	if err != nil {
		return nil, err
	}
	blob, err := id.Blob(gen)
	if err != nil {
		return nil, err
	}
	var secret pawl.Secret
	if list := secrets(call.Tenant); len(list) > 0 {
		secret = list[0]
	}
	root := pawl.DeriveKey(secret, blob)
	d := &derived{
		Tool: call.Tool, Scope: id.Scope, Identity: id.Identity, Blob: string(blob), SecretID: secret.ID,
		Root: root, Key: root.String(), Forms: map[pawl.KeyEncoding]string{},
	}
	for _, f := range keyForms {
		if d.Forms[f], err = root.Encode(f); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// chooseIn makes a call one of the tool whose contract holds for its arguments.
func chooseIn(tools []pawl.Tool, call *pawl.Call) {
	for i := range tools {
		if s, ok := tools[i].Port.(pawl.Selector); ok && tools[i].Contract.Tool == call.Tool {
			call.Tool, call.Args = s.Select(call.Args)
			return
		}
	}
}

// contractOf finds a tool by name.
func contractOf(tools []pawl.Tool, name string) (*pawl.Contract, error) {
	known := make([]string, 0, len(tools))
	for i := range tools {
		if tools[i].Contract.Tool == name {
			k := tools[i].Contract.WithDefaults()
			return &k, nil
		}
		known = append(known, tools[i].Contract.Tool)
	}
	return nil, noTool(name, known)
}

// noTool says which tools there are, and which of them was most likely meant.
func noTool(name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("there is no tool %q: the contract file declares none", name)
	}
	slices.Sort(known)
	list := strings.Join(known, ", ")
	if meant := spelling.Nearest(name, known); meant != "" {
		return fmt.Errorf("there is no tool %q; did you mean %s? There are: %s", name, meant, list)
	}
	return fmt.Errorf("there is no tool %q; there are: %s", name, list)
}

func writeKey(out *terminal.Screen, k *derived) error {
	identity, err := json.Marshal(k.Identity)
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	secret := "none: a plain hash, which who knows the identity can compute"
	if k.SecretID != "" {
		secret = k.SecretID
	}
	writeFacts(out, [][2]string{
		{"tool", k.Tool}, {"scope", string(k.Scope)}, {"identity", string(identity)}, {"blob", k.Blob}, {"secret", secret},
	})
	for _, f := range keyForms {
		out.Printf("  %s%s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-12s", f)), k.Forms[f])
	}
	return nil
}
