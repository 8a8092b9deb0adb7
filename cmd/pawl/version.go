package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

// build is what `pawl version --json` writes.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  pawl version --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b := thisBuild()
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, b)
			}
			out.Line("pawl ", b.Version, " (", b.Go, ", ", b.OS, "/", b.Arch, ")")
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
