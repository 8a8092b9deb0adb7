// Command schemafile writes the JSON Schema of contract files.
package main

import (
	"log"
	"os"

	"github.com/pawl-dev/pawl/contract"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: schemafile FILE")
	}
	schema, err := contract.Schema()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], schema, 0o644); err != nil {
		log.Fatal(err)
	}
}
