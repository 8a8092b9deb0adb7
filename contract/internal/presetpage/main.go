// Command presetpage writes the manual's page of presets.
package main

import (
	"log"
	"os"

	"github.com/pawl-dev/pawl/contract"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: presetpage FILE")
	}
	page, err := contract.PresetPage()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], []byte(page), 0o644); err != nil {
		log.Fatal(err)
	}
}
