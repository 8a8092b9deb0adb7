package contract

import (
	"fmt"
	"strings"
)

//go:generate go run ./internal/presetpage ../docs/presets.md

// PresetPage is the manual's page of presets: what each declares and leaves open, and each
// claim with its source and day.
func PresetPage() (string, error) {
	var b strings.Builder
	b.WriteString(`# Presets

What is known of well-known providers' operations, as terms that a contract takes over with ` + "`use`" + `
([how](contract.md#presets)). This page is made from the presets by ` + "`go generate ./contract`" + `.

A claim is what a provider documents, with the page and the day it was last read; none was tried against the
provider itself, so each counts as declared. What is listed as unknown was not found, stays absent, and
permits nothing: without a retention nothing is ever sent again, without a lag absence proves nothing.
Check a preset against the provider's pages of today before money depends on it.
`)
	provider := ""
	for _, name := range Presets() {
		p, _, _ := strings.Cut(name, "/")
		upstream := "there: {use: " + p + "}"
		if presetEntries(p, "upstream") == nil {
			upstream = "there: {url: https://example.com}"
		}
		f, err := Parse(name, []byte("version: 1\nupstreams:\n  "+upstream+"\ntools:\n  it:\n    use: "+name+"\n    upstream: there\n"), nil)
		if err != nil {
			return "", err
		}
		d := Declarations(f)[0]
		if p != provider {
			provider = p
			fmt.Fprintf(&b, "\n## %s\n", providerName(p))
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s. ", name, d.Class)
		if len(d.Unknown) > 0 {
			fmt.Fprintf(&b, "Unknown: %s.", strings.Join(d.Unknown, ", "))
		}
		b.WriteString("\n\n| term | declared |\n|---|---|\n")
		for _, t := range d.Terms {
			fmt.Fprintf(&b, "| `%s` | %s |\n", t.Name, cell(t.Value))
		}
		b.WriteString("\n| claim | source | read on |\n|---|---|---|\n")
		for _, c := range d.Claims {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Claim, c.Source, c.VerifiedOn)
		}
	}
	return b.String(), nil
}

// cell is a term in a table: what reads like code is set as code.
func cell(value string) string {
	if strings.ContainsAny(value, "=(") {
		return "`" + strings.ReplaceAll(value, "|", `\|`) + "`"
	}
	return value
}

// providerName is the provider's own name.
func providerName(preset string) string {
	src, _ := presetFiles.ReadFile("presets/" + preset + ".yaml") // a preset's name is one of the files
	if s, ok := valueOf(parseYAML(src, newReport(preset, src)), "provider").(interface{ GetValue() any }); ok {
		return fmt.Sprint(s.GetValue())
	}
	return preset
}
